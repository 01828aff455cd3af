"""Why a workload is not admitted: typed reasons with their amounts, and their texts.

Status messages, events, metrics and ``explain`` all render these values; no other module composes a text.
The wording is Kueue's (v0.19), because other tools match it.  Amounts are in base units (see
``quota.amount``).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Literal, assert_never

import msgspec

from quorate.api.meta import Key, at_epoch, utc_text
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
    """Node selector or required node affinity contradicts the node labels of the flavor."""

    pod_set: str
    flavor: str


class QuotaExceeded(msgspec.Struct, frozen=True):
    """The request exceeds the maximum capacity: it would not fit even in an empty tree."""

    pod_set: str
    flavor: str
    resource: str
    previous: int  # requested by earlier pod sets of the workload
    requested: int
    available: int
    maximum: int

    @property
    def needed(self) -> int:
        return self.previous + self.requested

    @property
    def short_by(self) -> int:
        return self.needed - self.available


class QuotaShort(msgspec.Struct, frozen=True):
    """The request does not fit into the available quota: ``short_by`` is missing."""

    pod_set: str
    flavor: str
    resource: str
    needed: int  # the requests of earlier pod sets of the workload included
    available: int
    maximum: int
    is_no_fit: bool = False  # as in ``PlacementRefused``

    @property
    def short_by(self) -> int:
        return self.needed - self.available


class TopologyProblem(StrEnum):
    """Why a flavor cannot serve the topology request of a pod set, in Kueue's words."""

    NO_REQUEST = "supports only TopologyAwareScheduling"
    NO_TOPOLOGY = "does not support TopologyAwareScheduling"
    UNKNOWN_TOPOLOGY = "information missing in TAS cache"
    NO_LEVEL = "does not contain the requested level"


class TopologyMismatched(msgspec.Struct, frozen=True):
    """The flavor cannot serve the topology request of the pod set, or its lack of one."""

    pod_set: str
    flavor: str
    problem: TopologyProblem


class PlacementRefused(msgspec.Struct, frozen=True):
    """The pods have no places in the topology of their flavor.

    ``fitting`` of ``requested`` pods have places; both are 0 if the request is invalid.
    """

    pod_set: str
    text: str
    fitting: int = 0
    requested: int = 0
    at_most: int | None = None  # pods that have places if the nodes have no other pods; None: not determined
    is_no_fit: bool = False  # pods of the workload have none even if no workload has places
    is_unsupported: bool = False  # the request is refused with any flavor and any number of pods

    @property
    def never_fits(self) -> bool:
        """Return True if the nodes that exist have no places for the pods, whichever pods end."""
        return not self.requested or (self.at_most is not None and self.at_most < self.requested)

    @property
    def is_beside_others(self) -> bool:
        """Return True if pods that no workload of a topology owns take the room."""
        return self.is_no_fit and self.at_most == self.requested


class NodesLackRoom(msgspec.Struct, frozen=True):
    """Some pods fit no node beside the pods that do.

    ``resource`` is the resource of which most nodes have too little; it is empty if no node accepts the pods
    for other reasons.
    """

    pod_set: str
    requested: int  # pods
    fitting: int
    nodes: int  # with the labels of the flavors
    accepting: int  # of these, by node selector, affinity and taints
    resource: str = ""
    needed: int = 0  # by one pod
    best: int = 0  # the most that an accepting node has left
    at_most: int = 0  # the most that one would have without any pods
    fitting_at_most: int | None = None  # pods that fit without any other pods; None: not determined
    # Why accepting nodes take no further pod, in kube-scheduler's words, with the numbers of these nodes.
    rejecting: tuple[tuple[str, int], ...] = ()

    @property
    def never_fits(self) -> bool:
        """Return True if the nodes that exist have too little room, whichever workloads end."""
        return self.fitting_at_most is not None and self.fitting_at_most < self.requested

    @property
    def text(self) -> str:
        left = self.requested - self.fitting
        head = f"{left} of {self.requested} pods {'fits' if left == 1 else 'fit'} no node"
        rejecting = "; ".join(self._text_of(*entry) for entry in self.rejecting)
        if not self.resource and rejecting:
            return f"{head}: {rejecting}"
        if not self.resource:
            return (
                f"{head}: {self.accepting} of {self.nodes} nodes accept their node selector, affinity and "
                "tolerations"
            )
        needed, best = (as_quantity(self.resource, amount) for amount in (self.needed, max(0, self.best)))
        nodes = f"{self.accepting} {'node' if self.accepting == 1 else 'nodes'}"
        lack = f"{self.resource}: need {needed}, have {best} on the best of {nodes}"
        return f"{head}: {'; '.join(filter(None, (lack, rejecting)))}"

    def _text_of(self, reason: str, nodes: int) -> str:
        about_nodes = reason.removeprefix("node(s) ")
        return reason if about_nodes == reason else f"{nodes} of {self.nodes} nodes {about_nodes}"


PodSetReason = (
    ResourceUncovered
    | FlavorMissing
    | TaintUntolerated
    | AffinityMismatched
    | QuotaExceeded
    | QuotaShort
    | TopologyMismatched
    | PlacementRefused
    | NodesLackRoom
)


