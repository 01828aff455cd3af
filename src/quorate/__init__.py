"""Quorate decides which batch jobs may start, when, and where."""

__version__ = "0.1.0"
