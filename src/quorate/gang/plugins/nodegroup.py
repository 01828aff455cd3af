"""Plugin ``nodegroup``: the ``affinity`` of a queue names the groups of nodes for its pods.

The session opens with the rule of each queue in the shapes of its pods (``Model.set_node_groups``), so that
filters, scores and diagnoses apply it like a node selector.  Source: the plugin of the same name of Volcano.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import NodeGroupArguments
from quorate.api.volcano import NodeGroupTerms, QueueAffinity
from quorate.gang.cache.queue import Queue, with_ancestors
from quorate.gang.session.callbacks import PluginCallbacks
from quorate.gang.session.session import Session
from quorate.placement.filters.node_groups import NodeGroupRule
from quorate.placement.scoring import MAX_NODE_SCORE, SCORE_UNIT

_REQUIRED_SCORE: Final = MAX_NODE_SCORE * SCORE_UNIT
_PREFERRED_SCORE: Final = _REQUIRED_SCORE // 2  # added to it
_AVOIDED_SCORE: Final = -SCORE_UNIT
_NO_TERMS: Final = NodeGroupTerms()
_NO_AFFINITY: Final = QueueAffinity()


def nodegroup(session: Session, entry: PluginEntry) -> PluginCallbacks:
    """Return no callbacks: the shapes of the pods have the rules already."""
    return PluginCallbacks()


def node_group_rules(
    queues: Mapping[str, Queue], entries: Iterable[PluginEntry]
) -> Mapping[str, NodeGroupRule]:
    """Return the rule of each queue; none if no entry is of the plugin.

    With ``enableHierarchy`` a queue without ``affinity`` has that of its nearest ancestor with one.
    """
    entry = next((each for each in entries if isinstance(each.arguments, NodeGroupArguments)), None)
    if entry is None:
        return {}

    def affinity_of(queue: Queue) -> QueueAffinity | None:
        lineage = with_ancestors(queue.name, queues) if entry.hierarchy else (queue,)
        return next((each.affinity for each in lineage if each.affinity is not None), None)

    return {name: _rule(affinity_of(queue) or _NO_AFFINITY, entry) for name, queue in queues.items()}


def _rule(affinity: QueueAffinity, entry: PluginEntry) -> NodeGroupRule:
    """Return the rule of ``affinity``.

    Only groups that it names are allowed.  Preferred anti-affinity allows a group too, and overrides all
    other terms.
    """
    assert isinstance(entry.arguments, NodeGroupArguments), f"{entry.arguments} are not for nodegroup"
    near, far = affinity.node_group_affinity or _NO_TERMS, affinity.node_group_anti_affinity or _NO_TERMS
    allowed = {*near.required, *near.preferred}.difference(far.required).union(far.preferred)
    has_affinity = any((near.required, near.preferred, far.required, far.preferred))
    scores = {} if "NodeOrder" in entry.disabled else _scores(near, far, entry.arguments)
    return NodeGroupRule(
        filters="Predicate" not in entry.disabled,
        has_affinity=has_affinity,
        allowed=tuple(sorted(allowed)),
        allows_no_group=not entry.arguments.strict and not has_affinity,
        scores=tuple(sorted(scores.items())),
    )


def _scores(near: NodeGroupTerms, far: NodeGroupTerms, arguments: NodeGroupArguments) -> Mapping[str, int]:
    scores = dict.fromkeys(near.required, _REQUIRED_SCORE)
    preferred = tuple(dict.fromkeys(near.preferred))
    for index, group in enumerate(preferred):
        part = len(preferred) - index if arguments.preferred_order else len(preferred)
        scores[group] = scores.get(group, 0) + _PREFERRED_SCORE * part // len(preferred)
    return scores | dict.fromkeys(far.preferred, _AVOIDED_SCORE)
