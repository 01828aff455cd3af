"""What is played: a world of manifests and workloads, and the jobs of its scenario, traces and models."""
