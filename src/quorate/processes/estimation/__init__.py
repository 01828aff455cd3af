"""Estimates of when waiting workloads start, computed in a process beside the controllers."""
