"""Fields of core/v1, scheduling.k8s.io/v1 and node.k8s.io/v1 objects that Quorate reads."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from quorate.api.meta import Condition, Int64, ObjectMeta, SelectorRequirement, Struct
from quorate.api.quantity import Quantity

Resources = dict[str, Quantity]
MAX_RESOURCES: Final = 512  # of a node or a gang: each name takes numbers and time for each node
MAX_TERMS: Final = 256
"""Terms of affinity, or topology spread constraints, in one list of a pod: each takes time for each node."""

MAX_CONTAINERS: Final = 4096
"""Containers in one list of a pod: 25,000 hold an event loop for 60 ms, and no pod in use has a hundred."""

AT_MOST_TERMS: Final = msgspec.Meta(max_length=MAX_TERMS)
AT_MOST_CONTAINERS: Final = msgspec.Meta(max_length=MAX_CONTAINERS)


def check_number_of_resources(field: str, resources: Resources | None) -> None:
    """Raise ValueError if ``resources`` has more names than the scheduler can consider in time."""
    if resources is not None and len(resources) > MAX_RESOURCES:
        raise ValueError(f"{field}: {len(resources)} resources, at most {MAX_RESOURCES} are considered")


class ResourceRequirements(Struct):
    requests: Resources = {}
    limits: Resources = {}


class ContainerPort(Struct):
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"


class Container(Struct):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""  # "Always" on an init container makes it a sidecar


class Toleration(Struct):
    key: str = ""
    operator: str = ""  # "" means Equal
    value: str = ""
    effect: str = ""  # "" means every effect
    toleration_seconds: Int64 | None = None


class Taint(Struct):
    key: str
    effect: str
    value: str = ""


# Of a cordoned node.
UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Return True if one of ``tolerations`` covers ``taint``.

    The operators ``Lt`` and ``Gt`` (KEP-5471) cover nothing: they are alpha and off in Kubernetes 1.36.
    """
    return any(
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (
            toleration.operator == "Exists"
            or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
        )
        for toleration in tolerations
    )


class NodeSelectorTerm(Struct):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Struct):
    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], AT_MOST_TERMS] = ()


class PreferredSchedulingTerm(Struct):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: Annotated[tuple[PreferredSchedulingTerm, ...], AT_MOST_TERMS] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None


class SchedulingGate(Struct):
    name: str


class PodResourceClaim(Struct):
    """A device that a pod claims by dynamic resource allocation: of a template, or a claim by its name."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSchedulingGroup(Struct):
    pod_group_name: str = ""  # of scheduling.k8s.io


class PodSpec(Struct):
    containers: Annotated[tuple[Container, ...], AT_MOST_CONTAINERS] = ()
    init_containers: Annotated[tuple[Container, ...], AT_MOST_CONTAINERS] = ()
    overhead: Resources = {}
    resources: ResourceRequirements = ResourceRequirements()
    runtime_class_name: str = ""
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None
    restart_policy: str = "Always"
    active_deadline_seconds: int | None = None
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None


class PodTemplateMeta(Struct):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PodTemplate(Struct):
    metadata: PodTemplateMeta = PodTemplateMeta()
    spec: PodSpec = PodSpec()


class ContainerStateTerminated(Struct):
    exit_code: int = 0
    finished_at: datetime | None = None


class ContainerState(Struct):
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(Struct):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    reason: str = ""
    start_time: datetime | None = None


class Pod(Struct):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(Struct):
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(Struct):
    capacity: Resources = {}
    allocatable: Resources = {}
    conditions: tuple[Condition, ...] = ()


class Node(Struct):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(Struct):
    phase: Literal["Active", "Terminating"] = "Active"


class Namespace(Struct):
    metadata: ObjectMeta
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Struct):
    metadata: ObjectMeta
    data: dict[str, str] = {}


class ServiceAccount(Struct):
    metadata: ObjectMeta


class LimitRangeItem(Struct):
    type: str
    default: Resources = {}
    default_request: Resources = {}
    min: Resources = {}
    max: Resources = {}
    max_limit_request_ratio: Resources = {}


class LimitRangeSpec(Struct):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Struct):
    metadata: ObjectMeta
    spec: LimitRangeSpec = LimitRangeSpec()


class ScopeRequirement(Struct):
    """One expression of a quota's scope selector; only ``PriorityClass`` has ``values``."""

    scope_name: str
    operator: str  # In, NotIn, Exists, DoesNotExist
    values: tuple[str, ...] = ()


class ScopeSelector(Struct):
    match_expressions: tuple[ScopeRequirement, ...] = ()


class ResourceQuotaSpec(Struct):
    """A quota counts the objects that match all of its ``scopes`` and its ``scope_selector``."""

    hard: Resources = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None

    @property
    def scope_requirements(self) -> tuple[ScopeRequirement, ...]:
        """Return both in one form; an object must match all of them."""
        existing = (ScopeRequirement(scope_name=name, operator="Exists") for name in self.scopes)
        return (*existing, *(() if self.scope_selector is None else self.scope_selector.match_expressions))


class ResourceQuotaStatus(Struct):
    hard: Resources = {}
    used: Resources = {}


class ResourceQuota(Struct):
    metadata: ObjectMeta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class PriorityClass(Struct):
    metadata: ObjectMeta
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class RuntimeClassOverhead(Struct):
    pod_fixed: Resources = {}


class RuntimeClassScheduling(Struct):
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Struct):
    metadata: ObjectMeta
    overhead: RuntimeClassOverhead = RuntimeClassOverhead()
    scheduling: RuntimeClassScheduling = RuntimeClassScheduling()
