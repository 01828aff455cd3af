"""The benchmark of planned starts."""
