"""Custom resources: the definition of a kind, and what its schema says about its objects."""
