"""The Python API, for programs, notebooks and tests: simulations, and clusters through a kubeconfig.

Entry points: ``api``, with the names that ``import quorate`` offers, and ``cluster.Cluster``.  Everything is
synchronous, and built on the client and on ``inspect``.  Imports ``processes`` and what is below it.
"""
