"""The witness: compares what pods use with quota and with the nodes, at each observation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import Node
from quorate.api.kueue import ClusterQueue, Cohort
from quorate.api.meta import Key, Uid, epoch, is_true
from quorate.api.names.kueue import POD_SET, QUEUE_NAME
from quorate.api.quantity import NANOS
from quorate.witness.admissions import Admissions, WitnessedWorkload, assignment_of
from quorate.witness.devices import ClaimedDevices, WitnessedClaim, WitnessedSlice
from quorate.witness.limits import FlavorResource, Holder, QuotaTrees
from quorate.witness.lowered import LoweredLimits, SpecVersions
from quorate.witness.pods import WitnessedPod
from quorate.witness.report import Difference, Place, Reason, Report, Usage

PODS: Final = "pods"  # the resource that counts pods


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The stored objects that the witness reads, at one moment."""

    resources: ResourceOptions  # of the Configuration
    pods: Sequence[WitnessedPod] = ()
    workloads: Sequence[WitnessedWorkload] = ()
    cluster_queues: Sequence[ClusterQueue] = ()
    cohorts: Sequence[Cohort] = ()
    nodes: Sequence[Node] = ()
    claims: Sequence[WitnessedClaim] = ()
    slices: Sequence[WitnessedSlice] = ()  # of devices, if counters count
    owners: Mapping[Uid, Uid] = field(default_factory=dict)  # the controller of an owner of pods


@dataclass(frozen=True, slots=True)
class _Charge:
    """The amounts of quota that one pod uses, and its cluster queue."""

    pod: WitnessedPod
    queue: str
    workload: WitnessedWorkload
    amounts: Mapping[FlavorResource, int]

    @property
    def reserved_at(self) -> float:
        return self.workload.reserved_at


