"""The actions of the gang scheduler's configuration and their arguments.

All arguments except ``predicateErrorCacheEnable`` and ``allowWholeBundle`` are Quorate's own and have no
effect with profile ``compat``.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, Literal, get_args

import msgspec

from quorate.api.decoding.lenient import Arguments, duration_or_seconds, exact_number, lenient_boolean
from quorate.api.decoding.strict import Field, InvalidValue, choice

Profile = Literal["compat", "design", "native"]
Action = Literal["enqueue", "allocate", "backfill", "preempt", "reclaim"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
EnqueueOrder = Literal["fcfs", "fair"]
Backfilling = Literal["None", "EASY"]

# Actions of Volcano that evict whole gangs in both profiles, and the actions that do so with other arguments.
GANG_ACTIONS: Final[Mapping[str, Action]] = {"gangpreempt": "preempt", "gangreclaim": "reclaim"}
NO_OP_ACTION: Final = (
    "shuffle"  # evicts the victims of the plugins tdm and rescheduling, which are not supported
)


class EnqueueArguments(msgspec.Struct, frozen=True, kw_only=True):
    order: EnqueueOrder = "fcfs"
    idle_factor: Fraction = Fraction(
        1
    )  # the fraction of the cluster that admitted groups may use and reserve
    inqueue_timeout_s: float | None = (
        300.0  # how long a group may stay Inqueue without success; None: unlimited
    )
    backoff_base_s: float = 10.0  # after the first rollback; doubles with each further one
    backoff_max_s: float = 300.0
    check_quota: bool = True
    backfill: Backfilling = "None"  # of queues without the annotation: which groups get a planned start


class AllocateArguments(msgspec.Struct, frozen=True, kw_only=True):
    predicate_error_cache: bool = True  # do not retry a role that fits no node in this session
    repair_timeout_s: float | None = 60.0  # how long a gang may be partly bound; None: unlimited


class PreemptArguments(msgspec.Struct, frozen=True, kw_only=True):
    evict_overused: bool = True  # preempt groups of equal priority for their surplus over minResources
    evict_whole_group: bool = True
    only_lower_gangs: bool = False  # preempt no gang of equal priority, and no member of the same gang


class ReclaimArguments(msgspec.Struct, frozen=True, kw_only=True):
    evict_whole_group: bool = True


class BackfillArguments(msgspec.Struct, frozen=True, kw_only=True):
    fill_fragments: bool = False


def decode_enqueue_arguments(given: Arguments, overcommit: Fraction | None) -> EnqueueArguments:
    """Decode arguments of enqueue; ``overcommit`` is the factor of that plugin, if configured."""
    default = EnqueueArguments()
    return EnqueueArguments(
        order=given.value("order", choice(get_args(EnqueueOrder)), default.order),
        idle_factor=given.value("idle-factor", _positive, overcommit or default.idle_factor),
        inqueue_timeout_s=given.value("inqueue-timeout", duration_or_seconds(), default.inqueue_timeout_s)
        or None,
        backoff_base_s=given.value("requeue-backoff-base", duration_or_seconds(), default.backoff_base_s),
        backoff_max_s=given.value("requeue-backoff-max", duration_or_seconds(), default.backoff_max_s),
        check_quota=given.value("check-quota", lenient_boolean, default.check_quota),
        backfill=given.value("backfill", choice(get_args(Backfilling)), default.backfill),
    )


def decode_allocate_arguments(given: Arguments) -> AllocateArguments:
    default = AllocateArguments()
    return AllocateArguments(
        predicate_error_cache=given.value("predicateErrorCacheEnable", lenient_boolean, True),
        repair_timeout_s=given.value("repair-within", duration_or_seconds(), default.repair_timeout_s)
        or None,
    )


def decode_preempt_arguments(given: Arguments) -> PreemptArguments:
    return PreemptArguments(
        evict_overused=given.value("evict-overused", lenient_boolean, True),
        evict_whole_group=given.value("evict-whole-group", lenient_boolean, True),
    )


def decode_gang_preempt_arguments(given: Arguments) -> PreemptArguments:
    """Decode arguments of gangpreempt."""
    return PreemptArguments(
        evict_overused=False,
        evict_whole_group=given.value("allowWholeBundle", lenient_boolean, True),
        only_lower_gangs=True,
    )


def decode_gang_reclaim_arguments(given: Arguments) -> ReclaimArguments:
    """Decode arguments of gangreclaim."""
    return ReclaimArguments(evict_whole_group=given.value("allowWholeBundle", lenient_boolean, True))


def decode_reclaim_arguments(given: Arguments) -> ReclaimArguments:
    return ReclaimArguments(evict_whole_group=given.value("evict-whole-group", lenient_boolean, True))


def decode_backfill_arguments(given: Arguments) -> BackfillArguments:
    return BackfillArguments(fill_fragments=given.value("fill-fragments", lenient_boolean, False))


def _positive(field: Field) -> Fraction:
    factor = exact_number(field)
    if factor <= 0:
        raise InvalidValue("is too small, must be more than 0")
    return factor
