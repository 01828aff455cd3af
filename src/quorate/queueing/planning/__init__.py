"""Planned starts as values: which queues plan, until when workloads run at most, and what was promised.

``scheduling.planned_starts`` computes the plans, and decides what may start before them.
"""
