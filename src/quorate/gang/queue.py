"""Queues as gangs are shared out among them: Volcano's Queue, in base units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Final, Literal

from quorate.api.core import ResourceQuotaSpec
from quorate.api.meta import Key
from quorate.quota.amount import UNLIMITED, Amount

ROOT: Final = "root"
SETTLES_S: Final = 1.0  # how long it may take until a pod is seen of which its quota is charged already


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue, as its object says."""

    name: str
    weight: int = 1
    priority: int = 0
    parent: str = ROOT  # "" of the root itself
    is_open: bool = True
    reclaimable: bool = True  # whether other queues may take back what exceeds its share
    capability: Mapping[str, int] = field(default_factory=dict)  # a resource that is absent is unlimited
    deserved: Mapping[str, int] = field(default_factory=dict)
    guarantee: Mapping[str, int] = field(default_factory=dict)
    max_pod_groups: Amount = UNLIMITED  # active ones
    dequeue: Literal["fifo", "traverse"] = "traverse"
    created: float = 0.0
    weights: tuple[
        tuple[str, Fraction], ...
    ] = ()  # its path in a tree of weights, below the root, if it says so

    @property
    def age_rank(self) -> tuple[float, str]:
        """The order of queues no plugin tells apart."""
        return (self.created, self.name)


def line_of(name: str, queues: Mapping[str, Queue]) -> Sequence[Queue]:
    """The queue ``name`` and those above it, itself first, as far as they are known and form no circle."""
    line: dict[str, Queue] = {}
    while name in queues and name not in line:
        line[name] = queues[name]
        name = queues[name].parent
    return tuple(line.values())


def weights_of(name: str, queues: Mapping[str, Queue]) -> tuple[tuple[str, Fraction], ...]:
    """The path of the queue ``name`` in a tree of weights, each step with its weight, the root left out.

    It is what its annotations say, else its place among all queues.
    """
    return queues[name].weights or tuple(
        (queue.name, Fraction(max(1, queue.weight)))
        for queue in reversed(line_of(name, queues))
        if queue.name != ROOT
    )


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """What one ResourceQuota allows and what is used of it, in base units, under the names it uses."""

    key: Key
    hard: Mapping[str, int]
    used: Mapping[str, int]
    spec: ResourceQuotaSpec  # whom it counts: its scopes
    # What was used before, the least of it, by the second of the epoch until which that counts as well.
    earlier: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    def following(self, before: "NamespaceQuota", heard_at: float) -> "NamespaceQuota":
        """This, with what was used ``before`` it was heard of, while pods may not have been seen yet."""
        earlier = {until: used for until, used in before.earlier.items() if until > heard_at}
        until = ceil(heard_at + SETTLES_S)
        earlier[until] = _least(before.used, earlier.get(until, before.used))
        return replace(self, earlier=earlier)

    def surely_used(self, now: float) -> Mapping[str, int]:
        """What is used even if pods that it was charged of lately are not seen yet.

        A quota is charged before the pod is there.  Who looks between the two finds a member of an admitted
        group used and claimed for, and would take the group's quota for gone.
        """
        used = self.used
        for until, amounts in self.earlier.items():
            if until > now:
                used = _least(used, amounts)
        return used

    def settles_at(self, now: float) -> float | None:
        """When more will be sure; ``None``: all is."""
        return min((until for until in self.earlier if until > now), default=None)


def _least(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return {name: min(amount, other.get(name, 0)) for name, amount in one.items()}
