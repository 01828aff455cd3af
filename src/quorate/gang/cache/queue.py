"""Queues: Volcano's Queue, in base units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal

from quorate.api.volcano import QueueAffinity
from quorate.quota.amount import UNLIMITED, Amount

ROOT: Final = "root"


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue, as in its object."""

    name: str
    weight: int = 1
    priority: int = 0
    parent: str = ROOT  # "" for the root itself
    is_open: bool = True
    reclaimable: bool = True  # whether other queues may reclaim what exceeds its share
    capability: Mapping[str, int] = field(default_factory=dict)  # a resource that is absent is unlimited
    deserved: Mapping[str, int] = field(default_factory=dict)
    guarantee: Mapping[str, int] = field(default_factory=dict)
    max_pod_groups: Amount = UNLIMITED  # active ones
    dequeue: Literal["fifo", "traverse"] = "traverse"
    created: float = 0.0
    # Its path below the root in the hierarchy of its annotations, with weights; empty without annotations.
    weighted_path: tuple[tuple[str, Fraction], ...] = ()
    affinity: QueueAffinity | None = None  # to node groups
    backfill: bool | None = None  # whether its groups get planned starts; None: as the action says
    # What it may allocate in a node group, by group and resource; None: its annotation is invalid.
    node_group_limits: Mapping[str, Mapping[str, int]] | None = field(default_factory=dict)

    @property
    def creation_order(self) -> tuple[float, str]:
        """The order of queues with equal plugin keys."""
        return (self.created, self.name)


def with_ancestors(name: str, queues: Mapping[str, Queue]) -> Sequence[Queue]:
    """Return queue ``name`` and then the queues above it, up to an unknown one or a cycle."""
    path: dict[str, Queue] = {}
    while name in queues and name not in path:
        path[name] = queues[name]
        name = queues[name].parent
    return tuple(path.values())


def weighted_path_of(name: str, queues: Mapping[str, Queue]) -> tuple[tuple[str, Fraction], ...]:
    """Return the path of queue ``name`` below the root, each step with its weight.

    The path is that of its annotations if there is one, else the path of its parents.
    """
    return queues[name].weighted_path or tuple(
        (queue.name, Fraction(max(1, queue.weight)))
        for queue in reversed(with_ancestors(name, queues))
        if queue.name != ROOT
    )
