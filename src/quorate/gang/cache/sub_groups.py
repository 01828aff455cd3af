"""What a pod group requires of the network, and its sub groups: gangs within the gang.

A pod belongs to the first policy of its pod group that it matches, and there to the sub group of the pods
with equal values of ``matchLabelKeys``; a pod without one of these labels does not match.  Without
``matchLabelKeys`` all matching pods are one sub group.  Source, except for the last rule: Volcano (1.15).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quorate.api.meta import Key, matches_selector
from quorate.api.volcano import NetworkTopology, PodGroupSpec, SubGroupPolicy
from quorate.gang.cache.task import Task, TaskCounts, TaskStatus


class TierLimit(NamedTuple):
    """How far apart pods may be; all fields are None without a limit, so that lower tiers are preferred."""

    tier: int | None = None
    tier_name: str | None = None
    label: str | None = None  # of which all nodes have the same value, in place of a HyperNode

    @property
    def is_hard(self) -> bool:
        return self != NO_LIMIT

    def __str__(self) -> str:
        if self.label is not None:
            return f"label {self.label}"
        return f"tier {self.tier_name}" if self.tier is None else f"tier ≤ {self.tier}"


NO_LIMIT: Final = TierLimit()


def tier_limit(topology: NetworkTopology | None) -> TierLimit | None:
    """Return the limit; None if no topology is requested.

    Mode hard without a tier has no limit, as in Volcano.
    """
    if topology is None:
        return None
    if topology.mode == "soft":
        return NO_LIMIT
    if topology.highest_tier_allowed is not None:
        return TierLimit(tier=topology.highest_tier_allowed)
    return TierLimit(tier_name=topology.highest_tier_name) if topology.highest_tier_name else NO_LIMIT


class GangTopology(NamedTuple):
    limit: TierLimit | None  # of all pods of the gang
    policies: tuple[SubGroupPolicy, ...]

    @property
    def limits(self) -> Sequence[TierLimit]:
        """All hard limits, of the gang first."""
        limits = (self.limit, *(tier_limit(policy.network_topology) for policy in self.policies))
        return [limit for limit in limits if limit is not None and limit.is_hard]


def gang_topology(spec: PodGroupSpec) -> GangTopology:
    return GangTopology(tier_limit(spec.network_topology), spec.sub_group_policy)


class SubGroupKey(NamedTuple):
    policy: int  # its place in the pod group
    values: tuple[str, ...]  # of the labels in ``matchLabelKeys``


@dataclass(slots=True)
class SubGroup:
    """The tasks of one sub group."""

    key: SubGroupKey
    policy: SubGroupPolicy
    tasks: dict[Key, Task] = field(default_factory=dict)
    task_counts: TaskCounts = field(default_factory=TaskCounts)

    @property
    def name(self) -> str:
        return "/".join((self.policy.name, *self.key.values))


class ShortPolicy(NamedTuple):
    """A policy with too few sub groups."""

    policy: SubGroupPolicy
    sub_groups: int


class SubGroups:
    """The sub groups of one gang."""

    __slots__ = ("_group_of", "_policies", "groups")

    def __init__(self, policies: tuple[SubGroupPolicy, ...]) -> None:
        self._policies = policies
        self.groups: dict[SubGroupKey, SubGroup] = {}  # none is empty
        self._group_of: dict[Key, SubGroup] = {}  # by task

    def of(self, task: Task) -> SubGroup | None:
        return self._group_of.get(task.key)

    def add(self, task: Task) -> None:
        key = self._key_of(task)
        if key is None:
            return
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = SubGroup(key, self._policies[key.policy])
        group.tasks[task.key] = task
        self._group_of[task.key] = group

    def remove(self, task: Task) -> None:
        group = self._group_of.pop(task.key, None)
        if group is not None:
            del group.tasks[task.key]
            if not group.tasks:
                del self.groups[group.key]

    def count(self, task: Task, amount: int) -> None:
        group = self._group_of.get(task.key)
        if group is not None:
            group.task_counts.add(task, amount)

    def move(self, task: Task, status: TaskStatus) -> None:
        group = self._group_of.get(task.key)
        if group is not None:
            group.task_counts.move(task, status)

    def _key_of(self, task: Task) -> SubGroupKey | None:
        labels = task.pod.metadata.labels
        for at, policy in enumerate(self._policies):
            if policy.label_selector is not None and not matches_selector(policy.label_selector, labels):
                continue
            values = tuple(labels.get(key, "") for key in policy.match_label_keys)
            if all(values) and (values or policy.label_selector is not None):
                return SubGroupKey(at, values)
        return None

    def missing(self) -> dict[int, int]:
        """Return how many more sub groups each policy, by its place, needs with nodes for all members."""
        missing = {at: policy.min_sub_groups for at, policy in enumerate(self._policies)}
        for key, group in self.groups.items():
            counts = group.task_counts
            if counts.ready + counts.pipelined >= group.policy.sub_group_size:
                missing[key.policy] -= 1
        return missing

    def missing_members(self) -> int:
        """Return how many more members need a node for the sub groups that the policies require."""
        missing = 0
        for at, policy in enumerate(self._policies):
            counts = (group.task_counts for key, group in self.groups.items() if key.policy == at)
            short = sorted(max(0, policy.sub_group_size - of.ready - of.pipelined) for of in counts)
            missing += sum(short[: policy.min_sub_groups])
        return missing

    def incomplete(self) -> Iterator[SubGroup]:
        """Yield the sub groups below their size, of which no further member gets a node."""
        for group in self.groups.values():
            if group.task_counts.valid < group.policy.sub_group_size:
                yield group

    def first_short(self, count: Callable[[TaskCounts], int]) -> ShortPolicy | None:
        """Return the first policy with fewer than ``minSubGroups`` sub groups that have their size.

        ``count`` returns how many members of a sub group to count.
        """
        for at, policy in enumerate(self._policies):
            if policy.min_sub_groups <= 0:
                continue
            complete = self.complete(at, count)
            if complete < policy.min_sub_groups:
                return ShortPolicy(policy, complete)
        return None

    def complete(self, policy: int, count: Callable[[TaskCounts], int]) -> int:
        """Return how many sub groups of the policy with this place have their size."""
        size = self._policies[policy].sub_group_size
        return sum(
            count(group.task_counts) >= size for key, group in self.groups.items() if key.policy == policy
        )