class QueueMissing(msgspec.Struct, frozen=True):
    kind: Literal["LocalQueue", "ClusterQueue"]
    name: str


class QueueInactive(msgspec.Struct, frozen=True):
    """The queue is stopped or terminating, or refers to an object that is missing or not ready."""

    kind: Literal["LocalQueue", "ClusterQueue"]
    name: str


class NamespaceMismatched(msgspec.Struct, frozen=True):
    namespace: str
    cluster_queue: str


class DevicesUncounted(msgspec.Struct, frozen=True):
    """The devices that pods claim cannot be counted against quota, or too few match a claim."""

    findings: tuple[str, ...]
    short_by: int = 0  # how many more devices must match a claim


class RequestsAboveLimits(msgspec.Struct, frozen=True):
    """Requests exceed limits or are invalid; ``findings`` has one text for each."""

    findings: tuple[str, ...]


class LimitRangeViolated(msgspec.Struct, frozen=True):
    findings: tuple[str, ...]


# What an administrator or user has to change; independent of quota and of other workloads.
Misconfiguration = NamespaceMismatched | RequestsAboveLimits | DevicesUncounted | LimitRangeViolated


class ChecksFailed(msgspec.Struct, frozen=True):
    """An admission check is in state Retry or Rejected."""


class Shortage(msgspec.Struct, frozen=True):
    """The quota of one flavor and resource that all pod sets together are short of."""

    flavor: str
    resource: str
    needed: int
    available: int
    maximum: int

    @property
    def short_by(self) -> int:
        return self.needed - self.available


class NoLongerFits(msgspec.Struct, frozen=True):
    """Earlier heads of the round, ``preceded_by`` being the last of them, took the quota it would have got.

    ``preceded_by`` is None if the quota was taken while the round was suspended.  If ``is_kept``, it is
    pending, and the quota is kept for it.
    """

    preceded_by: Key | None
    shortages: tuple[Shortage, ...]
    is_kept: bool = False


class TargetsOverlap(msgspec.Struct, frozen=True):
    """It would preempt ``victim``, which ``preemptor``, an earlier head of the round, preempts."""

    victim: Key
    preemptor: Key


class AwaitingOtherPreemption(msgspec.Struct, frozen=True):
    """It fits as soon as ``victims``, which earlier heads of the round preempt, have released their quota."""

    victims: tuple[Key, ...]


class AwaitingPreemption(msgspec.Struct, frozen=True):
    """``victims`` are being evicted to release their quota; ``is_refused`` if the API server refused that."""

    victims: tuple[Key, ...]
    is_refused: bool = False


class PreemptionGated(msgspec.Struct, frozen=True):
    """It would preempt ``victims`` other workloads, but one of its preemption gates is closed."""

    victims: int


class AwaitingPodsReady(msgspec.Struct, frozen=True):
    """Admission is blocked until all admitted workloads are ready; ``blocking`` is one that is not.

    With a ``flavor``, only workloads that use some of it count.
    """

    blocking: Key
    flavor: str | None = None


class ReservedForEarlierWorkload(msgspec.Struct, frozen=True):
    """Needed quota or places are kept for ``workload``, which starts by ``starts_at`` (epoch seconds).

    ``starts_at`` is None if the start is not known, because a workload without a bound must end first.
    ``shortages`` are the shortages at the start; empty: the pods have no places at the start.
    """

    workload: Key
    starts_at: float | None
    shortages: tuple[Shortage, ...]


class ReservedWindow(msgspec.Struct, frozen=True):
    """Needed quota or places are kept for the window of a Reservation, into which the workload may run.

    ``opens`` and ``closes`` are when the window begins and ends, epoch seconds.  ``shortages`` are the
    shortages at its beginning, or now if it has begun.  ``maximum`` is the amount that all workloads but the
    owners may use during the window.
    """

    reservation: str
    opens: float
    closes: float
    shortages: tuple[Shortage, ...]
    nodes: int = 0  # nodes on which it would have places, and which the window keeps

    @property
    def text(self) -> str:
        start, end = (f"{at_epoch(moment):%Y-%m-%d %H:%M:%S}" for moment in (self.opens, self.closes))
        amounts = [
            f"{short.resource} in flavor {short.flavor}: need {as_quantity(short.resource, short.needed)}, "
            f"have {as_quantity(short.resource, short.available)}"
            for short in self.shortages
        ]
        window = f"reserved for {self.reservation} from {start} to {end} UTC"
        if self.nodes:
            amounts.append(f"{self.nodes} {'node' if self.nodes == 1 else 'nodes'}")
        return f"{window}: {'; '.join(amounts)}" if amounts else window


class BackingOff(msgspec.Struct, frozen=True):
    """It was evicted and is requeued no earlier than ``until`` (epoch seconds; None: unknown)."""

    until: float | None
    evicted_for: str


class EvaluationFailed(msgspec.Struct, frozen=True):
    """The evaluation raised an exception; ``problem`` is its type and text."""

    problem: str


