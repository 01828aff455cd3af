"""Filter and score by taints and tolerations; a cordoned node counts as tainted.

Source: the Kubernetes page "Taints and Tolerations" and kube-scheduler's plugins TaintToleration and
NodeUnschedulable.
"""

from typing import Final

from quorate.api.core import UNSCHEDULABLE_TAINT, Taint, Toleration, tolerates
from quorate.placement.failures import UNSCHEDULABLE, NodeStatuses, untolerated_taint
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.vectors import Mask, Vector, np

FILTERED_EFFECTS: Final = ("NoSchedule", "NoExecute")
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"

Taints = tuple[Taint, ...]
Tolerations = tuple[Toleration, ...]


def filter_unschedulable(nodes: NodeColumns, tolerations: Tolerations, statuses: NodeStatuses) -> None:
    if not tolerates(tolerations, UNSCHEDULABLE_TAINT):
        statuses.reject(nodes.unschedulable, UNSCHEDULABLE)


def filter_taints(nodes: NodeColumns, tolerations: Tolerations, statuses: NodeStatuses) -> None:
    """Reject nodes with untolerated taints; the reason names the first one of each node."""
    untolerated = [first_untolerated(taints, tolerations) for taints in nodes.taints.values]
    for taint in dict.fromkeys(taint for taint in untolerated if taint is not None):
        tainted = [
            taints for taints, first in zip(nodes.taints.values, untolerated, strict=True) if first == taint
        ]
        statuses.reject(nodes.taints.in_values(tainted), untolerated_taint(taint.key, taint.value))


def first_untolerated(taints: Taints, tolerations: Tolerations) -> Taint | None:
    """Return the first of ``taints`` that rejects the pod."""
    for taint in taints:
        if taint.effect in FILTERED_EFFECTS and not tolerates(tolerations, taint):
            return taint
    return None


def nodes_with_tolerated_taints(nodes: NodeColumns, tolerations: Tolerations) -> Mask:
    """Return the nodes without a taint that rejects the pod."""
    return nodes.taints.where(lambda taints: first_untolerated(taints, tolerations) is None)


def prefer_no_schedule_counts(nodes: NodeColumns, tolerations: Tolerations) -> Vector | None:
    """Return the number of untolerated ``PreferNoSchedule`` taints per node.

    None if no node has one.
    """
    counts = [_prefer_no_schedule_count(taints, tolerations) for taints in nodes.taints.values]
    return nodes.taints.by_node(np.array(counts, np.int64)) if any(counts) else None


def _prefer_no_schedule_count(taints: Taints, tolerations: Tolerations) -> int:
    return sum(taint.effect == PREFER_NO_SCHEDULE and not tolerates(tolerations, taint) for taint in taints)
