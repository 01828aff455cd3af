"""Which workload may start and with which flavors: order, assignment, preemption, fair sharing, lifecycle.

Entry points: ``state`` (the model), ``scheduling.cycle`` (``run_cycle``), ``lifecycle``, ``explain``.
Imports ``quota`` and ``api``; it is pure: no I/O, clock, randomness or log.
"""
