"""``quorate preflight``: find problems of a cluster that prevent queueing, each with a remedy."""
