"""Topology-aware scheduling: what the controllers read of nodes and pods."""
