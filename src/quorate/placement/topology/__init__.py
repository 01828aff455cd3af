"""Topology-aware placement: how many pods of a pod set run in which domain of a flavor (rack, block, host).

``tree`` has the domains of a flavor and their free capacity, ``leaf_hosts`` the nodes below domains of the
lowest level where these are not hosts, ``counting`` computes how many pods and slices
each domain can hold, ``search`` chooses domains and descends to the leaves, ``balanced`` is another choice,
which distributes pods evenly.  ``assignment.place`` is the entry point.

Source of the rules: KEP-2724 (topology-aware scheduling), as Kueue 0.19 implements it.
"""
