"""A valid object of each kind that Quorate reads, and its status: what mutations start from."""

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.kube.resources import Resource, untyped
from tests.e2e.hostile import admission, condition, pod_set, pod_template
from tests.e2e.hostile import cluster_queue as hostile_cluster_queue
from tests.e2e.kinds import EXAMPLES

Json = dict[str, Any]
Build = Callable[[random.Random], Json]

NAMESPACE: Final = "fuzz"
QUEUE: Final = "queue"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
WEBHOOKS_LABEL: Final = "fuzz.quorate.dev/webhooks"  # objects with it are sent to the webhooks
GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
NOW: Final = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class FuzzedKind:
    resource: Resource[Json]
    build: Build  # the fields besides apiVersion, kind and metadata; metadata may have labels
    status: Build | None = None
    weight: int = 2

    @property
    def has_status_subresource(self) -> bool:
        return self.status is not None and self.resource.plural not in ("podgroups",)


def _kueue(plural: str, kind: str, namespaced: bool, version: str = "v1beta2") -> Resource[Json]:
    return untyped("kueue.x-k8s.io", version, plural, kind, namespaced)


def _spec(**fields: Any) -> Build:
    return lambda rng: {"spec": copy.deepcopy(fields)}


def _fields(**fields: Any) -> Build:
    return lambda rng: copy.deepcopy(fields)


def _true(*types: str) -> list[Json]:
    return [condition(type_, "True", NOW) for type_ in types]


def _queued(body: Json, rng: random.Random) -> Json:
    if rng.random() < 0.7:
        body.setdefault("metadata", {}).setdefault("labels", {})[QUEUE_LABEL] = QUEUE
    return body


def _job(rng: random.Random) -> Json:
    pods = rng.choice((1, 2, 3))
    spec = {
        "parallelism": pods,
        "completions": pods,
        "suspend": rng.random() < 0.7,
        "template": _template(rng),
    }
    return _queued({"spec": spec}, rng)


def _template(rng: random.Random) -> Json:
    scheduler = rng.choice(("default-scheduler", "quorate", "volcano"))
    return pod_template("10m", schedulerName=scheduler) | {"metadata": {}}


