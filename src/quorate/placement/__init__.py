"""Which nodes can run which pods: capacities, filters, scores, many equal pods at once.

Entry points: ``cluster`` (the nodes), ``filters``, ``scoring``, ``node_finder``.
Imports ``quota`` and ``api``; it is pure: no I/O, clock, randomness or log.
"""
