"""The benchmark of topology-aware scheduling and of the check against nodes: ``python -m bench.topology``."""
