"""The queueing controllers: they watch objects, ask the cores for decisions and write them.

Entry points: ``process`` (starts and stops all controllers), ``admission.driver`` (the admission cycle),
``jobframework.reconciler`` (jobs of all kinds), ``executor`` (writes and events of a plan).
Imports ``kube`` and everything below it, and ``observe``.
"""
