"""Filters for the volumes of a pod, and the binding of its claims.

``storage`` indexes claims, volumes and storage classes; ``requirements`` derives from it what the claims of a
pod require of its node; ``filters`` apply that to the nodes; ``binding`` decides what to write before the pod
is bound.
"""
