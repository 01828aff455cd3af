"""Why a workload waits: typed causes with their numbers, and the exact texts they are shown with.

Status messages, events, metrics and ``explain`` all render these values; no text is composed elsewhere.
The wording is Kueue's (v0.19): other tools match on it.  Amounts are in base units (see ``quota.amount``)
until they are printed.
"""

from collections.abc import Sequence
from typing import Literal, assert_never

import msgspec

from quorate.api.meta import Key
from quorate.quota.amount import as_quantity


class ResourceUncovered(msgspec.Struct, frozen=True):
    """No resource group of the cluster queue covers the resource."""

    pod_set: str
    resource: str


class FlavorMissing(msgspec.Struct, frozen=True):
    pod_set: str
    flavor: str


class TaintUntolerated(msgspec.Struct, frozen=True):
    pod_set: str
    flavor: str
    key: str
    value: str
    effect: str


class AffinityMismatched(msgspec.Struct, frozen=True):
    """Node selector or required node affinity contradicts the labels of the flavor."""

    pod_set: str
    flavor: str


class QuotaExceeded(msgspec.Struct, frozen=True):
    """Can never fit: more than the queue could get if everybody else were gone."""

    pod_set: str
    flavor: str
    resource: str
    earlier: int  # what earlier pod sets of the workload take of the same flavor and resource
    requested: int
    free: int
    at_most: int

    @property
    def needed(self) -> int:
        return self.earlier + self.requested

    @property
    def short_by(self) -> int:
        return self.needed - self.free


class QuotaShort(msgspec.Struct, frozen=True):
    """Could fit, but not now: ``short_by`` more would have to be free."""

    pod_set: str
    flavor: str
    resource: str
    needed: int  # with what earlier pod sets of the workload take
    free: int
    at_most: int

    @property
    def short_by(self) -> int:
        return self.needed - self.free


PodSetReason = (
    ResourceUncovered | FlavorMissing | TaintUntolerated | AffinityMismatched | QuotaExceeded | QuotaShort
)


class QueueMissing(msgspec.Struct, frozen=True):
    kind: Literal["LocalQueue", "ClusterQueue"]
    name: str


class QueueInactive(msgspec.Struct, frozen=True):
    """The queue is stopped, being deleted, or refers to something that is missing or not ready."""

    kind: Literal["LocalQueue", "ClusterQueue"]
    name: str


class NamespaceMismatched(msgspec.Struct, frozen=True):
    namespace: str
    cluster_queue: str


class RequestsAboveLimits(msgspec.Struct, frozen=True):
    """Containers ask for more than they limit themselves to; ``findings`` names each."""

    findings: tuple[str, ...]


class LimitRangeViolated(msgspec.Struct, frozen=True):
    findings: tuple[str, ...]


class ChecksFailed(msgspec.Struct, frozen=True):
    """An admission check wants a retry or has rejected the workload."""


class Shortage(msgspec.Struct, frozen=True):
    """What all pod sets together lack of one flavor and resource."""

    flavor: str
    resource: str
    needed: int
    free: int
    at_most: int

    @property
    def short_by(self) -> int:
        return self.needed - self.free


class NoLongerFits(msgspec.Struct, frozen=True):
    """It would have fit, but those ahead of it in the same cycle, lastly ``by``, took the room.

    ``by`` is None when the room went while a cycle was suspended.
    """

    by: Key | None
    lacks: tuple[Shortage, ...]


class TargetsOverlap(msgspec.Struct, frozen=True):
    """It would preempt ``victim``, as ``preemptor``, which was ahead of it in the same cycle, does."""

    victim: Key
    preemptor: Key


class AwaitingPreemption(msgspec.Struct, frozen=True):
    """``victims`` are being evicted to make room."""

    victims: tuple[Key, ...]


class AwaitingPodsReady(msgspec.Struct, frozen=True):
    """Admission is held until every admitted workload is ready; ``blocking`` is one that is not.

    With a ``flavor``, only those that hold some of it count.
    """

    blocking: Key
    flavor: str | None = None


