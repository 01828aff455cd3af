"""Controllers of Deployments, ReplicaSets and StatefulSets."""
