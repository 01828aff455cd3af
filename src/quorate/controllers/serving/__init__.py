"""Deployments, StatefulSets and LeaderWorkerSets: sets of pods that serve."""
