"""Exact amounts and the tree of cohorts and cluster queues that share them."""
