"""How long clients of busy controllers wait: requests during cycles over many pending workloads."""