WorkloadReason = (
    QueueMissing
    | QueueInactive
    | NamespaceMismatched
    | RequestsAboveLimits
    | DevicesUncounted
    | LimitRangeViolated
    | ChecksFailed
    | NoLongerFits
    | TargetsOverlap
    | AwaitingOtherPreemption
    | AwaitingPreemption
    | PreemptionGated
    | AwaitingPodsReady
    | ReservedForEarlierWorkload
    | ReservedWindow
    | BackingOff
    | EvaluationFailed
)
InadmissibleReason = PodSetReason | WorkloadReason


# An error in the flavors of a pod set, which no other flavor helps against, is all that Kueue tells.
FLAVOR_ERROR: Final = "failed to assign flavors to pod set"


def inadmissible_message(reasons: Sequence[InadmissibleReason]) -> str:
    """Return all ``reasons`` as the message of one condition.

    The texts of one pod set are sorted, as in Kueue; pod sets keep their order in ``reasons``.  An error of a
    pod set replaces them all.  Reasons that concern the whole workload follow.
    """
    by_pod_set: dict[str, list[str]] = {}
    of_workload: list[WorkloadReason] = []
    for reason in reasons:
        if isinstance(reason, PodSetReason):
            by_pod_set.setdefault(reason.pod_set, []).append(pod_set_reason_text(reason))
        else:
            of_workload.append(reason)
    errors = [text for texts in by_pod_set.values() for text in texts if text.startswith(FLAVOR_ERROR)]
    text = "; ".join(
        errors[:1]
        or [
            f"couldn't assign flavors to pod set {pod_set}: {', '.join(sorted(texts))}"
            for pod_set, texts in by_pod_set.items()
        ]
    )
    for reason in of_workload:
        text = f"{text}{'. ' if text else ''}{workload_reason_text(reason)}"
    return text


def pod_set_reason_text(reason: PodSetReason) -> str:
    match reason:
        case ResourceUncovered(_, resource):
            return f"resource {resource} unavailable in ClusterQueue"
        case FlavorMissing(_, flavor):
            return f"flavor {flavor} not found"
        case TaintUntolerated(_, flavor, key, value, effect):
            return f"untolerated taint {{{key} {value} {effect}}} in flavor {flavor}"
        case AffinityMismatched(_, flavor):
            return f"flavor {flavor} doesn't match node affinity"
        case QuotaExceeded(_, flavor, resource, previous, requested):
            amounts = (previous, requested, reason.maximum)
            before, current, maximum = (as_quantity(resource, amount) for amount in amounts)
            return (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets "
                f"requests ({before}) + current podset request ({current}) > maximum capacity ({maximum})"
            )
        case QuotaShort(_, flavor, resource):
            short_by = as_quantity(resource, reason.short_by)
            return f"insufficient unused quota for {resource} in flavor {flavor}, {short_by} more needed"
        case TopologyMismatched(_, flavor, problem):
            return f'Flavor "{flavor}" {problem}'
        case PlacementRefused(_, text):
            return text
        case NodesLackRoom():
            return reason.text
    assert_never(reason)


def is_misconfiguration_text(message: str) -> bool:
    """Return True if ``message`` is the text of a ``Misconfiguration``."""
    return message.startswith(
        (
            "workload namespace doesn't match",
            "resources validation failed: ",
            "resources didn't satisfy LimitRange constraints: ",
            "DeviceClass ",
            "KueueDRAIntegration feature ",
            "extended resource ",
            "spec.podSets[",
        )
    ) or (message.startswith("pod set ") and ": claim " in message)


def workload_reason_text(reason: WorkloadReason) -> str:
    match reason:
        case QueueMissing(kind, ""):
            return f"{kind} is not set"
        case QueueMissing(kind, name):
            return f"{kind} {name} doesn't exist"
        case QueueInactive(kind, name):
            return f"{kind} {name} is inactive"
        case NamespaceMismatched():
            return "workload namespace doesn't match ClusterQueue selector"
        case DevicesUncounted(findings, _):
            return ", ".join(findings)
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
        case AwaitingOtherPreemption():
            return (
                "Workload has overlapping preemption targets with another workload, "
                "but will fit after these preemptions complete"
            )
        case AwaitingPreemption(victims, True):
            return f"Preempting {len(victims)} workload(s) failed, will retry."
        case AwaitingPreemption(victims):
            return f"Pending the preemption of {len(victims)} workload(s)"
        case PreemptionGated():
            return "Workload requires preemption, but it's gated"
        case AwaitingPodsReady(_, None):
            return "waiting for all admitted workloads to be in PodsReady condition"
        case AwaitingPodsReady(blocking, flavor):
            return f"waiting for {blocking}, admitted to flavor {flavor}, to be in PodsReady condition"
        case ReservedForEarlierWorkload(_, starts_at):  # other tenants read the text, but not its name
            moment = "" if starts_at is None else f", planned for {utc_text(starts_at)}"
            return f"reserved for the start of an earlier workload{moment}"
        case ReservedWindow():
            return reason.text
        case BackingOff(_, evicted_for):
            return f"backing off after an eviction for {evicted_for}"
        case EvaluationFailed(problem):
            return f"internal error, see the log of the controllers: {problem}"
    assert_never(reason)
