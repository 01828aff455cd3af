"""Taints and tolerations, and the cordon, which is tolerated like a taint.

Source: the Kubernetes page "Taints and Tolerations" and kube-scheduler's filters TaintToleration and
NodeUnschedulable.  The operators ``Lt`` and ``Gt`` (KEP-5471) are alpha and off in 1.36; as there, they
tolerate nothing.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from quorate.api.core import Taint, Toleration
from quorate.placement.filters.failures import UNSCHEDULABLE, NodeStatuses, untolerated
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.vectors import Mask, Vector

CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
FORBIDDING: Final = ("NoSchedule", "NoExecute")
DISCOURAGING: Final = "PreferNoSchedule"

Taints = tuple[Taint, ...]
Tolerations = tuple[Toleration, ...]


def filter_unschedulable(nodes: NodeColumns, tolerations: Tolerations, statuses: NodeStatuses) -> None:
    if not tolerates(tolerations, CORDON):
        statuses.reject(nodes.cordoned, UNSCHEDULABLE)


def filter_taints(nodes: NodeColumns, tolerations: Tolerations, statuses: NodeStatuses) -> None:
    """Name for each node the first of its taints that forbids the pod and is not tolerated."""
    against = [untolerated_taint(taints, tolerations) for taints in nodes.taints.values]
    for taint in dict.fromkeys(taint for taint in against if taint is not None):
        tainted = [
            taints for taints, first in zip(nodes.taints.values, against, strict=True) if first == taint
        ]
        statuses.reject(nodes.taints.among(tainted), untolerated(taint.key, taint.value))


def untolerated_taint(taints: Taints, tolerations: Tolerations) -> Taint | None:
    """The first of ``taints`` that keeps the pod away."""
    for taint in taints:
        if taint.effect in FORBIDDING and not tolerates(tolerations, taint):
            return taint
    return None


def tolerable(nodes: NodeColumns, tolerations: Tolerations) -> Mask:
    """The nodes none of whose taints keeps the pod away."""
    return nodes.taints.those(lambda taints: untolerated_taint(taints, tolerations) is None)


def discouraging_taints(nodes: NodeColumns, tolerations: Tolerations) -> Vector | None:
    """For each node, how many of its taints would rather not have the pod; None if there are none."""
    counts = [_discouraging(taints, tolerations) for taints in nodes.taints.values]
    return nodes.taints.spread(np.array(counts, np.int64)) if any(counts) else None


def _discouraging(taints: Taints, tolerations: Tolerations) -> int:
    return sum(taint.effect == DISCOURAGING and not tolerates(tolerations, taint) for taint in taints)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False
