"""Filters and scores by placed pods: pod affinity, anti-affinity, topology spread.

``pod_selectors`` compiles the terms and constraints of a pod.  ``affinity_index`` finds the placed pods that
they select, and the placed pods' own terms; ``topology_counts`` sums such pods by topology domain.
"""
