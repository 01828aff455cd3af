"""Plugin ``nodegroup``: the ``affinity`` of a queue names the groups of nodes for its pods.

The session opens with the rule of each queue in the shapes of its pods (``Model.set_node_groups``), so that
filters, scores and diagnoses apply it like a node selector.  The limits of a queue follow what it allocates
during the session.  Source: the plugin of the same name of Volcano.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import NodeGroupArguments
from quorate.api.volcano import NodeGroupTerms, QueueAffinity
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue import Queue, with_ancestors
from quorate.gang.cache.queue_accounts import SessionAccounts, add
from quorate.gang.cache.task import CHARGED_STATUSES, Task
from quorate.gang.pending_reasons import QueueQuotaExceeded
from quorate.gang.session.callbacks import PluginCallbacks, Vote
from quorate.gang.session.session import Session
from quorate.gang.shortage import Shortage
from quorate.placement.filters.node_groups import NODE_GROUP_LABEL
from quorate.placement.resources import Amounts
from quorate.placement.scoring import MAX_NODE_SCORE, SCORE_UNIT
from quorate.placement.shapes import NodeGroupRule

_REQUIRED_SCORE: Final = MAX_NODE_SCORE * SCORE_UNIT
_PREFERRED_SCORE: Final = _REQUIRED_SCORE // 2  # added to it
_AVOIDED_SCORE: Final = -SCORE_UNIT
_NO_TERMS: Final = NodeGroupTerms()
_NO_AFFINITY: Final = QueueAffinity()


def nodegroup(session: Session, entry: PluginEntry) -> PluginCallbacks:
    """Return the callbacks for the limits of queues; the shapes of the pods have the other rules already."""
    limited = {name: queue.node_group_limits for name, queue in session.queues.items()}
    limits = {name: groups for name, groups in limited.items() if groups}
    if not limits or "Predicate" in entry.disabled:
        return PluginCallbacks()
    usage = NodeGroupUsage(session, limits)
    callbacks = PluginCallbacks(
        full_node_groups=usage.full_groups, on_allocate=usage.add, on_deallocate=usage.remove
    )
    if not session.rules.enqueue_checks:  # Volcano admits groups whatever these limits are
        return callbacks
    accounts = session.open_accounts(lambda queue: (queue,))
    return replace(
        callbacks,
        job_enqueueable=lambda gang: usage.refusal(gang, accounts),
        job_enqueued=accounts.reserve,
        job_dequeued=accounts.unreserve,
        accounts_renewed=accounts.renew,
    )


class NodeGroupUsage:
    """What queues with limits have allocated in each node group, as the session goes on.

    ``limits`` by queue, node group and resource.
    """

    def __init__(self, session: Session, limits: Mapping[str, Mapping[str, Mapping[str, int]]]) -> None:
        self._session = session
        self._limits = limits
        self._used: dict[tuple[str, str], Counter[str]] = {}  # by queue and group
        self._counted: dict[Key, tuple[str, str]] = {}  # the queue and group of each task in ``_used``
        for gang in session.model.gangs.values():
            if gang.queue in limits:
                for task in gang.with_status(*CHARGED_STATUSES):
                    self.add(task)

    def add(self, task: Task) -> None:
        queue, group = self._session.gang_of(task).queue, self._group_of(task.node)
        if group in self._limits.get(queue, ()):
            self._counted[task.key] = queue, group
            add(self._used.setdefault((queue, group), Counter()), task.request)

    def remove(self, task: Task) -> None:
        """Remove ``task``, which may have no node any more."""
        if task.key in self._counted:
            add(self._used[self._counted.pop(task.key)], task.request, -1)

    def full_groups(self, queue: Queue, request: Amounts) -> Sequence[str]:
        """Return the node groups in which ``queue`` may not allocate ``request`` as well."""
        full = []
        for group, limits in self._limits.get(queue.name, {}).items():
            used = self._used_in(queue.name, group)
            if any(0 < request.get(name, 0) > limit - used[name] for name, limit in limits.items()):
                full.append(group)
        return full

    def refusal(self, gang: Gang, accounts: SessionAccounts) -> QueueQuotaExceeded | Vote:
        """Return what the limits leave too little of for ``gang``, in all groups that it may use together."""
        limits, rule = self._limits.get(gang.queue, {}), gang.node_groups
        if not limits or rule is None or rule.allows_no_group or gang.min_resources is None:
            return Vote.ABSTAIN
        reserved = accounts.by_queue[gang.queue].reserved
        shortages = []
        for resource, amount in sorted(accounts.request_of(gang).items()):
            if amount <= 0 or not all(resource in limits.get(group, ()) for group in rule.allowed):
                continue
            at_most = sum(limits[group][resource] for group in rule.allowed)
            used = sum(self._used_in(gang.queue, group)[resource] for group in rule.allowed)
            free = at_most - used - reserved[resource]
            if amount > free:
                shortages.append(Shortage(resource, amount, free, at_most))
        return QueueQuotaExceeded(gang.queue, tuple(shortages)) if shortages else Vote.ABSTAIN

    def _used_in(self, queue: str, group: str) -> Counter[str]:
        return self._used.get((queue, group)) or Counter()

    def _group_of(self, node: str) -> str:
        """Return the node group of ``node``; "" if it has none."""
        index = self._session.cluster.index(node)
        stored = None if index is None else self._session.cluster.nodes[index]
        return "" if stored is None else stored.metadata.labels.get(NODE_GROUP_LABEL, "")


def node_group_rules(
    queues: Mapping[str, Queue], entries: Iterable[PluginEntry]
) -> Mapping[str, NodeGroupRule]:
    """Return the rule of each queue; none if no entry is of the plugin.

    With ``enableHierarchy`` a queue without ``affinity`` has that of its nearest ancestor with one.
    """
    entry = next(
        (candidate for candidate in entries if isinstance(candidate.arguments, NodeGroupArguments)), None
    )
    if entry is None:
        return {}

    def affinity_of(queue: Queue) -> QueueAffinity | None:
        lineage = with_ancestors(queue.name, queues) if entry.hierarchy else (queue,)
        return next((candidate.affinity for candidate in lineage if candidate.affinity is not None), None)

    return {
        name: _rule(affinity_of(queue) or _NO_AFFINITY, entry, queue.node_group_limits is not None)
        for name, queue in queues.items()
    }


def _rule(affinity: QueueAffinity, entry: PluginEntry, has_valid_limits: bool) -> NodeGroupRule:
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
        has_valid_limits=has_valid_limits,
        scores=tuple(sorted(scores.items())),
    )


def _scores(near: NodeGroupTerms, far: NodeGroupTerms, arguments: NodeGroupArguments) -> Mapping[str, int]:
    scores = dict.fromkeys(near.required, _REQUIRED_SCORE)
    preferred = tuple(dict.fromkeys(near.preferred))
    for index, group in enumerate(preferred):
        part = len(preferred) - index if arguments.preferred_order else len(preferred)
        scores[group] = scores.get(group, 0) + _PREFERRED_SCORE * part // len(preferred)
    return scores | dict.fromkeys(far.preferred, _AVOIDED_SCORE)
