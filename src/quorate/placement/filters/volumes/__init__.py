"""Filters for the volumes of a pod, and the binding of its claims."""
