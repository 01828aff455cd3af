"""What can be seen of the processes: metrics, the visibility API, health.

Entry points: ``recorder`` (metrics), ``visibility``, ``serving``.
Imports the cores and ``scheduler`` to read their state, and ``kube``; it decides and writes nothing.
"""
