"""Filter and score by node groups: which groups of nodes a queue may use, and which it prefers.

The label ``volcano.sh/nodegroup-name`` of a node names its group.  Source: the plugin nodegroup of Volcano.
"""

from typing import Final

from quorate.placement import failures
from quorate.placement.failures import NodeStatuses
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.shapes import NodeGroupRule
from quorate.placement.vectors import Vector, np

NODE_GROUP_LABEL: Final = "volcano.sh/nodegroup-name"


def filter_node_groups(nodes: NodeColumns, rule: NodeGroupRule, statuses: NodeStatuses) -> None:
    if not rule.filters:
        return
    if not rule.has_valid_limits:
        statuses.reject(~nodes.vacant, failures.NODE_GROUP_LIMITS_INVALID)
        return
    groups = nodes.label(NODE_GROUP_LABEL)
    in_group = groups.present()
    if not rule.allows_no_group:
        statuses.reject(~nodes.vacant & ~in_group, failures.NO_NODE_GROUP)
    failure = failures.NODE_GROUP if rule.has_affinity else failures.NO_NODE_GROUP_AFFINITY
    statuses.reject(in_group & ~groups.in_values(rule.allowed), failure)
    if rule.full:
        statuses.reject(in_group & groups.in_values(rule.full), failures.NODE_GROUP_LIMIT)


def node_group_scores(nodes: NodeColumns, rule: NodeGroupRule) -> Vector:
    """Return the score of each node in millionths of a point; 0 for other groups and without a group."""
    groups, scores = nodes.label(NODE_GROUP_LABEL), dict(rule.scores)
    return groups.by_node(np.array([scores.get(group, 0) for group in groups.values], np.int64))
