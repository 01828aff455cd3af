"""Explanations of workloads and queues from the model: the same for the controllers and for commands.

Entry points: ``workload.explain_workload``, and the functions for cluster queues and local queues in
``queues``.
"""
