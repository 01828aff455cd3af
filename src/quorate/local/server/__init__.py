"""A Kubernetes API server for one machine: HTTP in front, SQLite behind."""
