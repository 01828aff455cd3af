"""What the built-in kinds refuse: one module per family of rules."""
