"""Cluster queues, local queues and quota reservations as the ledger keeps them."""

import math
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from itertools import islice

import msgspec

from quorate.api.configuration.feature_gates import DEFAULT_GATES, Gates
from quorate.api.kueue import (
    Admission,
    ClusterQueue,
    ClusterQueueSpec,
    FairSharing,
    LocalQueue,
    ResourceGroup,
    Workload,
)
from quorate.api.meta import Condition, Key, matches_selector
from quorate.api.quantity import NANOS, Quantity
from quorate.api.validation.queues import stored_cluster_queue_findings
from quorate.queueing import conditions as c
from quorate.queueing.consumed_usage import ConsumedUsage
from quorate.queueing.inactive_reasons import InactiveReason, is_terminating
from quorate.queueing.limits import MAX_MESSAGE_FINDINGS, MAX_QUEUE_FINDINGS
from quorate.queueing.nodes.places import NO_PLACES
from quorate.queueing.pending.effective_requests import held_count, needed_counts
from quorate.queueing.pending.entry import Entry
from quorate.queueing.pending.ordering import QueueOrder
from quorate.queueing.pending.queue import PendingQueue
from quorate.queueing.planning.bounds import BoundInputs, RunBound, run_bound
from quorate.queueing.planning.rules import annotated_rules
from quorate.quota.amount import UNLIMITED, Amount, FlavorResource, Usage, base_units
from quorate.quota.tree import Limits, Node


class Reservation:
    """A workload with a quota reservation: stored, or assumed (decided by a cycle, not yet observed)."""

    __slots__ = (
        "admission",
        "admitted",
        "admitted_at",
        "assumed",
        "evicted",
        "is_preemption_target",
        "is_readable",
        "key",
        "local_queue",
        "order",
        "places",
        "ready",
        "replaced_admission",
        "reserved_at",
        "usage",
        "workload",
    )

    def __init__(self, workload: Workload, admission: Admission, usage: Usage, order: QueueOrder) -> None:
        held: dict[str, Condition] = {}
        for condition in workload.status.conditions:
            if condition.status == "True":
                held[condition.type] = condition
        reserved = held.get(c.QUOTA_RESERVED)
        self.key = workload.metadata.key
        self.workload = workload
        self.local_queue = Key(workload.metadata.namespace, workload.spec.queue_name)
        self.admission = admission
        self.usage = {pair: amount for pair, amount in usage.items() if amount}
        self.places = NO_PLACES  # of its pods, in topology flavors
        self.order = order  # as if it were pending: preemption compares priority and time
        self.assumed: Entry | None = None  # the pending entry, until the reservation is observed
        # With the places that a second pass has replaced, which count until the new ones are observed.
        self.replaced_admission: Admission | None = None
        self.is_readable = True  # of its object; otherwise an eviction could not be carried out
        self.is_preemption_target = False  # a preemptor waits for the reservation to be observed
        admitted = held.get(c.ADMITTED)
        self.admitted = admitted is not None
        self.admitted_at = None if admitted is None else c.transition_time(admitted)  # epoch seconds
        self.ready = c.PODS_READY in held
        self.evicted = c.EVICTED in held
        # An assumed reservation counts as later than every stored one.
        self.reserved_at = math.inf if reserved is None else c.transition_time(reserved)

    @classmethod
    def of_entry(cls, entry: Entry, admission: Admission, usage: Usage, *, admitted: bool) -> "Reservation":
        """Return the assumed reservation of a pending workload."""
        reservation = cls(entry.workload, admission, usage, entry.order)
        reservation.assumed = entry
        reservation.admitted, reservation.ready, reservation.evicted = admitted, False, False
        return reservation

    @property
    def priority(self) -> int:
        return -self.order[0]


class ReservationTotals:
    """Counts and sums over the reservations of one queue, updated with each of them."""

    __slots__ = ("admitted", "admitted_usage", "reserved_usage", "reserving")

    def __init__(self) -> None:
        self.reserving = 0
        self.admitted = 0
        self.reserved_usage: dict[FlavorResource, int] = {}
        self.admitted_usage: dict[FlavorResource, int] = {}

    def count(self, reservation: Reservation, sign: int) -> None:
        """Add (``sign`` 1) or subtract (``sign`` -1) a reservation."""
        self.reserving += sign
        reserved, admitted = self.reserved_usage, self.admitted_usage
        for pair, amount in reservation.usage.items():
            reserved[pair] = reserved.get(pair, 0) + sign * amount
        if reservation.admitted:
            self.admitted += sign
            for pair, amount in reservation.usage.items():
                admitted[pair] = admitted.get(pair, 0) + sign * amount


