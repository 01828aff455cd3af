"""The job framework: what jobs of all kinds have in common."""
