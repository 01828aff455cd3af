"""Windows: the quota and the nodes that Reservations keep, when, and for which workloads.

``scheduling.reserved_windows`` decides what may start beside them.
"""