class Witness:
    """Remembers what one observation cannot tell: past admissions, lowered limits, since when.

    ``grace_s``: how long a difference must last to be reported as lasting.  Pods that are being stopped, and
    copies of objects that arrive one after the other, make short ones.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._admissions = Admissions()
        self._spec_versions = SpecVersions()
        self._quota_limits: LoweredLimits[tuple[Holder, FlavorResource]] = LoweredLimits()
        self._node_limits: LoweredLimits[tuple[str, str]] = LoweredLimits()
        self._since: dict[tuple[Place, Reason], float] = {}

    def observe(self, facts: Facts, now: float) -> Report:
        """Return the use and the differences at ``now``, which must not decrease."""
        nodes = {node.metadata.name: node for node in facts.nodes}
        running = [pod for pod in facts.pods if pod.holds_node and not _is_lost(pod, nodes)]
        devices = ClaimedDevices(facts.claims, facts.slices, facts.resources)
        charges, unadmitted = self._charges(facts, running, devices)
        usage, over_quota = self._quota_differences(facts, charges, now)
        differences = (
            *over_quota,
            *_beyond_admission(charges),
            *self._node_differences(nodes, running, now),
            *_without_quota(unadmitted),
        )
        differing = {(difference.place, difference.reason) for difference in differences}
        self._since = {key: self._since.get(key, now) for key in sorted(differing)}
        lasting = tuple(
            difference
            for difference in differences
            if now - self._since[difference.place, difference.reason] >= self._grace_s
        )
        return Report(usage, differences, lasting, tuple(sorted(devices.uncounted)))

    def _charges(
        self, facts: Facts, running: Iterable[WitnessedPod], devices: ClaimedDevices
    ) -> tuple[list[_Charge], list[WitnessedPod]]:
        """Return what pods use of quota, and the pods of workloads that have no quota at present."""
        workloads = {workload.metadata.uid: workload for workload in facts.workloads}
        self._admissions.update(workloads.values())
        index = self._admissions.index(facts.owners)
        queues = {queue.metadata.name: queue for queue in facts.cluster_queues}
        charges: list[_Charge] = []
        unadmitted: list[WitnessedPod] = []
        with_pods: set[Uid] = set()
        requests_of: dict[
            tuple[Uid, str, int], Mapping[FlavorResource, int]
        ] = {}  # of pods with equal requests
        for pod in running:
            workload = index.workload_of(pod)
            if workload is None:
                if pod.is_marked:
                    unadmitted.append(pod)
                continue
            uid = workload.metadata.uid
            with_pods.add(uid)
            stored = workloads.get(uid)
            if stored is None or not stored.is_running:
                unadmitted.append(pod)
            admission = workload.status.admission
            assert admission is not None, "a remembered workload has an admission"
            queue = queues.get(admission.cluster_queue)
            if queue is not None:
                claimed = devices.take(pod.metadata.uid)
                equal = uid, pod.metadata.labels.get(POD_SET, ""), id(pod.requests)
                amounts = None if claimed else requests_of.get(equal)
                if amounts is None:
                    counted = _with_devices(_counted_amounts(pod.requests, facts.resources), claimed)
                    amounts = _flavor_amounts(pod, counted, workload, queue)
                    if not claimed:
                        requests_of[equal] = amounts
                charges.append(_Charge(pod, queue.metadata.name, workload, amounts))
        self._admissions.keep_only(with_pods)
        return charges, unadmitted

    def _quota_differences(
        self, facts: Facts, charges: Iterable[_Charge], now: float
    ) -> tuple[tuple[Usage, ...], list[Difference]]:
        trees = QuotaTrees(facts.cluster_queues, facts.cohorts)
        by_queue: dict[str, list[_Charge]] = {}
        for charge in charges:
            by_queue.setdefault(charge.queue, []).append(charge)
        usage: list[Usage] = []
        differences: list[Difference] = []
        seen = self._quota_limits.observation(now)
        missed = self._spec_versions.missed((*facts.cluster_queues, *facts.cohorts))
        for root in trees.roots():
            may_be_lower = bool(missed and missed.intersection(trees.below(root)))
            here = [charge for name in trees.queues_below(root) for charge in by_queue.get(name, ())]
            used_here = {of for charge in here for of in charge.amounts}
            for of in sorted(trees.flavor_resources(root) | used_here):
                limits, kept = trees.limits_of(root, of), trees.kept_of(root, of)
                use = trees.use_of(root, of, _by_queue(here, of))
                usage += [Usage(holder, of, used) for holder, used in sorted(use.items())]
                for holder, used in sorted(use.items()):
                    queues = trees.queues_below(holder)
                    lowered = seen.lowered_at(
                        (holder, of), limits.get(holder), queues, kept[holder], may_be_lower=may_be_lower
                    )
                    if used > limits.get(holder, used):
                        excused = [charge for charge in here if charge.reserved_at <= lowered + self._grace_s]
                        is_excused = used <= trees.use_of(root, of, _by_queue(excused, of))[holder]
                        reason = self._quota_limits.reason(lowered) if is_excused else Reason.OVER_LIMIT
                        pods = [
                            charge.pod for charge in here if charge.queue in queues and charge.amounts.get(of)
                        ]
                        place = Place(holder.kind, holder.name, of.flavor, of.resource)
                        names = _newest_first(pods)
                        differences.append(Difference(place, reason, used, limits[holder], names))
        seen.end()
        return tuple(usage), differences

    def _node_differences(
        self, nodes: Mapping[str, Node], running: Iterable[WitnessedPod], now: float
    ) -> list[Difference]:
        by_node: dict[str, list[WitnessedPod]] = {}
        for pod in running:
            by_node.setdefault(pod.node, []).append(pod)
        differences: list[Difference] = []
        seen = self._node_limits.observation(now)
        for name, node in sorted(nodes.items()):
            pods: Sequence[WitnessedPod] = by_node.get(name, ())
            allocatable = {key: amount.nanos for key, amount in node.status.allocatable.items()}
            for resource in sorted({*allocatable, PODS, *(key for pod in pods for key in pod.requests)}):
                limit = allocatable.get(resource, 0)
                lowered = seen.lowered_at((name, resource), limit, frozenset(), {})
                used = sum(_node_amount(pod, resource) for pod in pods)
                if used <= limit:
                    continue
                excused = sum(
                    _node_amount(pod, resource) for pod in pods if _bound_at(pod) <= lowered + self._grace_s
                )
                reason = self._node_limits.reason(lowered) if used <= excused else Reason.OVER_ALLOCATABLE
                users = _newest_first(pod for pod in pods if _node_amount(pod, resource))
                differences.append(Difference(Place("Node", name, "", resource), reason, used, limit, users))
        seen.end()
        return differences


def _is_lost(pod: WitnessedPod, nodes: Mapping[str, Node]) -> bool:
    """Return True if nothing is known of the pod's containers any more: its node has failed.

    Such a pod stays until it is deleted by force, and may have been replaced meanwhile.
    """
    node = nodes.get(pod.node)
    if node is None:
        return True
    return pod.metadata.deletion_timestamp is not None and not is_true(node.status.conditions, "Ready")


def _flavor_amounts(
    pod: WitnessedPod, counted: Mapping[str, int], workload: WitnessedWorkload, queue: ClusterQueue
) -> dict[FlavorResource, int]:
    """Return the ``counted`` amounts of the pod, and the pod, by the flavors of its pod set.

    A resource that the queue has quota for and that the admission does not name is of the flavor of the other
    resources in its group, or of the only one, or of the first.
    """
    assignment = assignment_of(pod, workload)
    assigned = {} if assignment is None else assignment.flavors
    amounts: dict[FlavorResource, int] = {}
    left = {**counted, PODS: NANOS}
    for group in queue.spec.resource_groups:
        flavors = [flavor.name for flavor in group.flavors]
        together = [assigned[name] for name in group.covered_resources if name in assigned]
        for resource in group.covered_resources:
            flavor = assigned.get(resource) or next(iter((*together, *flavors)), "")
            if left.get(resource):
                amounts[FlavorResource(flavor, resource)] = left.pop(resource)
    for resource, flavor in assigned.items():  # the queue has no quota for it any more
        if left.get(resource):
            amounts[FlavorResource(flavor, resource)] = left[resource]
    return amounts


def _counted_amounts(requests: Mapping[str, int], options: ResourceOptions) -> dict[str, int]:
    """Return what the requests of a pod count as in quota, by resource in nano-units.

    The outputs of transformations count as well.  An excluded resource does not count itself,
    but its transformation does.
    """
    excluded = options.exclude_resource_prefixes
    rules = {rule.input: rule for rule in options.transformations}
    counted: dict[str, int] = {}
    generated: dict[str, Fraction] = {}
    for name, amount in requests.items():
        rule = rules.get(name)
        if not name.startswith(excluded) and (rule is None or rule.strategy == "Retain"):
            counted[name] = counted.get(name, 0) + amount
        if rule is None:
            continue
        times = Fraction(amount, NANOS)
        if rule.multiply_by:
            times *= Fraction(requests.get(rule.multiply_by, NANOS), NANOS)
        for output, per_unit in rule.outputs.items():
            generated[output] = generated.get(output, Fraction(0)) + times * per_unit.nanos
    for name, exact in generated.items():
        if exact > 0:
            counted[name] = counted.get(name, 0) + int(exact)
    return counted


def _with_devices(counted: Mapping[str, int], claimed: Mapping[str, int]) -> dict[str, int]:
    """Return the larger amounts: devices are claimed, or requested as an extended resource."""
    return {**counted, **{name: max(counted.get(name, 0), amount) for name, amount in claimed.items()}}


def _beyond_admission(charges: Iterable[_Charge]) -> list[Difference]:
    """Return where the pods of one workload use more than its admission counts for all of its pods.

    A pod that is being deleted does not count here: its replacement may exist already.
    """
    by_workload: dict[Key, list[_Charge]] = {}
    for charge in charges:
        if charge.pod.metadata.deletion_timestamp is None:
            by_workload.setdefault(charge.workload.metadata.key, []).append(charge)
    differences: list[Difference] = []
    for key, charged in sorted(by_workload.items()):
        admitted = _admitted_amounts(charged[-1].workload)
        for of, limit in sorted(admitted.items()):
            used = sum(charge.amounts.get(of, 0) for charge in charged)
            if used > limit:
                names = _newest_first(charge.pod for charge in charged if charge.amounts.get(of))
                place = Place("Workload", str(key), of.flavor, of.resource)
                differences.append(Difference(place, Reason.OUTSIDE_QUOTA, used, limit, names))
    return differences


def _admitted_amounts(workload: WitnessedWorkload) -> dict[FlavorResource, int]:
    admission = workload.status.admission
    amounts: dict[FlavorResource, int] = {}
    for assignment in () if admission is None else admission.pod_set_assignments:
        for resource, amount in assignment.resource_usage.items():
            of = FlavorResource(assignment.flavors.get(resource, ""), resource)
            amounts[of] = amounts.get(of, 0) + amount.nanos
    return amounts


def _by_queue(charges: Iterable[_Charge], of: FlavorResource) -> dict[str, int]:
    total: dict[str, int] = {}
    for charge in charges:
        total[charge.queue] = total.get(charge.queue, 0) + charge.amounts.get(of, 0)
    return total


def _node_amount(pod: WitnessedPod, resource: str) -> int:
    return NANOS if resource == PODS else pod.requests.get(resource, 0)


def _bound_at(pod: WitnessedPod) -> float:
    moment = pod.scheduled or pod.metadata.creation_timestamp
    return 0.0 if moment is None else epoch(moment)


def _without_quota(pods: Iterable[WitnessedPod]) -> list[Difference]:
    by_queue: dict[Key, list[WitnessedPod]] = {}
    for pod in pods:
        queue = Key(pod.metadata.namespace, pod.metadata.labels.get(QUEUE_NAME, ""))
        by_queue.setdefault(queue, []).append(pod)
    return [
        Difference(
            Place("LocalQueue", str(queue), "", PODS)
            if queue.name
            else Place("Namespace", queue.namespace, "", PODS),
            Reason.WITHOUT_ADMISSION,
            len(pods) * NANOS,
            0,
            _newest_first(pods),
        )
        for queue, pods in sorted(by_queue.items())
    ]


def _newest_first(pods: Iterable[WitnessedPod]) -> tuple[Key, ...]:
    def created(pod: WitnessedPod) -> float:
        moment = pod.metadata.creation_timestamp
        return 0.0 if moment is None else epoch(moment)

    ordered = sorted(pods, key=lambda pod: (-created(pod), pod.metadata.key))
    return tuple(pod.metadata.key for pod in ordered)
