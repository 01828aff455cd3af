"""Validation of Jobs, Deployments, ReplicaSets and StatefulSets."""
