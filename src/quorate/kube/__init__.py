"""Any Kubernetes API: requests, informers, feeds, writes, expectations, events, leader election.

Entry points: ``client``, ``informer``, ``feed``, ``writes``, ``controller.reconcile``.
Imports ``api`` and knows no kind beyond it.
"""