def _pod(rng: random.Random) -> Json:
    body: Json = {"metadata": {}, "spec": _template(rng)["spec"]}
    if rng.random() < 0.3:
        body["metadata"]["annotations"] = {GROUP_ANNOTATION: "group"}
    if rng.random() < 0.4:
        labels = {
            QUEUE_LABEL: QUEUE,
            "kueue.x-k8s.io/pod-group-name": "pods",
            "kueue.x-k8s.io/managed": "true",
        }
        body["metadata"]["labels"] = labels
        body["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
        body["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    return body


def _pod_status(rng: random.Random) -> Json:
    return {
        "phase": rng.choice(("Pending", "Running", "Succeeded", "Failed", "Unknown")),
        "conditions": _true("Ready", "PodScheduled"),
        "containerStatuses": [
            {"name": "main", "image": "", "imageID": "", "ready": True, "restartCount": 1,
             "state": {"terminated": {"exitCode": 137}}}
        ],
    }  # fmt: skip


def _workload(rng: random.Random) -> Json:
    return {
        "spec": {
            "queueName": QUEUE,
            "podSets": [pod_set("main", rng.choice((1, 3)), pod_template("10m"))],
            "active": True,
            **({"priority": 5} if rng.random() < 0.5 else {}),
            **({"maximumExecutionTimeSeconds": 1} if rng.random() < 0.2 else {}),
        }
    }


def _workload_status(rng: random.Random) -> Json:
    types = ("QuotaReserved", "Admitted", "Evicted", "Finished", "PodsReady", "Preempted", "Requeued")
    return {
        "conditions": _true(*rng.sample(types, rng.randint(1, 4))),
        "admission": admission(queue="fuzz"),
        "requeueState": {"count": 1, "requeueAt": NOW},
        "reclaimablePods": [{"name": "main", "count": 1}],
        "accumulatedPastExecutionTimeSeconds": 1,
        "admissionChecks": [{"name": "gate", "state": "Ready", "message": "", "lastTransitionTime": NOW}],
    }


def _cluster_queue(rng: random.Random) -> Json:
    spec = hostile_cluster_queue("", "10")["spec"]
    if rng.random() < 0.5:
        spec["cohortName"] = rng.choice(("fuzz", "ring-a", "deep-0"))
    if rng.random() < 0.3:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": "gate"}]}
    return {"spec": spec}


def _cohort(rng: random.Random) -> Json:
    groups = hostile_cluster_queue("", "10")["spec"]["resourceGroups"]
    return {"spec": {"parentName": rng.choice(("fuzz", "ring-b", "deep-5")), "resourceGroups": groups}}


def _node(rng: random.Random) -> Json:
    taint = {"key": "fuzz", "effect": "NoSchedule"}
    return {
        "metadata": {"labels": {"kubernetes.io/hostname": "fuzz", "topology.kubernetes.io/zone": "z"}},
        "spec": {"taints": [taint]} if rng.random() < 0.5 else {},
    }


def _node_status(rng: random.Random) -> Json:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {"capacity": amounts, "allocatable": dict(amounts), "conditions": _true("Ready")}


def _pod_group(rng: random.Random) -> Json:
    spec = {"minMember": 1, "queue": rng.choice(("default", "fuzz")), "minResources": {"cpu": "10m"}}
    return {"spec": spec} | ({"status": _pod_group_status(rng)} if rng.random() < 0.5 else {})


def _pod_group_status(rng: random.Random) -> Json:
    phase = rng.choice(("Pending", "Inqueue", "Running", "Unknown", "Completed"))
    return {"phase": phase, "running": 1, "conditions": _true("Scheduled")}


def _volcano_job(rng: random.Random) -> Json:
    return {
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 1,
            "queue": rng.choice(("default", "fuzz")),
            "tasks": [{"name": "worker", "replicas": 2, "template": pod_template("10m")}],
            "policies": [{"event": "PodFailed", "action": "RestartJob"}],
            "plugins": {rng.choice(("env", "svc", "ssh", "pytorch", "ray")): []},
        }
    }


def _volcano_job_status(rng: random.Random) -> Json:
    phase = rng.choice(("Pending", "Running", "Restarting", "Aborted", "Completed", "Failed"))
    return {
        "state": {"phase": phase, "lastTransitionTime": NOW},
        "minAvailable": 1,
        "running": 1,
        "version": 1,
    }


def _command(rng: random.Random) -> Json:
    target = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": rng.choice(("Job", "Queue")),
        "name": "missing",
        "uid": "1",
        "controller": True,
    }
    return {"action": rng.choice(("AbortJob", "ResumeJob", "OpenQueue", "CloseQueue")), "target": target}


def _provisioning_request_status(rng: random.Random) -> Json:
    return {"conditions": _true(rng.choice(("Provisioned", "Failed", "BookingExpired", "CapacityRevoked")))}


def _set(api: Resource[Json], **fields: Any) -> FuzzedKind:
    def build(rng: random.Random) -> Json:
        labels = {"app": "fuzz"}
        template = pod_template("10m")
        template["spec"]["restartPolicy"] = "Always"
        template["metadata"] = {"labels": labels}
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": template,
            **copy.deepcopy(fields),
        }
        return _queued({"spec": spec}, rng)

    return FuzzedKind(api, build, _fields(replicas=1, readyReplicas=1))


def _leader_worker_set(rng: random.Random) -> Json:
    template = {"size": 2, "workerTemplate": pod_template("10m")}
    return _queued({"spec": {"replicas": 1, "leaderWorkerTemplate": template}}, rng)


def _apps(plural: str, kind: str) -> Resource[Json]:
    return untyped("apps", "v1", plural, kind, True)


def _core(plural: str, kind: str, namespaced: bool = True) -> Resource[Json]:
    return untyped("", "v1", plural, kind, namespaced)


