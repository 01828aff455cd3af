"""Stored objects: the revision log, conversion between versions, and the encoding of built-in kinds."""