class BackingOff(msgspec.Struct, frozen=True):
    """It was evicted and is tried again no earlier than ``until`` (epoch seconds; None: not known)."""

    until: float | None
    evicted_for: str


WorkloadReason = (
    QueueMissing
    | QueueInactive
    | NamespaceMismatched
    | RequestsAboveLimits
    | LimitRangeViolated
    | ChecksFailed
    | NoLongerFits
    | TargetsOverlap
    | AwaitingPreemption
    | AwaitingPodsReady
    | BackingOff
)
InadmissibleReason = PodSetReason | WorkloadReason


def inadmissible_message(reasons: Sequence[InadmissibleReason]) -> str:
    """All of ``reasons`` as the text of one condition.

    Causes of one pod set are sorted as texts, as Kueue does; pod sets keep the order of the causes.
    What concerns the whole workload follows.
    """
    by_pod_set: dict[str, list[str]] = {}
    whole: list[WorkloadReason] = []
    for cause in reasons:
        if isinstance(cause, PodSetReason):
            by_pod_set.setdefault(cause.pod_set, []).append(pod_set_reason_text(cause))
        else:
            whole.append(cause)
    text = "; ".join(
        f"couldn't assign flavors to pod set {pod_set}: {', '.join(sorted(texts))}"
        for pod_set, texts in by_pod_set.items()
    )
    for cause in whole:
        text = f"{text}{'. ' if text else ''}{workload_reason_text(cause)}"
    return text


def pod_set_reason_text(cause: PodSetReason) -> str:
    match cause:
        case ResourceUncovered(_, resource):
            return f"resource {resource} unavailable in ClusterQueue"
        case FlavorMissing(_, flavor):
            return f"flavor {flavor} not found"
        case TaintUntolerated(_, flavor, key, value, effect):
            return f"untolerated taint {{{key} {value} {effect}}} in flavor {flavor}"
        case AffinityMismatched(_, flavor):
            return f"flavor {flavor} doesn't match node affinity"
        case QuotaExceeded(_, flavor, resource, earlier, requested):
            amounts = (earlier, requested, cause.at_most)
            before, now, most = (as_quantity(resource, amount) for amount in amounts)
            return (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets "
                f"requests ({before}) + current podset request ({now}) > maximum capacity ({most})"
            )
        case QuotaShort(_, flavor, resource):
            short_by = as_quantity(resource, cause.short_by)
            return f"insufficient unused quota for {resource} in flavor {flavor}, {short_by} more needed"
    assert_never(cause)


def workload_reason_text(cause: WorkloadReason) -> str:
    match cause:
        case QueueMissing(kind, name):
            return f"{kind} {name} doesn't exist"
        case QueueInactive(kind, name):
            return f"{kind} {name} is inactive"
        case NamespaceMismatched():
            return "workload namespace doesn't match ClusterQueue selector"
        case RequestsAboveLimits(findings):
            return f"resources validation failed: {', '.join(findings)}"
        case LimitRangeViolated(findings):
            return f"resources didn't satisfy LimitRange constraints: {', '.join(findings)}"
        case ChecksFailed():
            return "The workload has failed admission checks"
        case NoLongerFits():
            return "Workload no longer fits after processing another workload"
        case TargetsOverlap():
            return "Workload has overlapping preemption targets with another workload"
        case AwaitingPreemption(victims):
            return f"Pending the preemption of {len(victims)} workload(s)"
        case AwaitingPodsReady(_, None):
            return "waiting for all admitted workloads to be in PodsReady condition"
        case AwaitingPodsReady(blocking, flavor):
            return f"waiting for {blocking}, admitted to flavor {flavor}, to be in PodsReady condition"
        case BackingOff(_, evicted_for):
            return f"backing off after an eviction for {evicted_for}"
    assert_never(cause)
