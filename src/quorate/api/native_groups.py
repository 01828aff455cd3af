"""scheduling.k8s.io: Kubernetes' own Workloads and PodGroups, v1alpha2 of 1.36 and what is read of v1beta1.

All that differs between the versions of this API is in this module: Kubernetes 1.37 serves ``v1beta1``, of
which the groups within groups (``CompositePodGroup``) are not read.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.api.meta import Condition, Int32, ObjectMeta, Struct, always_encoded

GROUP: Final = "scheduling.k8s.io"
VERSION: Final = "v1alpha2"
API_VERSION: Final = f"{GROUP}/{VERSION}"
PREFIX: Final = f"{GROUP}/"
"""Of the names of these groups where groups of Volcano may have the same ones."""
BETA: Final = "v1beta1"
VERSIONS: Final = (VERSION, BETA)  # that are read, the one to prefer first
PROTECTION_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"
"""Keeps a pod group until no active pod refers to it."""

# Feature gates of Kubernetes.
GENERIC_WORKLOAD: Final = "GenericWorkload"
WORKLOAD_WITH_JOB: Final = "WorkloadWithJob"
GATES: Final = (
    GENERIC_WORKLOAD,
    "GangScheduling",  # 1.36 alone
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",  # 1.36 alone
    WORKLOAD_WITH_JOB,
    "DRAWorkloadResourceClaims",
    "CompositePodGroup",  # from 1.37
    "PodGroupPreemptionPolicy",  # from 1.37
)

# Of Quorate: which jobs start with groups, and how their pods become members.
MODE: Final = "quorate.dev/gangs"
"""An annotation of ClusterQueues and jobs."""
NATIVE: Final = "native"
MEMBER_OF: Final = "quorate.dev/pod-group"
"""A label of pods, which an admission policy makes members of the group that it names."""
POLICY: Final = "quorate-native-gangs"
"""The admission policy, and its binding."""

# Condition types of a pod group.
POD_GROUP_SCHEDULED: Final = "PodGroupScheduled"
DISRUPTION_TARGET: Final = "DisruptionTarget"
SCHEDULED_TYPES: Final[Mapping[str, str]] = {VERSION: POD_GROUP_SCHEDULED, BETA: "PodGroupInitiallyScheduled"}
"""The condition of a group that was placed, by version."""
# Reasons of these conditions.
SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

# How a group is disrupted.
AS_A_WHOLE: Final = "PodGroup"


class BasicPolicy(Struct):
    """Every pod is placed on its own."""


class GangPolicy(Struct):
    """At least ``min_count`` pods are placed, or none."""

    min_count: Int32 = always_encoded(int)


class SchedulingPolicy(Struct):
    """One of two policies."""

    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Struct):
    """All pods run on nodes with the same value of the label ``key``."""

    key: str = ""


class SchedulingConstraints(Struct):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(Struct):
    """A claim that the pods of a group share: an existing claim, or a claim made from a template."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class WorkloadTemplateReference(Struct):
    workload_name: str = ""
    pod_group_template_name: str = ""


class TemplateReference(Struct):
    workload: WorkloadTemplateReference | None = None


class WorkloadReference(Struct):
    """``v1beta1``: the workload and the template of a group."""

    workload_name: str = ""
    template_name: str = ""


class AllPods(Struct):
    """The pods of a group are disrupted together."""


class DisruptionMode(Struct):
    """``v1beta1``: one of two modes."""

    all: AllPods | None = None


class PodGroupTemplate(Struct):
    name: str = ""
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | DisruptionMode = ""
    priority_class_name: str = ""
    priority: Int32 | None = None


class ControllerReference(Struct):
    """The object in the same namespace for which a workload was made."""

    kind: str
    name: str
    api_group: str = ""


class WorkloadSpec(Struct):
    controller_ref: ControllerReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(Struct):
    metadata: ObjectMeta
    spec: WorkloadSpec = WorkloadSpec()


class PodGroupSpec(Struct):
    pod_group_template_ref: TemplateReference | None = None
    workload_ref: WorkloadReference | None = None
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | DisruptionMode = ""
    priority_class_name: str = ""
    priority: Int32 | None = None

    @property
    def workload_name(self) -> str:
        """The workload with the template of the group; empty if the group is of none."""
        return self._reference.workload_name

    @property
    def template_name(self) -> str:
        """The template of the group in its workload; empty if the group is of none."""
        return self._reference.template_name

    @property
    def _reference(self) -> WorkloadReference:
        alpha = self.pod_group_template_ref
        if alpha is None or alpha.workload is None:
            return self.workload_ref or WorkloadReference()
        return WorkloadReference(
            workload_name=alpha.workload.workload_name, template_name=alpha.workload.pod_group_template_name
        )

    @property
    def is_disrupted_as_a_whole(self) -> bool:
        mode = self.disruption_mode
        return mode == AS_A_WHOLE if isinstance(mode, str) else mode.all is not None

    @property
    def is_default(self) -> bool:
        """Return True for the group that the Job controller of 1.37 makes for a job without demands."""
        demands = self.topology_key or self.resource_claims or self.is_disrupted_as_a_whole
        return self.scheduling_policy.gang is None and not demands

    @property
    def topology_key(self) -> str:
        """The label with the same value on all nodes of the group; empty without a constraint."""
        constraints = self.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else ""


class PodGroupClaimStatus(Struct):
    """The claim that was made for a group from a template; None: the group needs none."""

    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupClaimStatus, ...] = ()


class PodGroup(Struct):
    """The pods of a namespace that name this group in ``spec.schedulingGroup``."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


def find_scheduled(conditions: Sequence[Condition]) -> Condition | None:
    """Return the condition that says whether a group was placed; None if no condition does."""
    types = SCHEDULED_TYPES.values()
    return next((condition for condition in conditions if condition.type in types), None)
