"""StatefulSets and LeaderWorkerSets as groups of pods: the workloads that they need.

A StatefulSet is one pod group, a LeaderWorkerSet one for each of its replicas.  The workload of a group is
constructed from the set before its pods exist; labels add the pods to the group.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core.pod import Pod
from quorate.api.field_path import InvalidTemplate, format_path, look_up, read_count, read_field
from quorate.api.findings import Finding
from quorate.api.kueue import PodSet
from quorate.api.kueue.topology_annotations import NO_INDEX, PodIndex
from quorate.api.meta import Key, ObjectMeta, Struct, Uid
from quorate.api.names.multikueue import ORIGIN, ORIGIN_UID
from quorate.controllers.jobframework.construct_workload import workload_name
from quorate.controllers.jobframework.topology import (
    TopologySource,
    topology_findings,
    with_topology_requests,
)
from quorate.controllers.jobs.unstructured import pod_template
from quorate.controllers.limits import MAX_REPLICAS
from quorate.controllers.serving.set_templates import DEPLOYMENT, LEADER_WORKER_SET, STATEFUL_SET, SetKind
from quorate.kube.resources import Json, Resource

LEADER: Final = "leader"
WORKER: Final = "worker"
MAIN: Final = "main"
_TEMPLATES: Final = ("spec", "leaderWorkerTemplate")
_REPLICAS: Final = ("spec", "replicas")
_LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
_LWS_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
_LWS_WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"
_STATEFUL_INDEX: Final = PodIndex("apps.kubernetes.io/pod-index")
_WORKER_INDEX: Final = PodIndex(_LWS_WORKER)


class ServingSet(Struct):
    """A set of pods as JSON, because its whole templates are copied into workloads."""

    metadata: ObjectMeta
    spec: Json = msgspec.field(default_factory=dict)
    status: Json = msgspec.field(default_factory=dict)

    @property
    def is_copy(self) -> bool:
        """Return True if a manager cluster made the set, and makes its workloads (MultiKueue)."""
        return ORIGIN in self.metadata.labels

    @property
    def naming_uid(self) -> Uid:
        """Return the uid in the names of workloads, which the copy of a set has in common with it."""
        origin = self.metadata.annotations.get(ORIGIN_UID, "") if self.is_copy else ""
        return Uid(origin) if origin else self.metadata.uid

    @property
    def document(self) -> Json:
        return {"metadata": codec.to_builtins(self.metadata), "spec": self.spec, "status": self.status}


@dataclass(frozen=True, slots=True)
class ServingGroup:
    """Pods of a set that are admitted together."""

    workload: str  # name of the workload and of the group
    pod_sets: tuple[PodSet, ...]
    index: int | None = None  # among the groups of the set; None: there is only one
    older_name: str = ""  # of the workload, if it exists under that name only

    @property
    def total(self) -> int:
        return sum(pod_set.count for pod_set in self.pod_sets)


@dataclass(frozen=True, slots=True)
class PodPosition:
    """The group of its set that a pod belongs to, and its role there."""

    index: int | None
    role: str


class ServingKind(ABC):
    """A kind of set that is admitted in groups; reading one raises ``InvalidTemplate``."""

    def __init__(self, resource: Resource[ServingSet]) -> None:
        self.resource = resource

    @abstractmethod
    def groups(self, obj: ServingSet, short_names: bool) -> tuple[ServingGroup, ...]:
        """Return the groups that need a workload."""

    def older_name(self, obj: ServingSet, short_names: bool) -> str:
        """Return the name of the workload that earlier versions of Kueue made; empty: they made none."""
        return ""

    @abstractmethod
    def topology_source(self, role: str) -> TopologySource:
        """Return where a set has the topology annotations of the pods with ``role``."""

    @abstractmethod
    def position_of(self, pod: Pod) -> PodPosition | None:
        """Return the position of a pod; None if its labels are missing."""

    def _name(self, obj: ServingSet, short: bool, suffix: str = "", extra: str = "") -> str:
        kind, group, name = self.resource.kind, self.resource.group, f"{obj.metadata.name}{suffix}"
        return workload_name(kind, group, name, obj.naming_uid, extra, short=short)


class StatefulSets(ServingKind):
    def groups(self, obj: ServingSet, short_names: bool) -> tuple[ServingGroup, ...]:
        count = read_count(obj.document, ("spec", "replicas"), 1)
        older = self.older_name(obj, short_names)
        pod_sets = (_pod_set(MAIN, obj, ("spec", "template"), count),)
        return (ServingGroup(self._name(obj, short_names), pod_sets, older_name=older),)

    def older_name(self, obj: ServingSet, short_names: bool) -> str:
        kind, group = self.resource.kind, self.resource.group
        return workload_name(kind, group, obj.metadata.name, Uid(""), short=short_names)

    def topology_source(self, role: str) -> TopologySource:
        return TopologySource("spec.template.metadata.annotations", _STATEFUL_INDEX)

    def position_of(self, pod: Pod) -> PodPosition | None:
        return PodPosition(None, MAIN)


class LeaderWorkerSets(ServingKind):
    """Each replica is a group: a leader with workers, or equal pods without a leader."""

    def groups(self, obj: ServingSet, short_names: bool) -> tuple[ServingGroup, ...]:
        pod_sets = _pod_sets_of_a_replica(obj)
        wanted = read_count(obj.document, _REPLICAS, 1)
        if wanted > MAX_REPLICAS:
            raise InvalidTemplate(_REPLICAS, f"is {wanted}, must be at most {MAX_REPLICAS}")
        present = read_count(obj.document, ("status", "replicas"), 0)
        surge = min(present, 2 * MAX_REPLICAS)  # temporarily more during a rolling update
        return tuple(
            ServingGroup(
                self._name(obj, short_names, suffix=f"-{index}"),
                pod_sets,
                index,
                older_name=self._name(obj, short_names, extra=str(index)),  # of Quorate up to 0.2
            )
            for index in range(max(wanted, surge))
        )

    def topology_source(self, role: str) -> TopologySource:
        template, index = (
            ("leaderTemplate", NO_INDEX) if role == LEADER else ("workerTemplate", _WORKER_INDEX)
        )
        return TopologySource(f"{format_path(_TEMPLATES)}.{template}.metadata.annotations", index)

    def position_of(self, pod: Pod) -> PodPosition | None:
        labels = pod.metadata.labels
        group, worker = labels.get(_LWS_GROUP, ""), labels.get(_LWS_WORKER, "")
        if not (group.isdecimal() and worker.isdecimal()):
            return None
        return PodPosition(int(group), LEADER if worker == "0" else WORKER)


def with_requests(kind: ServingKind, group: ServingGroup, gates: TopologyGates) -> ServingGroup:
    """Return the group with the topology requests of its pod sets."""
    return replace(
        group, pod_sets=with_topology_requests(group.pod_sets, _topology_sources(kind, group), gates)
    )


def group_topology_findings(
    kind: ServingKind, group: ServingGroup, gates: TopologyGates
) -> tuple[Finding, ...]:
    """Validate the topology annotations of a group's pods."""
    return topology_findings(group.pod_sets, _topology_sources(kind, group), gates, grouped=True)


