"""Types of the workload controllers, and functions that they share."""

import hashlib
from typing import Any, Final

import msgspec

from quorate.api.batch import EMPTY_OBJECT
from quorate.api.core import Pod
from quorate.api.meta import Condition, ObjectMeta, Struct, is_true
from quorate.kube.resources import PODS, Json, Resource

__all__ = ["DEPLOYMENTS", "PODS", "REPLICA_SETS", "STATEFUL_SETS"]


class _ReplicatedSpec(Struct):
    replicas: int = 1
    template: msgspec.Raw = EMPTY_OBJECT

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "template", self.template.copy())


class RollingUpdate(Struct):
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"
    partition: int = 0


class Strategy(Struct):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class ReplicaSetSpec(_ReplicatedSpec):
    selector: Json = msgspec.field(default_factory=dict)


class ReplicaSetStatus(Struct):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0


class ReplicaSet(Struct):
    metadata: ObjectMeta
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class DeploymentSpec(_ReplicatedSpec):
    selector: Json = msgspec.field(default_factory=dict)
    strategy: Strategy = Strategy()
    paused: bool = False
    revision_history_limit: int = 10


class DeploymentStatus(Struct):
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(Struct):
    metadata: ObjectMeta
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class StatefulSetSpec(_ReplicatedSpec):
    pod_management_policy: str = "OrderedReady"
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


DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", True, Deployment)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet", True, ReplicaSet)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", True, StatefulSet)


def is_active(pod: Pod) -> bool:
    """Return True if a pod is neither finished nor terminating."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed")


def is_ready(pod: Pod) -> bool:
    return is_true(pod.status.conditions, "Ready")


def template_hash(template: msgspec.Raw) -> str:
    """Return a short hash of a pod template, equal for equal content."""
    document = msgspec.json.decode(template)
    text = msgspec.json.encode(document, order="deterministic")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()[:10]


def owner_references(resource: Resource[Any], metadata: ObjectMeta) -> list[Json]:
    """Return the owner references of objects created for an owner."""
    return [
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": metadata.name,
            "uid": metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def pod_from_template(template: msgspec.Raw, owner: list[Json], **named: str) -> Json:
    """Return the body of a pod from ``template``; ``named`` sets name or generateName, and namespace."""
    document: Json = msgspec.json.decode(template)
    described = document.get("metadata") or {}
    metadata = {
        "labels": dict(described.get("labels") or {}),
        "annotations": dict(described.get("annotations") or {}),
        "finalizers": list(described.get("finalizers") or ()),
        "ownerReferences": owner,
        **named,
    }
    return {"metadata": metadata, "spec": document["spec"]}
