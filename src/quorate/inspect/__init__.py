"""Reading a cluster for answers: what the commands, the dashboard and the Python API have in common.

``errors`` and ``configuration_files`` report what a user can correct.  Nothing here prints or writes to a
cluster.  Imports ``install``, ``simulate`` and ``controllers``, and what is below them.
"""
