"""Connections to worker clusters: credentials, conditions and the collection of garbage."""
