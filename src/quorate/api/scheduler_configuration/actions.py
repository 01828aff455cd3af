"""The actions of the gang scheduler's configuration and their arguments.

All arguments except ``predicateErrorCacheEnable`` and ``allowWholeBundle`` are Quorate's own and have no
effect with profile ``compat``.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, Literal, get_args

import msgspec

from quorate.api.decoding.lenient import Arguments, duration_or_seconds, exact_number, lenient_boolean
from quorate.api.decoding.strict import Field, InvalidValue, choice, struct_of

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


def _positive(field: Field) -> Fraction:
    factor = exact_number(field)
    if factor <= 0:
        raise InvalidValue("is too small, must be more than 0")
    return factor


def _limit_s(field: Field) -> float | None:
    return duration_or_seconds()(field) or None


_enqueue_arguments = struct_of(
    EnqueueArguments,
    order=("order", choice(get_args(EnqueueOrder))),
    inqueue_timeout_s=("inqueue-timeout", _limit_s),
    backoff_base_s=("requeue-backoff-base", duration_or_seconds()),
    backoff_max_s=("requeue-backoff-max", duration_or_seconds()),
    check_quota=("check-quota", lenient_boolean),
    backfill=("backfill", choice(get_args(Backfilling))),
)


def decode_enqueue_arguments(given: Arguments, overcommit: Fraction | None) -> EnqueueArguments:
    """Decode arguments of enqueue; ``overcommit`` is the factor of that plugin, if configured."""
    decoded = _enqueue_arguments(given)
    factor = given.take("idle-factor", _positive, overcommit or decoded.idle_factor)
    return msgspec.structs.replace(decoded, idle_factor=factor)


decode_allocate_arguments = struct_of(
    AllocateArguments,
    predicate_error_cache=("predicateErrorCacheEnable", lenient_boolean),
    repair_timeout_s=("repair-within", _limit_s),
)
decode_preempt_arguments = struct_of(
    PreemptArguments,
    evict_overused=("evict-overused", lenient_boolean),
    evict_whole_group=("evict-whole-group", lenient_boolean),
)
decode_reclaim_arguments = struct_of(
    ReclaimArguments, evict_whole_group=("evict-whole-group", lenient_boolean)
)
decode_gang_reclaim_arguments = struct_of(
    ReclaimArguments, evict_whole_group=("allowWholeBundle", lenient_boolean)
)
decode_backfill_arguments = struct_of(BackfillArguments, fill_fragments=("fill-fragments", lenient_boolean))


def decode_gang_preempt_arguments(given: Arguments) -> PreemptArguments:
    """Decode arguments of gangpreempt."""
    return PreemptArguments(
        evict_overused=False,
        evict_whole_group=given.take("allowWholeBundle", lenient_boolean, True),
        only_lower_gangs=True,
    )
