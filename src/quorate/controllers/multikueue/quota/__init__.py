"""Quota of a manager's cluster queues that follows the quota of its worker clusters (KEP-9988, alpha)."""
