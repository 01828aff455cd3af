"""The process of the gang scheduler: it fills the model, runs sessions, binds and evicts.

Entry points: ``process`` (run until stopped), ``scheduler`` (sessions), ``feeds``, ``binder``.
Imports ``gang`` and everything below it, and ``kube``.
"""
