"""Filters and scores that depend on the pods placed nearby: inter-pod affinity and topology spread."""
