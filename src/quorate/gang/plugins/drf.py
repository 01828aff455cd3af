"""Plugin ``drf``: order gangs by ascending dominant share of the cluster.

With ``enableHierarchy`` queues are ordered by their shares in a weighted tree.
Source: the plugin drf of Volcano; Ghodsi et al., Dominant Resource Fairness (NSDI 2011).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue import Queue, weighted_path_of
from quorate.gang.cache.queue_accounts import add
from quorate.gang.cache.task import Task
from quorate.gang.deserved import dominant_share
from quorate.gang.session.callbacks import PluginCallbacks, SortKey
from quorate.gang.session.session import Session
from quorate.placement.resources import Amounts, FractionalAmounts

# Shares that differ by no more count as equal in the choice of victims.
SHARE_TOLERANCE: Final = Fraction(1, 10**6)

Path = tuple[str, ...]  # of names below the root


def drf(session: Session, entry: PluginEntry) -> PluginCallbacks:
    total = session.cluster.total

    def job_order(gang: Gang) -> SortKey:
        return (dominant_share(gang.requests.charged, total),)

    def preemptable(preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return the candidates of gangs that keep a share that is large enough.

        It is at least the share that the preemptor's gang reaches.
        """
        preemptor_total = Counter(session.gang_of(preemptor).requests.charged)
        add(preemptor_total, preemptor.request)
        share = dominant_share(preemptor_total, total)
        left: dict[Key, Counter[str]] = {}
        victims = []
        for task in candidates:
            gang = session.gang_of(task)
            after = Counter(left.get(gang.key, gang.requests.charged))
            add(after, task.request, -1)
            if share <= dominant_share(after, total) + SHARE_TOLERANCE:
                left[gang.key] = after
                victims.append(task)
        return victims

    if not entry.hierarchy:
        return PluginCallbacks(job_order=job_order, preemptable=preemptable)
    tree = _QueueTree(session)
    return PluginCallbacks(
        job_order=job_order,
        queue_order=tree.queue_order,
        admission_order=tree.queue_order,
        preemptable=preemptable,
        reclaimable=tree.reclaimable,
        beyond_share=tree.reclaimable,
        on_allocate=tree.invalidate,
        on_deallocate=tree.invalidate,
    )


@dataclass(frozen=True, slots=True)
class GangUsage:
    """What a gang has and wants: ``allocated`` sums the tasks with nodes, ``request`` sums all tasks."""

    path: Path  # of its queue
    allocated: Amounts
    request: Amounts


@dataclass(frozen=True, slots=True)
class TreeShare:
    """How well one node of the tree of queues and gangs is served; ``sort_key`` orders nodes by it."""

    saturated: bool
    share: Fraction  # without its weight

    def sort_key(self, weight: Fraction) -> tuple[bool, Fraction]:
        """Return the key by which the node that is served worse comes first."""
        return self.saturated, self.share / weight


@dataclass(slots=True)
class _TreeNode:
    """The sums over the children that were added."""

    saturated: bool = True  # all children are
    saturated_usage: defaultdict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    scaled: list[tuple[Fraction, FractionalAmounts]] = field(
        default_factory=list
    )  # other children with a share above 0

    def add(self, saturated: bool, share: Fraction, usage: FractionalAmounts) -> None:
        self.saturated = self.saturated and saturated
        if share and saturated:
            for resource, amount in usage.items():
                self.saturated_usage[resource] += amount
        elif share:
            self.scaled.append((share, usage))

    def usage(self) -> Mapping[str, Fraction]:
        result = self.saturated_usage.copy()
        smallest = min((share for share, _ in self.scaled), default=Fraction(1))
        for share, usage in self.scaled:
            for resource, amount in usage.items():
                result[resource] += amount * smallest / share
        return result


