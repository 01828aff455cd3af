"""Defaults of the built-in kinds."""
