"""Checks of a cluster: problems that prevent queueing, each with a remedy."""
