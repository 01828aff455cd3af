"""``quorate preflight``: what stands in the way of queueing in a cluster, and what to do about it."""
