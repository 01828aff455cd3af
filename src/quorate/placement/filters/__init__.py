"""Filters and scores of nodes for a pod, apart from resources.

``ConstraintEngine`` implements the interface in ``placement.framework`` for one cluster.  ``requirements``
compiles a pod shape; ``NodeConstraintIndex`` runs the filters in order and records a status per node
(``failures``).  Each kube-scheduler plugin has a module: ``taints``, ``node_affinity``, ``node_ports``,
``image_locality``, and those in ``inter_pod`` and ``volumes``.  They read nodes as columns (``node_columns``)
and placed pods through indexes.

The rules are those of kube-scheduler 1.36 with its default plugins and feature gates.
"""
