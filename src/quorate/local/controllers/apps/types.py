"""Types of the workload controllers, and functions that they share."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.batch import EMPTY_OBJECT
from quorate.api.codec import Json
from quorate.api.meta import Condition, LabelSelector, ObjectMeta, Struct
from quorate.kube.resources import PODS, Resource

__all__ = ["DAEMON_SETS", "DEPLOYMENTS", "PODS", "REPLICATION_CONTROLLERS", "REPLICA_SETS", "STATEFUL_SETS"]


class _TemplateMetadata(Struct):
    labels: Mapping[str, str] = {}


class _Template(Struct):
    metadata: _TemplateMetadata = _TemplateMetadata()


def template_labels(template: msgspec.Raw) -> Mapping[str, str]:
    return codec.decode(_Template, bytes(template)).metadata.labels


class _TemplatedSpec(Struct):
    min_ready_seconds: int = 0
    template: msgspec.Raw = EMPTY_OBJECT

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "template", self.template.copy())


class _ReplicatedSpec(_TemplatedSpec):
    replicas: int = 1


class RollingUpdate(Struct):
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"
    partition: int = 0


class Strategy(Struct):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class ReplicaSetSpec(_ReplicatedSpec):
    selector: LabelSelector = LabelSelector()


class ReplicaSetStatus(Struct):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Struct):
    metadata: ObjectMeta
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ReplicationControllerSpec(_ReplicatedSpec):
    labels: dict[str, str] = msgspec.field(default_factory=dict, name="selector")

    @property
    def selector(self) -> LabelSelector:
        return LabelSelector(match_labels=self.labels)


class ReplicationController(Struct):
    metadata: ObjectMeta
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class DeploymentSpec(_ReplicatedSpec):
    selector: LabelSelector = LabelSelector()
    strategy: Strategy = Strategy()
    paused: bool = False
    revision_history_limit: int = 10
    progress_deadline_seconds: int = 600


class DeploymentCondition(Condition):
    last_update_time: datetime | None = None


class DeploymentStatus(Struct):
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()


class Deployment(Struct):
    metadata: ObjectMeta
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class StatefulSetOrdinals(Struct):
    start: int = 0


class ClaimRetentionPolicy(Struct):
    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class StatefulSetSpec(_ReplicatedSpec):
    selector: LabelSelector = LabelSelector()
    service_name: str = ""
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()
    volume_claim_templates: tuple[Json, ...] = ()
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy = ClaimRetentionPolicy()
    pod_management_policy: str = "OrderedReady"
    revision_history_limit: int = 10
    update_strategy: Strategy = Strategy()


class StatefulSetStatus(Struct):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    observed_generation: int = 0


class StatefulSet(Struct):
    metadata: ObjectMeta
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class RollingUpdateDaemonSet(Struct):
    max_surge: int | str = 0
    max_unavailable: int | str = 1


class DaemonSetUpdateStrategy(Struct):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdateDaemonSet = RollingUpdateDaemonSet()


class DaemonSetSpec(_TemplatedSpec):
    selector: LabelSelector = LabelSelector()
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    revision_history_limit: int = 10


class DaemonSetStatus(Struct):
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    observed_generation: int = 0


class DaemonSet(Struct):
    metadata: ObjectMeta
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", True, Deployment)
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", True, DaemonSet)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet", True, ReplicaSet)
REPLICATION_CONTROLLERS: Final = Resource(
    "", "v1", "replicationcontrollers", "ReplicationController", True, ReplicationController
)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", True, StatefulSet)