LEADER_WORKER_SETS: Final = untyped(
    "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", True
)
PROVISIONING: Final = untyped(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", True
)
LEGACY: Final = tuple(
    untyped(group, version, plural, kind, plural == "podgroups")
    for group, version in (("scheduling.incubator.k8s.io", "v1alpha1"), ("scheduling.sigs.dev", "v1alpha2"))
    for plural, kind in (("podgroups", "PodGroup"), ("queues", "Queue"))
)
_EVENT_FIELDS: Final = {
    "action": "Fuzz",
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reason": "Fuzz",
    "reportingController": "example.com/fuzz",
    "reportingInstance": "fuzz",
    "type": "Normal",
    "regarding": {"kind": "Job", "name": "missing", "namespace": NAMESPACE, "apiVersion": "batch/v1"},
}


def _integrations() -> Iterator[FuzzedKind]:
    specs = {example.resource: example for example in EXAMPLES if not example.is_built_in}
    for kind in FRAMEWORK_KINDS.values():
        example = specs[kind.resource]
        statuses = [status for status in (example.runs, example.stopped, example.succeeded) if status]

        def build(rng: random.Random, spec: Json = example.spec) -> Json:
            return _queued({"spec": copy.deepcopy(spec)}, rng)

        def status(rng: random.Random, statuses: list[Json] = statuses) -> Json:
            return copy.deepcopy(rng.choice(statuses))

        resource = kind.resource
        api = untyped(resource.group, resource.version, resource.plural, resource.kind, True)
        yield FuzzedKind(api, build, status)


def _referenced() -> Iterator[FuzzedKind]:
    """Yield the kinds that jobs refer to, such as training runtimes."""
    for example in EXAMPLES:
        for resource, body in example.dependencies:
            api = untyped(
                resource.group, resource.version, resource.plural, resource.kind, resource.namespaced
            )
            yield FuzzedKind(api, _fields(**body), weight=1)


