"""Quorate decides which batch jobs may start, when, and where."""

__version__ = "0.2.0"
