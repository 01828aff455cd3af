"""A Kubernetes on one machine: API server on SQLite, built-in controllers, simulated nodes.

Entry points: ``cluster`` (run all), ``server``, ``controllers``, ``nodes``; reached over HTTP only.
Imports ``api`` and ``kube``; it does not know Quorate.
"""
