"""kueue.x-k8s.io/v1beta2, the internal version: queues, flavors, workloads.

Fields and defaults are Kueue's (v0.19). An absent limit is ``None`` in these structs; the quota core
represents *unlimited* with a value of its own.
"""

from datetime import datetime
from sys import intern
from typing import Literal

import msgspec

from quorate.api.batch import EMPTY_OBJECT, intern_raw
from quorate.api.core import Resources, Taint, Toleration
from quorate.api.interning import intern_fields, intern_metadata, shared_conditions
from quorate.api.kueue.topology import PodSetTopologyRequest, TopologyAssignment
from quorate.api.meta import Condition, Int32, Int64, LabelSelector, ObjectMeta, Struct, always_encoded
from quorate.api.quantity import Quantity

GROUP = "kueue.x-k8s.io"
VERSION = "v1beta2"

ACTIVE = "Active"  # a condition of queues and admission checks
UNREADABLE = "quorate.dev/Unreadable"  # a condition: a workload with quota cannot be decoded
PODS_RUN_AGAIN = "quorate.dev/PodsRunAgain"  # a condition: reclaimable pods need their quota again

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
QueueingStrategy = Literal["StrictFIFO", "BestEffortFIFO"]


class ResourceFlavorSpec(Struct):
    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str = ""


class ResourceFlavor(Struct):
    metadata: ObjectMeta
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class ResourceQuota(Struct):
    name: str
    nominal_quota: Quantity
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Struct):
    name: str
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Struct):
    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class FlavorFungibility(Struct):
    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None


class BorrowWithinCohort(Struct):
    policy: Literal["Never", "LowerPriority"] = "Never"
    max_priority_threshold: Int32 | None = None


class Preemption(Struct):
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()
    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"


class AdmissionCheckRule(Struct):
    name: str
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(Struct):
    admission_checks: tuple[AdmissionCheckRule, ...] = ()


class FairSharing(Struct):
    weight: Quantity = Quantity.of_units(1)


class AdmissionScope(Struct):
    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]


class ConcurrentAdmissionPolicy(Struct):
    """Attempts on several flavors at once; its presence is all that is read."""


class ReadinessOverrides(Struct):
    """Overrides of configured durations (see ``queueing.pods_ready``).  Not in Kueue."""

    timeout: str | None = None
    recovery_timeout: str | None = None
    scheduling_timeout: str | None = None


class ClusterQueueSpec(Struct):
    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    queueing_strategy: QueueingStrategy = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    preemption: Preemption = Preemption()
    admission_checks_strategy: AdmissionChecksStrategy = AdmissionChecksStrategy()
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None
    wait_for_pods_ready: ReadinessOverrides | None = None


class ResourceUsage(Struct, omit_defaults=False):
    name: str
    total: Quantity
    borrowed: Quantity | msgspec.UnsetType = msgspec.UNSET


class FlavorUsage(Struct, omit_defaults=False):
    name: str
    resources: tuple[ResourceUsage, ...] = ()


class FairSharingStatus(Struct, omit_defaults=False):
    weighted_share: Int64 = 0  # in thousandths, rounded up; the API's maximum if the weight is zero


class ClusterQueueStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    flavors_usage: tuple[FlavorUsage, ...] = ()
    pending_workloads: Int32 = always_encoded(int)
    reserving_workloads: Int32 = always_encoded(int)
    admitted_workloads: Int32 = always_encoded(int)
    fair_sharing: FairSharingStatus | None = None


class ClusterQueue(Struct):
    metadata: ObjectMeta
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class CohortSpec(Struct):
    parent_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(Struct, omit_defaults=False):
    fair_sharing: FairSharingStatus | None = None


class Cohort(Struct):
    metadata: ObjectMeta
    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


class LocalQueueSpec(Struct):
    cluster_queue: str = ""
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None


class AdmissionFairSharingStatus(Struct, omit_defaults=False):
    consumed_resources: Resources = {}
    last_update: datetime | None = None


class LocalQueueFairSharingStatus(Struct, omit_defaults=False):
    weighted_share: Int64 = 0
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class LocalQueueStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    flavors_usage: tuple[FlavorUsage, ...] = ()
    pending_workloads: Int32 = always_encoded(int)
    reserving_workloads: Int32 = always_encoded(int)
    admitted_workloads: Int32 = always_encoded(int)
    fair_sharing: LocalQueueFairSharingStatus | None = None


