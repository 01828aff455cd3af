"""Pure functions on API objects: decoding, validation, patches, tables."""