class FlavorGroup(msgspec.Struct, frozen=True):
    """A resource group: all its resources come from one flavor."""

    covered: frozenset[str]
    flavors: tuple[str, ...]


class ClusterQueueState:
    """A cluster queue with its pending workloads and its reservations."""

    __slots__ = (
        "_bound_inputs",
        "aging_findings",
        "backfills",
        "findings",
        "generation",
        "groups",
        "inactive_reasons",
        "is_strict",
        "name",
        "node",
        "object",
        "outside",
        "pending",
        "planned_start_findings",
        "planned_start_rules",
        "planned_workloads",
        "reservation_changes",
        "reservations",
        "spec",
        "totals",
    )

    def __init__(
        self,
        object_: ClusterQueue,
        node: Node,
        parked: dict[Key, None],
        version: Callable[[], int],
        bound_inputs: BoundInputs,
    ) -> None:
        """Collect in ``parked`` the workloads that become inadmissible without an evaluation.

        ``version``: see ``QueueTrees.version``.
        """
        self.name = object_.metadata.name
        self._bound_inputs = bound_inputs
        self.put_object(object_)
        self.node = node
        self.groups = flavor_groups(object_.spec)
        self.findings = spec_findings(object_.spec)
        self.aging_findings: tuple[str, ...] = ()  # what is invalid in the annotation of priority ageing
        self.inactive_reasons: tuple[InactiveReason, ...] = ()  # by precedence; empty: it may admit
        self.pending = PendingQueue(version, parked, lambda entry: self.bound(entry.workload).seconds)
        # The usage of ``node`` is exactly that of these reservations, and what pods use outside of quota, by
        # workload.
        self.reservations: dict[Key, Reservation] = {}
        self.outside: dict[Key, Usage] = {}
        self.totals = ReservationTotals()  # of ``reservations``
        self.reservation_changes = 0  # grows whenever any of ``reservations``, or its order, is another one
        self.generation = 0  # grows when a workload leaves: flavors may be worth another try

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the annotations of the ClusterQueue."""
        return self.object.metadata.annotations

    @property
    def invalid_settings(self) -> tuple[str, ...]:
        """Return what is invalid in the annotations of the queue and has no effect; a few findings."""
        return (*self.planned_start_findings, *self.aging_findings)[:MAX_MESSAGE_FINDINGS]

    def put_object(self, object_: ClusterQueue) -> None:
        """Read a newer object; fields that decisions read often are attributes, which cost less."""
        self.object = object_
        self.spec = object_.spec
        self.is_strict = object_.spec.queueing_strategy == "StrictFIFO"
        self.planned_start_rules, self.planned_start_findings = annotated_rules(
            object_.metadata.annotations, self._bound_inputs.defaults
        )
        # How many workloads that do not fit may have planned starts at once, see ``PlannedStarts``.
        self.planned_workloads = self.planned_start_rules.planned_workloads
        self.backfills = self.planned_workloads > 0

    def bound(self, workload: Workload) -> RunBound:
        """Return how long ``workload`` runs at most in this queue."""
        return run_bound(workload, self.planned_start_rules, self._bound_inputs.learned)

    @property
    def keeps_preemptor_first(self) -> bool:
        """Return True if a workload that waits for its preemption targets is first among the pending ones.

        In a strict queue it is by its order alone, but for consumed usage, which may put a target before it.
        """
        return not self.is_strict or self.pending.consumed_usage is not None

    @property
    def uses_admission_fair_sharing(self) -> bool:
        """Return True if its local queues are ordered by consumed usage, provided that is configured."""
        scope = self.spec.admission_scope
        return scope is not None and scope.admission_mode == "UsageBasedAdmissionFairSharing"

    def matches_namespace(self, labels: Mapping[str, str]) -> bool:
        """Return True if workloads of a namespace with ``labels`` may use the queue."""
        return matches_selector(self.spec.namespace_selector, labels)

    def newly_matching_namespaces(self, namespaces: Mapping[str, Mapping[str, str]]) -> frozenset[str]:
        """Return the namespaces of mismatched workloads that match the selector with their current labels."""
        mismatched = {key.namespace for key in self.pending.namespace_mismatched}
        return frozenset(name for name in mismatched if self.matches_namespace(namespaces.get(name, {})))

    def checks_for(self, admission: Admission | None, retried: Collection[str] = ()) -> tuple[str, ...]:
        """Return which admission checks apply; without an admission, the checks that apply to every flavor.

        A check in ``retried`` may apply to some flavors only: its retries are still counted.
        """
        rules = self.spec.admission_checks_strategy.admission_checks
        if not rules:
            return ()
        if admission is None:
            all_flavors = {flavor for group in self.groups.values() for flavor in group.flavors}
            return tuple(
                sorted(
                    rule.name
                    for rule in rules
                    if not rule.on_flavors or all_flavors <= set(rule.on_flavors) or rule.name in retried
                )
            )
        assigned = {flavor for pods in admission.pod_set_assignments for flavor in pods.flavors.values()}
        return tuple(
            sorted(rule.name for rule in rules if not rule.on_flavors or assigned & set(rule.on_flavors))
        )


class LocalQueueState:
    """A local queue.  Without an object it stands for a queue that workloads name and that does not exist."""

    __slots__ = ("consumed_usage", "entries", "object", "totals")

    def __init__(self) -> None:
        self.object: LocalQueue | None = None
        self.consumed_usage = ConsumedUsage()
        self.entries: dict[Key, Entry] = {}  # exactly the pending workloads that name it
        self.totals = ReservationTotals()

    @property
    def is_running(self) -> bool:
        """Return True if its workloads may be admitted: it exists, and is neither stopped nor deleted."""
        return self.object is not None and self.object.spec.stop_policy == "None" and not self.is_terminating

    @property
    def is_terminating(self) -> bool:
        return self.object is not None and is_terminating(self.object)

    @property
    def pending_count(self) -> int:
        """Return the number of pending workloads in its status: none if it does not run, as in Kueue."""
        return len(self.entries) if self.is_running else 0

    @property
    def cluster_queue(self) -> str:
        return self.object.spec.cluster_queue if self.object is not None else ""

    @property
    def weight(self) -> float:
        return float(weight_of(self.object.spec.fair_sharing if self.object is not None else None))


def flavor_groups(spec: ClusterQueueSpec) -> dict[str, FlavorGroup]:
    """Return the resource groups, by each covered resource."""
    groups: dict[str, FlavorGroup] = {}
    for group in spec.resource_groups:
        entry = FlavorGroup(
            frozenset(group.covered_resources), tuple(flavor.name for flavor in group.flavors)
        )
        groups.update(dict.fromkeys(group.covered_resources, entry))
    return groups


def limits_of(resource_groups: tuple[ResourceGroup, ...]) -> dict[FlavorResource, Limits]:
    """Return the quota of a cluster queue or cohort, in base units."""
    return {
        FlavorResource(flavor.name, quota.name): Limits(
            base_units(quota.name, quota.nominal_quota),
            _limit(quota.name, quota.borrowing_limit),
            _limit(quota.name, quota.lending_limit),
        )
        for group in resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    }


def _limit(resource: str, quantity: Quantity | None) -> Amount:
    return UNLIMITED if quantity is None else base_units(resource, quantity)


def weight_of(sharing: FairSharing | None) -> Fraction:
    """Return the fair sharing weight; 1 if there is none."""
    if sharing is None or sharing.weight is None:
        return Fraction(1)
    return Fraction(sharing.weight.nanos, NANOS)


def counts_quota(workload: Workload) -> bool:
    """Return True if the reservation of ``workload`` counts: it is active and not finished."""
    return c.has_quota_reservation(workload) and workload.spec.active and not c.is_finished(workload)


def usage_of(
    workload: Workload, admission: Admission, gates: Gates = DEFAULT_GATES
) -> dict[FlavorResource, int]:
    """Return the usage that a reservation counts: the recorded usage without the pods reclaimed since."""
    needed = needed_counts(workload, gates)
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    usage: dict[FlavorResource, int] = {}
    for assigned in admission.pod_set_assignments:
        recorded = assigned.count if assigned.count is not None else counts.get(assigned.name, 0)
        left = held_count(assigned, needed)
        for resource, flavor in assigned.flavors.items():
            quantity = assigned.resource_usage.get(resource)
            if quantity is None:
                continue
            amount = base_units(resource, quantity)
            if left < recorded:
                amount = amount // recorded * left
            pair = FlavorResource(flavor, resource)
            usage[pair] = usage.get(pair, 0) + amount
    return usage


def spec_findings(spec: ClusterQueueSpec) -> tuple[str, ...]:
    """Return what is invalid in the spec of a stored cluster queue, as texts: the first ones."""
    return tuple(str(finding) for finding in islice(stored_cluster_queue_findings(spec), MAX_QUEUE_FINDINGS))
