"""Validation of the built-in kinds: a table of field rules, and Python rules that relate fields."""
