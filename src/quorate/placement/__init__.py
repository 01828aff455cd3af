"""Node selection for pods: capacities, filters, scores, many equal pods at a time.

Entry points: ``cluster`` (the nodes and their pods), ``shapes``, ``filters.engine``, ``scoring``,
``node_finder``, and ``topology`` for pod sets that need domains.  ``resources`` needs no numpy, as it also
serves processes that place no pods; so this module imports nothing.
Imports ``quota`` and ``api``; it is pure: no I/O, clock, randomness or log.
"""
