"""The queueing controllers: they watch, ask the core, and write what it decided.

Entry points: ``process`` (start and stop all), ``admission`` (the cycle), ``jobframework``, ``executor``.
Imports ``kube`` and everything below it, and ``observe``.
"""
