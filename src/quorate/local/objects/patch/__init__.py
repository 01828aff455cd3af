"""The four patch formats, and managed fields."""
