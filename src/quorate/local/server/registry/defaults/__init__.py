"""What the server fills in for the built-in kinds: one module per family."""