def set_topology_findings(kind: ServingKind, obj: ServingSet, gates: TopologyGates) -> tuple[Finding, ...]:
    """Validate the topology annotations of a set, all groups of which are equal; none if it has no pods.

    Raises ``InvalidTemplate``.
    """
    groups = kind.groups(obj, short_names=False)
    return group_topology_findings(kind, groups[0], gates) if groups else ()


def _topology_sources(kind: ServingKind, group: ServingGroup) -> list[TopologySource]:
    return [kind.topology_source(pod_set.name) for pod_set in group.pod_sets]


def _pod_sets_of_a_replica(obj: ServingSet) -> tuple[PodSet, ...]:
    size = read_count(obj.document, (*_TEMPLATES, "size"), 1)
    workers = (*_TEMPLATES, "workerTemplate")
    if look_up(obj.document, (*_TEMPLATES, "leaderTemplate")) is None:
        return (_pod_set(MAIN, obj, workers, size),)
    leader = _pod_set(LEADER, obj, (*_TEMPLATES, "leaderTemplate"), 1)
    return leader, _pod_set(WORKER, obj, workers, size - 1)


def _pod_set(name: str, obj: ServingSet, path: tuple[str, ...], count: int) -> PodSet:
    return PodSet(name=name, count=count, template=pod_template(read_field(obj.document, path, dict), path))


@dataclass(frozen=True, slots=True)
class ServingFramework:
    """One integration of a kind of set."""

    resource: Resource[ServingSet]
    templates: SetKind
    serving: ServingKind | None  # None: each pod is admitted individually
    set_key_of: Callable[[Pod], Key | None]  # the set that created a pod


def _stateful_set_of(pod: Pod) -> Key | None:
    owner = pod.metadata.controller
    if owner is None or owner.kind != "StatefulSet" or _LWS_NAME in pod.metadata.labels:
        return None
    return Key(pod.metadata.namespace, owner.name)


def _leader_worker_set_of(pod: Pod) -> Key | None:
    """Return the set from a label: the pods are owned by StatefulSets of the set."""
    name = pod.metadata.labels.get(_LWS_NAME, "")
    return Key(pod.metadata.namespace, name) if name else None


def _resource(group: str, plural: str, kind: str) -> Resource[ServingSet]:
    return Resource(group, "v1", plural, kind, True, ServingSet)


_DEPLOYMENTS: Final = _resource("apps", "deployments", "Deployment")
_STATEFUL_SETS: Final = _resource("apps", "statefulsets", "StatefulSet")
_LWS: Final = _resource("leaderworkerset.x-k8s.io", "leaderworkersets", "LeaderWorkerSet")
SETS: Final[Mapping[str, ServingFramework]] = {
    framework.templates.framework: framework
    for framework in (
        ServingFramework(_DEPLOYMENTS, DEPLOYMENT, None, lambda pod: None),
        ServingFramework(_STATEFUL_SETS, STATEFUL_SET, StatefulSets(_STATEFUL_SETS), _stateful_set_of),
        ServingFramework(_LWS, LEADER_WORKER_SET, LeaderWorkerSets(_LWS), _leader_worker_set_of),
    )
}
