"""``waitForPodsReady`` of Configuration: timeouts of unready pods, and requeuing."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from quorate.api.decoding import strict as d

Version = Literal["v1beta1", "v1beta2"]
RequeuingTimestamp = Literal["Eviction", "Creation"]
BlockAdmissionScope = Literal["AllQueues", "SameFlavors"]


class RequeuingStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """How a workload that was evicted for unready pods is requeued.

    The n-th eviction is followed by a backoff of ``min(base * factor^(n-1), max)`` seconds. KEP-1282
    originally had base 1, factor 1.41284738 and no maximum; Kueue has the factor 2 and no field for it.
    """

    timestamp: RequeuingTimestamp = "Eviction"
    backoff_limit_count: int | None = None  # None: unlimited
    backoff_base_s: float = 60.0
    backoff_max_s: float = 3600.0
    backoff_factor: float = 2.0


UNSCHEDULED_GATE: Final = "WaitForPodsReadyUnscheduledTimeout"
OVERRIDE_GATE: Final = "WorkloadLevelWaitForPodsReady"
LONGEST_WORKLOAD_TIMEOUT_S: Final = 7200.0  # without ``maxTimeoutOnWorkload``


class WaitForPodsReady(msgspec.Struct, frozen=True, kw_only=True):
    """Evict an admitted workload if not all of its pods are ready within a timeout."""

    timeout_s: float
    recovery_timeout_s: float | None  # None: no timeout for pods that fail after the start
    block_admission: BlockAdmissionScope | None  # which workloads an unready one blocks; None: none
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    scheduling_timeout_s: float | None = None  # for each pod to be scheduled; None: no such timeout
    shortest_override_s: float = 0.0  # lower bound of overrides by workloads
    longest_override_s: float | None = None  # upper bound of overrides; None: the configured timeout

    @property
    def longest_on_workload_s(self) -> float:
        """The upper bound of timeouts in the annotation ``wait-for-pods-ready``, seconds."""
        longest_s = self.longest_override_s
        return LONGEST_WORKLOAD_TIMEOUT_S if longest_s is None else longest_s


def decode_wait_for_pods_ready(
    fields: d.Section, version: Version, gates: Mapping[str, bool]
) -> WaitForPodsReady | None:
    """Decode ``waitForPodsReady``; None if it is disabled."""
    if gates.get("DisableWaitForPodsReady") and gates.get(UNSCHEDULED_GATE):
        rule = "excludes DisableWaitForPodsReady (leave one of them out)"
        fields.at("featureGates").entry(UNSCHEDULED_GATE).reject(rule)
    default = WaitForPodsReady(timeout_s=1800.0, recovery_timeout_s=1800.0, block_admission=None)
    if version == "v1beta1":
        wait = fields.take("waitForPodsReady", d.section(_wait_v1beta1), None)
    else:
        wait = fields.take("waitForPodsReady", d.section(_wait_v1beta2), default)
    _check_gates(fields, gates)
    return None if gates.get("DisableWaitForPodsReady") else wait


def _check_gates(fields: d.Section, gates: Mapping[str, bool]) -> None:
    """Reject or warn about fields of which the feature gate is off, as Kueue does."""
    given = fields.field.value.get("waitForPodsReady")
    if not isinstance(given, dict):
        return
    field = fields.at("waitForPodsReady")
    if given.get("unscheduledTimeout") is not None and not gates.get(UNSCHEDULED_GATE):
        field.entry("unscheduledTimeout").reject(f"is alpha (set featureGates.{UNSCHEDULED_GATE}: true)")
    if given.get("maxTimeoutOnWorkload") is not None and not gates.get(OVERRIDE_GATE):
        field.entry("maxTimeoutOnWorkload").warn(f"has no effect without the gate {OVERRIDE_GATE}")


def _wait_v1beta1(fields: d.Section) -> WaitForPodsReady | None:
    enable = fields.take("enable", d.boolean, False)
    wait = _wait(fields, timeout_s=300.0, block_admission=True, flat=_flat_timestamp(fields))
    return wait if enable else None


def _wait_v1beta2(fields: d.Section) -> WaitForPodsReady:
    fields.reject_if_present(
        "enable",
        "is not in v1beta2, where it is always enabled (or set featureGates.DisableWaitForPodsReady)",
    )
    fields.reject_if_present("requeuingTimestamp", "is not in v1beta2 (write requeuingStrategy.timestamp)")
    return _wait(fields, timeout_s=1800.0, block_admission=False, flat=None)


def _wait(
    fields: d.Section, *, timeout_s: float, block_admission: bool, flat: RequeuingTimestamp | None
) -> WaitForPodsReady:
    timeout_s = fields.take_set("timeout", d.duration(), timeout_s)
    recovery_s = fields.take("recoveryTimeout", d.duration(), timeout_s)
    strategy = fields.take("requeuingStrategy", d.section(_requeuing), RequeuingStrategy())
    all_queues: BlockAdmissionScope = "AllQueues"
    scope = fields.take("blockAdmissionScope", d.choice(get_args(BlockAdmissionScope)), all_queues)
    overrides = fields.take("overrides", d.section(_overrides), _OverrideBounds())
    longest_s = _renamed(fields, "maxTimeoutOnWorkload", "overrides.longest", overrides.longest_s)
    scheduling_s = fields.take("schedulingTimeout", d.duration(), None)
    unscheduled_s = _renamed(fields, "unscheduledTimeout", "schedulingTimeout", scheduling_s)
    if scheduling_s is None and (unscheduled_s or 0.0) > timeout_s:
        fields.at("unscheduledTimeout").reject(f"is longer than timeout, which is {timeout_s:g}s")
    if flat is not None:
        given = fields.field.value.get("requeuingStrategy")
        if isinstance(given, dict) and given.get("timestamp") not in (None, flat):
            fields.at("requeuingTimestamp").reject(
                f"contradicts requeuingStrategy.timestamp, which is {given['timestamp']} (keep the latter)"
            )
        strategy = msgspec.structs.replace(strategy, timestamp=flat)
    return WaitForPodsReady(
        timeout_s=timeout_s,
        recovery_timeout_s=recovery_s or None,
        block_admission=scope if fields.take("blockAdmission", d.boolean, block_admission) else None,
        requeuing_strategy=strategy,
        scheduling_timeout_s=unscheduled_s or None,
        shortest_override_s=overrides.shortest_s,
        longest_override_s=longest_s,
    )


def _renamed(fields: d.Section, name: str, alias: str, under_alias: float | None) -> float | None:
    """Return the duration of the field ``name`` in seconds, or that of its older name ``alias``."""
    value = fields.take(name, d.duration(), None)
    if value is None:
        return under_alias
    if under_alias is not None:
        fields.at(name).reject(f"is the same as {alias} (leave {alias} out)")
    return value


class _OverrideBounds(msgspec.Struct, frozen=True):
    shortest_s: float = 0.0
    longest_s: float | None = None


def _overrides(fields: d.Section) -> _OverrideBounds:
    bounds = _OverrideBounds(
        fields.take("shortest", d.duration(), 0.0), fields.take("longest", d.duration(), None)
    )
    if bounds.longest_s is not None and bounds.longest_s < bounds.shortest_s:
        fields.at("longest").reject("is shorter than shortest (give a longer one, or leave one out)")
    return bounds


def _flat_timestamp(fields: d.Section) -> RequeuingTimestamp | None:
    """Return ``requeuingTimestamp``, from the first revision of KEP-1282."""
    if "requeuingTimestamp" in fields:
        fields.at("requeuingTimestamp").warn("is deprecated (write requeuingStrategy.timestamp)")
    return fields.take("requeuingTimestamp", d.choice(get_args(RequeuingTimestamp)), None)


_factor = d.satisfying(d.number, lambda value: 1 <= value <= 10, "is out of range, must be from 1 to 10")


def _limit_count(field: d.Field) -> int:
    if field.value == -1:
        raise d.InvalidValue(
            "is not a number of retries (leave the field out to retry without limit, or write 0 or more)"
        )
    return d.integer(minimum=0)(field)


def _whole_seconds(field: d.Field) -> float:
    return float(d.integer(minimum=0)(field))


_requeuing = d.struct_of(
    RequeuingStrategy,
    timestamp=("timestamp", d.choice(get_args(RequeuingTimestamp))),
    backoff_limit_count=("backoffLimitCount", _limit_count),
    backoff_base_s=("backoffBaseSeconds", _whole_seconds),
    backoff_max_s=("backoffMaxSeconds", _whole_seconds),
    backoff_factor=("backoffFactor", _factor),
)