KINDS: Final[tuple[FuzzedKind, ...]] = (
    FuzzedKind(untyped("batch", "v1", "jobs", "Job", True), _job, _fields(active=1, ready=1), 12),
    FuzzedKind(_core("pods", "Pod"), _pod, _pod_status, 12),
    FuzzedKind(_kueue("workloads", "Workload", True), _workload, _workload_status, 12),
    FuzzedKind(_kueue("workloads", "Workload", True, "v1beta1"), _workload, None, 1),
    FuzzedKind(
        _kueue("clusterqueues", "ClusterQueue", False), _cluster_queue, _fields(pendingWorkloads=1), 8
    ),
    FuzzedKind(_kueue("clusterqueues", "ClusterQueue", False, "v1beta1"), _cluster_queue, None, 1),
    FuzzedKind(_kueue("cohorts", "Cohort", False), _cohort, _fields(fairSharing={"weightedShare": 1}), 6),
    FuzzedKind(
        _kueue("localqueues", "LocalQueue", True), _spec(clusterQueue="fuzz"), _fields(pendingWorkloads=1), 4
    ),
    FuzzedKind(_kueue("resourceflavors", "ResourceFlavor", False), _spec(nodeLabels={"a": "b"}), None, 3),
    FuzzedKind(
        _kueue("admissionchecks", "AdmissionCheck", False),
        _spec(
            controllerName="kueue.x-k8s.io/provisioning-request",
            parameters={"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"},
        ),
        lambda rng: {"conditions": _true("Active")},
    ),
    FuzzedKind(_kueue("workloadpriorityclasses", "WorkloadPriorityClass", False), _fields(value=5)),
    FuzzedKind(
        _kueue("topologies", "Topology", False),
        _spec(levels=[{"nodeLabel": "kubernetes.io/hostname"}]),
        None,
        1,
    ),
    FuzzedKind(
        _kueue("provisioningrequestconfigs", "ProvisioningRequestConfig", False),
        _spec(provisioningClassName="check-capacity.autoscaling.x-k8s.io"),
    ),
    FuzzedKind(_kueue("multikueueconfigs", "MultiKueueConfig", False), _spec(clusters=["a"]), None, 1),
    FuzzedKind(
        untyped("autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", True),
        _spec(
            provisioningClassName="check-capacity.autoscaling.x-k8s.io",
            podSets=[{"count": 1, "podTemplateRef": {"name": "missing"}}],
        ),
        _provisioning_request_status,
    ),
    FuzzedKind(
        untyped("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True),
        _pod_group,
        _pod_group_status,
        8,
    ),
    FuzzedKind(
        untyped("scheduling.volcano.sh", "v1beta1", "queues", "Queue", False),
        _spec(weight=1, parent="root", capability={"cpu": "4"}),
        _fields(state="Open", pending=1),
        6,
    ),
    FuzzedKind(
        untyped("batch.volcano.sh", "v1alpha1", "jobs", "Job", True), _volcano_job, _volcano_job_status, 10
    ),
    FuzzedKind(untyped("bus.volcano.sh", "v1alpha1", "commands", "Command", True), _command),
    *(
        FuzzedKind(api, _spec(**({"minMember": 1} if api.namespaced else {"weight": 1})), None, 1)
        for api in LEGACY
    ),
    FuzzedKind(_core("nodes", "Node", False), _node, _node_status, 6),
    FuzzedKind(_core("namespaces", "Namespace", False), _fields(), None, 1),
    FuzzedKind(
        _core("limitranges", "LimitRange"),
        _spec(
            limits=[{"type": "Container", "default": {"example.com/x": "1"}, "max": {"example.com/x": "10"}}]
        ),
    ),
    FuzzedKind(
        _core("resourcequotas", "ResourceQuota"),
        _spec(hard={"requests.example.com/x": "10"}),
        _fields(hard={"requests.example.com/x": "10"}, used={"requests.example.com/x": "1"}),
    ),
    FuzzedKind(_core("podtemplates", "PodTemplate"), lambda rng: {"template": _template(rng)}, None, 1),
    FuzzedKind(
        untyped("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False), _fields(value=5)
    ),
    FuzzedKind(
        untyped("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
        _fields(handler="x", overhead={"podFixed": {"cpu": "1m"}}),
    ),
    FuzzedKind(
        _core("persistentvolumes", "PersistentVolume", False),
        _spec(
            capacity={"storage": "1Gi"},
            accessModes=["ReadWriteOnce"],
            storageClassName="fuzz",
            hostPath={"path": "/x"},
        ),
        _fields(phase="Available"),
    ),
    FuzzedKind(
        _core("persistentvolumeclaims", "PersistentVolumeClaim"),
        _spec(
            accessModes=["ReadWriteOnce"], storageClassName="fuzz", resources={"requests": {"storage": "1Gi"}}
        ),
        _fields(phase="Pending"),
    ),
    FuzzedKind(
        untyped("storage.k8s.io", "v1", "storageclasses", "StorageClass", False),
        _fields(provisioner="example.com/x", volumeBindingMode="WaitForFirstConsumer"),
    ),
    FuzzedKind(
        untyped("storage.k8s.io", "v1", "csinodes", "CSINode", False),
        _spec(drivers=[{"name": "example.com", "nodeID": "x", "allocatable": {"count": 1}}]),
    ),
    FuzzedKind(
        untyped("coordination.k8s.io", "v1", "leases", "Lease", True),
        _spec(holderIdentity="x", leaseDurationSeconds=1),
        None,
        1,
    ),
    FuzzedKind(untyped("events.k8s.io", "v1", "events", "Event", True), _fields(**_EVENT_FIELDS), None, 1),
    FuzzedKind(_core("configmaps", "ConfigMap"), _fields(data={"a": "b"}), None, 1),
    FuzzedKind(_core("serviceaccounts", "ServiceAccount"), _fields(), None, 1),
    _set(_apps("deployments", "Deployment")),
    _set(_apps("replicasets", "ReplicaSet")),
    _set(_apps("statefulsets", "StatefulSet"), serviceName="x"),
    FuzzedKind(LEADER_WORKER_SETS, _leader_worker_set, _fields(replicas=1)),
    *_integrations(),
    *_referenced(),
)

WITHOUT_DEFINITION: Final = (LEADER_WORKER_SETS, PROVISIONING, *LEGACY)
"""Kinds of other projects, in addition to the integrations, that get a definition without schema."""

BY_KIND: Final[Mapping[tuple[str, str], FuzzedKind]] = {
    (kind.resource.api_version, kind.resource.kind): kind for kind in KINDS
}
