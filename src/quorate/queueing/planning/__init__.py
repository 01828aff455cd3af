"""Planned starts as values: which queues plan, until when workloads run at most, and what was announced.

``scheduling.planned_starts`` computes the plans, and decides what may start before them.
"""
