"""What stands between a pod and a node, apart from room.

``ConstraintEngine`` follows a cluster and filters its nodes for pods of a shape (``placement.framework``).
Each constraint has a module that states it: ``taints``, ``node_affinity``, ``ports``, ``volumes`` and
``volume_limits``, ``spread``, ``pod_affinity``, and ``images``, which only prefers.  They share three ways of
knowing things: facts of nodes in columns (``nodes``), pods counted by the terms that ask for them
(``affinity_index``, ``headcounts``), and claims looked up when a pod is read (``claims``, ``storage``).
``ground`` asks them in order, ``requirements`` is what of a shape they are asked about, ``failures`` are the
answers, and ``binding`` is what the scheduler must write about claims before a bind.

The rules are those of kube-scheduler 1.36 with its default plugins and feature gates.
"""
