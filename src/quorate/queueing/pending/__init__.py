"""Pending workloads: their queue, queue order, shape, and effective requests."""
