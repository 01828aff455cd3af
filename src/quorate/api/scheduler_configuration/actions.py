"""The actions of a gang scheduler's configuration: which there are, and what each can be told.

Except for ``predicateErrorCacheEnable`` the arguments are ours and speak to profile ``design`` only.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, Literal, get_args

import msgspec

from quorate.api.decoding.lenient import Arguments, decimal, flag, seconds
from quorate.api.decoding.strict import Place, Refused, choice

Profile = Literal["compat", "design"]
Action = Literal["enqueue", "allocate", "backfill", "preempt", "reclaim"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
EnqueueOrder = Literal["fcfs", "fair"]

# Volcano's other actions, and what to write instead.
UNSERVED: Final[Mapping[str, str]] = {
    "gangpreempt": "write preempt, which with evict-whole-group also evicts whole groups",
    "gangreclaim": "write reclaim, which with evict-whole-group also evicts whole groups",
}
IDLE: Final = "shuffle"  # evicts what the plugins tdm and rescheduling say, of which there are none


class EnqueueRules(msgspec.Struct, frozen=True, kw_only=True):
    order: EnqueueOrder = "fcfs"
    idle_factor: Fraction = Fraction(1)  # of the cluster, what admitted groups may use and reserve
    inqueue_timeout_s: float | None = 300.0  # how long a group is Inqueue without success; None: for ever
    backoff_base_s: float = 10.0  # after a first roll-back; each further one doubles it
    backoff_max_s: float = 300.0
    check_quota: bool = True


class AllocateRules(msgspec.Struct, frozen=True, kw_only=True):
    predicate_error_cache: bool = True  # a role that fits no node is not tried again in the session
    repair_within_s: float | None = 60.0  # how long a gang may be half bound; None: for ever


class PreemptRules(msgspec.Struct, frozen=True, kw_only=True):
    evict_overused: bool = True  # of groups of equal priority, what they have beyond their minResources
    evict_whole_group: bool = True


class ReclaimRules(msgspec.Struct, frozen=True, kw_only=True):
    evict_whole_group: bool = True


class BackfillRules(msgspec.Struct, frozen=True, kw_only=True):
    fill_fragments: bool = False


def enqueue_rules(given: Arguments, overcommit: Fraction | None) -> EnqueueRules:
    """``overcommit`` is the factor of that plugin, if it is configured."""
    default = EnqueueRules()
    return EnqueueRules(
        order=given.value("order", choice(get_args(EnqueueOrder)), default.order),
        idle_factor=given.value("idle-factor", _positive, overcommit or default.idle_factor),
        inqueue_timeout_s=given.value("inqueue-timeout", seconds(), default.inqueue_timeout_s) or None,
        backoff_base_s=given.value("requeue-backoff-base", seconds(), default.backoff_base_s),
        backoff_max_s=given.value("requeue-backoff-max", seconds(), default.backoff_max_s),
        check_quota=given.value("check-quota", flag, default.check_quota),
    )


def allocate_rules(given: Arguments) -> AllocateRules:
    default = AllocateRules()
    return AllocateRules(
        predicate_error_cache=given.value("predicateErrorCacheEnable", flag, True),
        repair_within_s=given.value("repair-within", seconds(), default.repair_within_s) or None,
    )


def preempt_rules(given: Arguments) -> PreemptRules:
    return PreemptRules(
        evict_overused=given.value("evict-overused", flag, True),
        evict_whole_group=given.value("evict-whole-group", flag, True),
    )


def reclaim_rules(given: Arguments) -> ReclaimRules:
    return ReclaimRules(evict_whole_group=given.value("evict-whole-group", flag, True))


def backfill_rules(given: Arguments) -> BackfillRules:
    return BackfillRules(fill_fragments=given.value("fill-fragments", flag, False))


def _positive(place: Place) -> Fraction:
    factor = decimal(place)
    if factor <= 0:
        raise Refused("is too small, must be more than 0")
    return factor
