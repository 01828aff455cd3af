"""Topology-aware scheduling (KEP-2724): the domains of flavors, and the places of the pods of workloads."""
