"""A local cluster with Quorate in it: its description, its objects, and what runs it."""
