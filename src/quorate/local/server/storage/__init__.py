"""Stored objects: the revision log, version conversion, and the encoding of built-in kinds."""
