"""The points on which plugins speak, and how a session hears them.

A plugin is a function that looks at an opened session and returns a ``Policy``: its answer to each point it
has something to say on.  ``Policies`` holds them by point and by tier, so that asking costs nothing for
plugins that are silent.  Orders are ranks (smaller goes first, compared like tuples) rather than
comparisons: the first plugin that tells two apart decides, exactly as with comparisons asked one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    NodeOrderArguments,
    PredicateArguments,
)
from quorate.gang.gang import Gang
from quorate.gang.queue import Queue
from quorate.gang.task import Task
from quorate.gang.tiers import Tiers, Vote
from quorate.gang.verdicts import Verdict
from quorate.placement.resources import FractionalAmounts
from quorate.quota.amount import Amount

Rank = tuple[Any, ...]  # of numbers, texts and such tuples
Victims = Callable[[Task, Sequence[Task]], Sequence[Task] | None]  # of the candidates, in their order


@dataclass(frozen=True, slots=True)
class QueueShare:
    """What a queue is to have of the cluster."""

    deserved: FractionalAmounts
    at_most: Mapping[str, Amount]  # of what is not named there is no limit
    share: Fraction  # what it has of what it deserves, of the resource it has most of
    overused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What one plugin says.  ``None``: nothing on this point."""

    gang_rank: Callable[[Gang], Rank] | None = None
    queue_rank: Callable[[Queue], Rank] | None = None
    task_rank: Callable[[Task], Rank] | None = None
    victim_queue_rank: Callable[[Queue, Queue], Rank] | None = None  # of a victim's queue, for a claimant's

    valid: Callable[[Gang], Verdict | None] | None = None  # why the gang cannot be placed as it is
    ready: Callable[[Gang], bool] | None = None  # may what it holds be bound
    promised: Callable[[Gang], Vote] | None = None  # may it keep what it is promised
    starving: Callable[[Gang], bool] | None = None  # may others be evicted for it

    admits: Callable[[Gang], Vote | Verdict] | None = None  # may it leave the waiting room; a verdict refuses
    admitted: Callable[[Gang], None] | None = None  # it did: charge what is reserved for it
    withdrawn: Callable[[Gang], None] | None = None  # it may not have what is reserved for it any more
    overdue: Callable[[Gang], bool] | None = (
        None  # has it waited so long that it needs no room to be admitted
    )

    overused: Callable[[Queue], bool] | None = None
    allocatable: Callable[[Queue, Task], bool] | None = None
    fillable: Callable[[Queue, Task], bool] | None = None  # the same of what shares leave unused
    claims: Callable[[Queue, Task], bool] | None = None  # may the queue take back from others for the task

    preemptable: Victims | None = None
    reclaimable: Victims | None = None
    # Whether nobody of the second gang would be among those victims, for whatever task of the first.
    unpreemptable: Callable[[Gang, Gang], bool] | None = None
    unreclaimable: Callable[[Gang, Gang], bool] | None = None

    share: Callable[[Queue], QueueShare] | None = None  # for those who look on
    yields: Callable[[Gang, Queue], bool] | None = None  # may the queue, not its own, have the gang whole

    predicates: PredicateArguments | None = None  # which constraints are looked at
    scores: NodeOrderArguments | BinpackArguments | None = None  # how well nodes suit tasks

    took: Callable[[Task], None] | None = None  # the task was given, or promised, room
    gave_back: Callable[[Task], None] | None = None  # the task gives, or gave, its room back

    def without(self, points: Sequence[str]) -> "Policy":
        """The same, silent on ``points``: what the switches of a plugin's entry turn off."""
        return replace(self, **dict.fromkeys(points))


class Policies:
    """The policies of all plugins, by point: ``policies.gang_rank`` are the voices on that point."""

    gang_rank: Tiers[Callable[[Gang], Rank]]
    queue_rank: Tiers[Callable[[Queue], Rank]]
    task_rank: Tiers[Callable[[Task], Rank]]
    victim_queue_rank: Tiers[Callable[[Queue, Queue], Rank]]
    valid: Tiers[Callable[[Gang], Verdict | None]]
    ready: Tiers[Callable[[Gang], bool]]
    promised: Tiers[Callable[[Gang], Vote]]
    starving: Tiers[Callable[[Gang], bool]]
    admits: Tiers[Callable[[Gang], Vote | Verdict]]
    admitted: Tiers[Callable[[Gang], None]]
    withdrawn: Tiers[Callable[[Gang], None]]
    overdue: Tiers[Callable[[Gang], bool]]
    overused: Tiers[Callable[[Queue], bool]]
    allocatable: Tiers[Callable[[Queue, Task], bool]]
    fillable: Tiers[Callable[[Queue, Task], bool]]
    claims: Tiers[Callable[[Queue, Task], bool]]
    preemptable: Tiers[Victims]
    reclaimable: Tiers[Victims]
    unpreemptable: Tiers[Callable[[Gang, Gang], bool]]
    unreclaimable: Tiers[Callable[[Gang, Gang], bool]]
    share: Tiers[Callable[[Queue], QueueShare]]
    yields: Tiers[Callable[[Gang, Queue], bool]]
    predicates: Tiers[PredicateArguments]
    scores: Tiers[NodeOrderArguments | BinpackArguments]
    took: Tiers[Callable[[Task], None]]
    gave_back: Tiers[Callable[[Task], None]]

    def __init__(self, tiers: Sequence[Sequence[Policy]]) -> None:
        for point in fields(Policy):
            voices = tuple(
                tuple(voice for policy in tier if (voice := getattr(policy, point.name)) is not None)
                for tier in tiers
            )
            setattr(self, point.name, voices)
