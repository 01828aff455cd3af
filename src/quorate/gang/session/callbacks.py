"""The callbacks of plugins, and how a session combines their answers, tier by tier.

A plugin is a function that reads an open session and returns its ``PluginCallbacks``, one for each extension
point that it implements.  ``SessionCallbacks`` holds the callbacks of all plugins by extension point and
tier, so that a plugin without a callback for a point costs nothing there.  The points have Volcano's names,
where a gang is called a job.

Orders are sort keys (smaller goes first, compared like tuples) instead of comparison functions: the first
plugin with different keys decides, exactly as with one comparison function after another.

Source for the combination rules: Volcano's session, except for profile ``design``, where an empty choice of
victims is final: it means that all candidates are protected, and no later tier may overrule that.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from typing import Any, Final, Literal, TypeVar

from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    NetworkTopologyArguments,
    NodeOrderArguments,
    PredicateArguments,
)
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue import Queue
from quorate.gang.cache.queue_accounts import Account
from quorate.gang.cache.task import Task
from quorate.gang.pending_reasons import PendingReason, QueueQuotaExceeded
from quorate.placement.resources import Amounts, FractionalAmounts
from quorate.quota.amount import Amount

C = TypeVar("C")
T = TypeVar("T")

Callbacks = Sequence[C]  # in the order of the plugins in the configuration
Tiers = Sequence[Callbacks[C]]
SortKey = tuple[Any, ...]  # of numbers, texts and such tuples
ChooseVictims = Callable[[Task, Sequence[Task]], Sequence[Task] | None]  # of the candidates, in their order


class Vote(Enum):
    PERMIT = "permit"
    ABSTAIN = "abstain"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class QueueShare:
    """The part of the cluster that a plugin assigns to a queue."""

    deserved: FractionalAmounts
    at_most: Mapping[str, Amount]  # a resource that is absent has no limit
    share: Fraction  # allocated / deserved of the resource where this is largest
    overused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCallbacks:
    """The callbacks of one plugin; ``None`` where it does not implement the extension point."""

    job_order: Callable[[Gang], SortKey] | None = None
    queue_order: Callable[[Queue], SortKey] | None = None
    admission_order: Callable[[Queue], SortKey] | None = None  # queue_order with what is reserved for gangs
    task_order: Callable[[Task], SortKey] | None = None
    victim_queue_order: Callable[[Queue, Queue], SortKey] | None = (
        None  # of a victim's queue, for a preemptor's
    )

    # Why no gang of the queue is admitted or placed, whatever it requests.
    queue_valid: Callable[[Queue], PendingReason | None] | None = None
    job_valid: Callable[[Gang], PendingReason | None] | None = None  # why the gang cannot be placed as it is
    job_ready: Callable[[Gang], bool] | None = None  # whether the gang's allocated tasks may be bound
    job_pipelined: Callable[[Gang], Vote] | None = None  # whether the gang may keep the nodes it waits for
    job_starving: Callable[[Gang], bool] | None = None  # whether tasks may be evicted for the gang

    # Whether a pending gang may be admitted; a reason rejects it.
    job_enqueueable: Callable[[Gang], Vote | PendingReason] | None = None
    job_enqueued: Callable[[Gang], None] | None = None  # the gang was admitted: charge its reservation
    job_dequeued: Callable[[Gang], None] | None = None  # the gang's reservation ends
    # The accounts of all queues are those of the gangs as they are now, after the moves of earlier actions.
    accounts_renewed: Callable[[Mapping[str, Account]], None] | None = None
    # Whether the gang has waited so long that it is admitted without free resources for it.
    job_overdue: Callable[[Gang], bool] | None = None

    overused: Callable[[Queue], bool] | None = None
    allocatable: Callable[[Queue, Amounts], bool] | None = None
    # What the queue is charged for the task, if that is more than its requests.
    charge: Callable[[Queue, Task], Amounts] | None = None
    # What keeps the queue from allocating these amounts now; None: nothing that has amounts.
    share_shortage: Callable[[Queue, Amounts], QueueQuotaExceeded | None] | None = None
    # The node groups in which the queue may allocate no further pod with these requests.
    full_node_groups: Callable[[Queue, Amounts], Collection[str]] | None = None
    backfillable: Callable[[Queue, Task], bool] | None = (
        None  # allocatable beyond the queue's deserved amounts
    )
    preemptive: Callable[[Queue, Amounts], bool] | None = None  # whether the queue may reclaim so much more
    # Whether the first queue is owed the first amounts, or the second one exceeds its share of the others.
    reclaims_back: Callable[[Queue, Amounts, Queue, Amounts], bool] | None = None

    protected: Callable[[Task], bool] | None = None  # whether the task may not be evicted, nor its whole gang
    gang_protected: Callable[[Gang], bool] | None = None  # whether the gang may not be evicted as a whole
    preemptable: ChooseVictims | None = None
    reclaimable: ChooseVictims | None = None
    # The candidates that queues have beyond their shares of what the preemptor requests.
    beyond_share: Callable[[Task, Sequence[Task]], Sequence[Task]] | None = None
    # Whether ``preemptable`` (``reclaimable``) chooses no task of the second gang for any task of the first.
    not_preemptable: Callable[[Gang, Gang], bool] | None = None
    not_reclaimable: Callable[[Gang, Gang], bool] | None = None
    gang_reclaimable: Callable[[Gang, Queue], bool] | None = (
        None  # whether another queue may reclaim all of it
    )

    queue_share: Callable[[Queue], QueueShare] | None = None  # for reports

    predicates: PredicateArguments | None = None  # the constraints that filter nodes
    node_order: NodeOrderArguments | BinpackArguments | None = None  # how nodes are scored
    hyper_node_order: NetworkTopologyArguments | None = None  # how HyperNodes of one tier are scored

    on_allocate: Callable[[Task], None] | None = None  # the task was allocated or pipelined
    on_deallocate: Callable[[Task], None] | None = None  # the task is neither any more

    def without(self, points: Sequence[str]) -> "PluginCallbacks":
        """Return a copy without callbacks for ``points``, which the configuration turns off."""
        return replace(self, **dict.fromkeys(points))


# Extension points at which the callbacks of a tier may decide before those of the next one.
_TIERED: Final = frozenset(
    {
        "job_enqueueable", "job_pipelined", "job_starving", "preemptable", "reclaimable", "beyond_share",
        "not_preemptable", "not_reclaimable",
    }
)  # fmt: skip


class SessionCallbacks:
    """The callbacks of all plugins by extension point: ``callbacks.job_order``, and so on.

    They are in the order of the plugins in the configuration, and by tier where tiers make a difference.
    """

    job_order: Callbacks[Callable[[Gang], SortKey]]
    queue_order: Callbacks[Callable[[Queue], SortKey]]
    admission_order: Callbacks[Callable[[Queue], SortKey]]
    task_order: Callbacks[Callable[[Task], SortKey]]
    victim_queue_order: Callbacks[Callable[[Queue, Queue], SortKey]]
    queue_valid: Callbacks[Callable[[Queue], PendingReason | None]]
    job_valid: Callbacks[Callable[[Gang], PendingReason | None]]
    job_ready: Callbacks[Callable[[Gang], bool]]
    job_pipelined: Tiers[Callable[[Gang], Vote]]
    job_starving: Tiers[Callable[[Gang], bool]]
    job_enqueueable: Tiers[Callable[[Gang], Vote | PendingReason]]
    job_enqueued: Callbacks[Callable[[Gang], None]]
    job_dequeued: Callbacks[Callable[[Gang], None]]
    accounts_renewed: Callbacks[Callable[[Mapping[str, Account]], None]]
    job_overdue: Callbacks[Callable[[Gang], bool]]
    overused: Callbacks[Callable[[Queue], bool]]
    allocatable: Callbacks[Callable[[Queue, Amounts], bool]]
    charge: Callbacks[Callable[[Queue, Task], Amounts]]
    share_shortage: Callbacks[Callable[[Queue, Amounts], QueueQuotaExceeded | None]]
    full_node_groups: Callbacks[Callable[[Queue, Amounts], Collection[str]]]
    backfillable: Callbacks[Callable[[Queue, Task], bool]]
    preemptive: Callbacks[Callable[[Queue, Amounts], bool]]
    reclaims_back: Callbacks[Callable[[Queue, Amounts, Queue, Amounts], bool]]
    protected: Callbacks[Callable[[Task], bool]]
    gang_protected: Callbacks[Callable[[Gang], bool]]
    preemptable: Tiers[ChooseVictims]
    reclaimable: Tiers[ChooseVictims]
    beyond_share: Tiers[Callable[[Task, Sequence[Task]], Sequence[Task]]]
    not_preemptable: Tiers[Callable[[Gang, Gang], bool]]
    not_reclaimable: Tiers[Callable[[Gang, Gang], bool]]
    gang_reclaimable: Callbacks[Callable[[Gang, Queue], bool]]
    queue_share: Callbacks[Callable[[Queue], QueueShare]]
    predicates: Callbacks[PredicateArguments]
    node_order: Callbacks[NodeOrderArguments | BinpackArguments]
    hyper_node_order: Callbacks[NetworkTopologyArguments]
    on_allocate: Callbacks[Callable[[Task], None]]
    on_deallocate: Callbacks[Callable[[Task], None]]

    def __init__(self, tiers: Sequence[Sequence[PluginCallbacks]]) -> None:
        for point in fields(PluginCallbacks):
            by_tier = tuple(
                tuple(callback for plugin in tier if (callback := getattr(plugin, point.name)) is not None)
                for tier in tiers
            )
            setattr(self, point.name, by_tier if point.name in _TIERED else tuple(all_callbacks(by_tier)))


def all_callbacks(tiers: Tiers[C]) -> Iterable[C]:
    """Return the callbacks of all tiers in order."""
    return (callback for tier in tiers for callback in tier)


def first_rejection(
    tiers: Tiers[Callable[[], Vote | T]], preferred: Callable[[T], bool] | None = None
) -> T | Literal[Vote.REJECT] | None:
    """Return the rejection, or its reason, of the first tier that decides; ``None``: permitted.

    A tier decides by any rejection, or else by any permit.  If no tier decides, the answer is a permit.
    ``preferred``: the reasons that go before the others of their tier.
    """
    for tier in tiers:
        votes = [callback() for callback in tier]
        reasons = [vote for vote in votes if not isinstance(vote, Vote)] if preferred else ()
        for vote in (*filter(preferred, reasons), *votes):
            if vote is Vote.REJECT or not isinstance(vote, Vote):
                return vote
        if Vote.PERMIT in votes:
            return None
    return None


def agreed_victims(
    tiers: Tiers[Callable[[], Sequence[T] | None]], *, empty_is_final: bool
) -> tuple[Sequence[T], int]:
    """Return the victims that all callbacks of the first tier that decides have chosen, and its index.

    Their order is that of the tier's first callback.  ``None`` is an abstention.  An empty choice or
    intersection ends its tier: with ``empty_is_final`` there are no victims then, else the next tier decides.
    The index is beyond the last tier if there are no victims.
    """
    for index, tier in enumerate(tiers):
        agreed: Sequence[T] | None = None
        for callback in tier:
            choice = callback()
            if choice is None:
                continue
            agreed = choice if agreed is None else [victim for victim in agreed if victim in choice]
            if not agreed:
                break
        if agreed:
            return agreed, index
        if agreed is not None and empty_is_final:
            break
    return (), len(tiers)


def first_tier_agrees(tiers: Tiers[Callable[[], bool]]) -> bool:
    """Return True if all callbacks of the first tier with callbacks do; False without any."""
    for tier in tiers:
        if tier:
            return all(callback() for callback in tier)
    return False
