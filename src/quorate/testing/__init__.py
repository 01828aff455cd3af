"""The pytest plugin: local clusters for the tests of operators and pipelines.

``plugin`` has the fixtures, ``server`` starts clusters from a process that has imported everything once, and
``cluster_process`` is that process.  Imports ``sdk``, ``processes`` and what is below them, but only when
a test asks for a cluster.
"""
