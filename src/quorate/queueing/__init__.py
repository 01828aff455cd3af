"""Quota admission of workloads: queue order, flavor assignment, preemption, fair sharing, lifecycle.

Entry points: ``state`` (the model), ``scheduling.cycle`` (``AdmissionCycle``), ``lifecycle``, ``explain``.
Imports ``placement``, ``quota`` and ``api``; it is pure: no I/O, clock, randomness or log.
"""
