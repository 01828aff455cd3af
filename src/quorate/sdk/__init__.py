"""The Python API: clusters through a kubeconfig, for programs, notebooks and tests.

Entry point: ``cluster.Cluster``.  Everything here is synchronous, and built on the client and on the
functions of the commands.  Imports ``cli`` and what is below it.
"""