class LocalQueue(Struct):
    metadata: ObjectMeta
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


class PodSet(Struct, omit_defaults=False):
    """``count`` equal pods; the template is stored as bytes (``batch.decode_template``)."""

    name: str = "main"
    count: Int32 = 1
    min_count: Int32 | msgspec.UnsetType = msgspec.UNSET
    template: msgspec.Raw = EMPTY_OBJECT
    topology_request: PodSetTopologyRequest | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "name", intern(self.name))
        msgspec.structs.force_setattr(self, "template", intern_raw(self.template))


class PriorityClassRef(Struct):
    group: str
    kind: str
    name: str


class PreemptionGate(Struct):
    """A gate that blocks preemptions by the workload until ``status.preemptionGates`` has it open."""

    name: str


class WorkloadSpec(Struct):
    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: Int32 | None = None
    active: bool = True
    maximum_execution_time_seconds: Int32 | None = None
    preemption_gates: tuple[PreemptionGate, ...] = ()


class PodSetAssignment(Struct):
    name: str = "main"
    flavors: dict[str, str] = {}
    resource_usage: Resources = {}  # the total of the pod set
    count: Int32 | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: Literal["Pending", "Ready"] | None = None  # None: placed at admission


class Admission(Struct):
    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class RequeueState(Struct):
    count: Int32 | None = None
    requeue_at: datetime | None = None


class ReclaimablePod(Struct):
    name: str
    count: Int32


class PodSetUpdate(Struct):
    """Metadata and scheduling fields that an admission check adds to the pods of one pod set."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class AdmissionCheckState(Struct):
    """The state of one admission check, with all fields, because the list is written as a whole."""

    name: str
    state: Literal["Pending", "Ready", "Retry", "Rejected"]
    last_transition_time: datetime | None = None
    message: str = always_encoded()
    requeue_after_seconds: Int32 | None = None
    retry_count: Int32 | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


class PodSetRequest(Struct):
    name: str
    resources: Resources = {}


class EvictionCount(Struct, omit_defaults=False):
    reason: str
    underlying_cause: str = ""
    count: Int32 = 0


class SchedulingStats(Struct):
    evictions: tuple[EvictionCount, ...] = ()


class UnhealthyNode(Struct):
    name: str


class PreemptionGateState(Struct):
    """The position of a preemption gate of ``spec.preemptionGates``; one without a position is closed."""

    name: str
    position: Literal["Closed", "Open"]
    last_transition_time: datetime | None = None


class WorkloadStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    admission_checks: tuple[AdmissionCheckState, ...] = ()
    resource_requests: tuple[PodSetRequest, ...] = ()
    accumulated_past_execution_time_seconds: Int32 | None = None
    scheduling_stats: SchedulingStats | None = None
    cluster_name: str = ""
    nominated_cluster_names: tuple[str, ...] = ()
    unhealthy_nodes: tuple[UnhealthyNode, ...] = ()
    preemption_gates: tuple[PreemptionGateState, ...] = ()


class Workload(Struct):
    """A decoded workload shares with others what is equal: processes keep all of them, also finished ones."""

    metadata: ObjectMeta
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    def __post_init__(self) -> None:
        if not intern_metadata(self.metadata):
            return  # it is another version of an interned workload
        msgspec.structs.force_setattr(self.spec, "queue_name", intern(self.spec.queue_name))
        msgspec.structs.force_setattr(self.status, "conditions", shared_conditions(self.status.conditions))
        if (admission := self.status.admission) is not None:
            _intern_admission(admission)


_SHARED_FIELDS = {"pod_set_assignments": tuple[PodSetAssignment, ...]}


def _intern_admission(admission: Admission) -> None:
    msgspec.structs.force_setattr(admission, "cluster_queue", intern(admission.cluster_queue))
    for assignment in admission.pod_set_assignments:
        if assignment.topology_assignment is not None:
            return  # places differ from workload to workload
    intern_fields(admission, _SHARED_FIELDS)


class WorkloadPriorityClass(Struct):
    metadata: ObjectMeta
    value: Int32
    description: str = ""


class AdmissionCheckStatus(Struct):
    conditions: tuple[Condition, ...] = ()


class CheckParameters(Struct):
    """A reference to the object that configures an admission check."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(Struct):
    controller_name: str = ""
    parameters: CheckParameters | None = None


class AdmissionCheck(Struct):
    metadata: ObjectMeta
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()