def tree_shares(total: Amounts, usages: Collection[GangUsage]) -> dict[Path, TreeShare]:
    """Return the share of each node above a gang, by its path.

    Each gang is below the path of its queue.  The usage of a node is the sum of its children's, each scaled
    down to the smallest share among them, so that a child that is far ahead does not make the whole node look
    well served. A gang is *saturated*, and cannot get more, if it has all that it requests of a resource or
    requests one that is used up; a node is if all its children are.  Saturated nodes are not scaled, and are
    ordered last.

    Source: Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter Workloads (SoCC 2013), as the
    plugin drf of Volcano implements it.
    """
    used_up = _used_up(total, usages)
    nodes: defaultdict[Path, _TreeNode] = defaultdict(_TreeNode)
    for of_gang in usages:
        share = dominant_share(of_gang.allocated, total)
        nodes[of_gang.path].add(_is_saturated(of_gang, used_up), share, of_gang.allocated)
    result: dict[Path, TreeShare] = {}
    for depth in range(max(map(len, nodes), default=0), 0, -1):
        for path in [path for path in nodes if len(path) == depth]:
            node = nodes[path]
            usage = node.usage()
            share = dominant_share(usage, total)
            result[path] = TreeShare(node.saturated, share)
            nodes[path[:-1]].add(node.saturated, share, usage)
    return result


def _used_up(total: Amounts, usages: Iterable[GangUsage]) -> set[str]:
    left = dict(total)
    for usage in usages:
        for resource, amount in usage.allocated.items():
            left[resource] = left.get(resource, 0) - amount
    return {resource for resource, amount in left.items() if amount <= 0}


def _is_saturated(gang: GangUsage, used_up: set[str]) -> bool:
    return any(
        gang.request.get(resource, 0) > 0 and (amount >= gang.request[resource] or resource in used_up)
        for resource, amount in gang.allocated.items()
        if amount > 0
    )


class _QueueTree:
    """The queues in their weighted tree, with the present shares."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._paths: dict[str, Path] = {}
        # If two queues give a node different weights, that of the first queue by name counts.
        self._weights: dict[Path, Fraction] = {}
        for name in sorted(session.queues):
            steps = weighted_path_of(name, session.queues)
            self._paths[name] = tuple(step for step, _ in steps)
            for depth, (_, weight) in enumerate(steps, start=1):
                self._weights.setdefault(self._paths[name][:depth], weight)
        self._shares: Mapping[Path, TreeShare] | None = None  # None: to be computed on the next request

    def invalidate(self, task: Task) -> None:
        self._shares = None

    def queue_order(self, queue: Queue) -> SortKey:
        if self._shares is None:
            self._shares = tree_shares(self._session.cluster.total, list(self._usages().values()))
        return self._sort_key(queue.name, self._shares)

    def _sort_key(self, queue: str, shares: Mapping[Path, TreeShare]) -> SortKey:
        """Return a key that compares queues where their paths part, and below if equal there."""
        path = self._paths[queue]
        prefixes = (path[:depth] for depth in range(1, len(path) + 1))
        return tuple(shares.get(prefix, _NO_SHARE).sort_key(self._weights[prefix]) for prefix in prefixes)

    @cached_property
    def _unserved(self) -> Collection[str]:
        """The queues that serve no gang: what their gangs request does not count."""
        queues = self._session.queues.items()
        return {name for name, queue in queues if self._session.invalid_queue_reason(queue) is not None}

    def _usages(self) -> dict[Key, GangUsage]:
        usages, unserved = {}, self._unserved
        for gang in self._session.gangs:
            request = gang.requests.charged
            if gang.queue not in unserved:
                request = request + gang.requests.pending
            elif not request:
                continue
            usages[gang.key] = GangUsage(self._paths[gang.queue], gang.requests.charged, request)
        return usages

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return the candidates of queues that come after the preemptor's even without them."""
        total, usages = self._session.cluster.total, self._usages()
        usages[preemptor.gang] = _with_task(usages[preemptor.gang], preemptor, 1)
        preemptor_queue = self._session.gang_of(preemptor).queue
        victims = []
        for task in candidates:
            before = usages[task.gang]
            usages[task.gang] = _with_task(before, task, -1)
            after = tree_shares(total, list(usages.values()))
            victim_queue = self._session.gang_of(task).queue
            if self._sort_key(preemptor_queue, after) < self._sort_key(victim_queue, after):
                victims.append(task)
            else:
                usages[task.gang] = before
        return victims


_NO_SHARE: Final = TreeShare(saturated=False, share=Fraction(0))


def _with_task(usage: GangUsage, task: Task, factor: int) -> GangUsage:
    allocated = Counter(usage.allocated)
    add(allocated, task.request, factor)
    return replace(usage, allocated=allocated)
