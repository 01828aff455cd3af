"""Deployments, ReplicaSets and StatefulSets: sets of pods that serve rather than end."""
