"""The objects of the synthetic cluster as an API server sends them, generated from a number.

Pod ``n`` runs on node ``n`` modulo the number of nodes.  Each 50 pods are of one job, and every second job is
queued: in the controllers its workload is admitted, in the scheduler its pod group runs.
"""

import zlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bench.scale.synthetic_client import Body, Series
from quorate.api import codec
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.names.kueue import POD_SET, WORKLOAD_ANNOTATION
from quorate.api.names.volcano import GROUP_NAME
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    PLACEABLE_NODES,
    PLACEABLE_PODS,
    POD_GROUPS,
    QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Json,
)

NAMESPACE: Final = "scale"
QUEUE_COUNT: Final = 100
JOB_PODS: Final = 50
GANG_PODS: Final = 10  # of a pending gang
NODES_OF_A_RACK: Final = 20
RACK: Final = "example.com/rack"
FITS: Final = "1"  # cpus of a pod
TOO_LARGE: Final = "10M"
_SINCE: Final = "2026-11-01T00:00:00Z"
_NUMBER: Final = "%(number)s"
_VERSION: Final = "%(version)s"


class Size(NamedTuple):
    nodes: int
    pods: int  # that are bound
    pending: int  # workloads that are created during the measurement and do not fit


def controllers_series(size: Size) -> list[Series]:
    """Return the objects that the queueing controllers read; one pending workload fits."""
    admitted = size.pods // JOB_PODS // 2
    return [
        Series(NAMESPACES, "scale", _template(_object("scale-" + _NUMBER, namespace="")), 1),
        Series(TOPOLOGIES, "racks", _template(_topology()), 1),
        Series(RESOURCE_FLAVORS, "flavor", _template(_flavor()), 1),
        Series(CLUSTER_QUEUES, "queue", _template(_cluster_queue()), QUEUE_COUNT),
        Series(LOCAL_QUEUES, "local", _template(_local_queue()), QUEUE_COUNT),
        Series(PLACEABLE_NODES, "node", node, size.nodes),
        Series(PLACEABLE_PODS, "pod", _pod(size, _of_workload), size.pods),
        Series(WORKLOADS, "admitted", _admitted(size), admitted),
        Series(WORKLOADS, "first", _pending("first", FITS), 1),
        Series(WORKLOADS, "large", _pending("large", TOO_LARGE), 0),
        Series(WORKLOADS, "fits", _pending("fits", FITS), 0),
    ]


def scheduler_series(size: Size) -> list[Series]:
    """Return the objects that the gang scheduler reads; one pending gang fits."""
    running = size.pods // JOB_PODS // 2
    members = {"first": FITS, "large": TOO_LARGE, "fits": FITS}
    return [
        Series(NAMESPACES, "scale", _template(_object("scale-" + _NUMBER, namespace="")), 1),
        Series(QUEUES, "queue", _template(_volcano_queue()), 1),
        Series(PLACEABLE_NODES, "node", node, size.nodes),
        Series(PLACEABLE_PODS, "pod", _pod(size, _of_running_group), size.pods),
        Series(POD_GROUPS, "running", _template(_group("running", JOB_PODS, "Running")), running),
        *(
            Series(
                POD_GROUPS, prefix, _template(_group(prefix, GANG_PODS, "Inqueue")), int(prefix == "first")
            )
            for prefix in members
        ),
        *(
            Series(PLACEABLE_PODS, f"{prefix}-pod", _member(prefix, cpu), GANG_PODS * (prefix == "first"))
            for prefix, cpu in members.items()
        ),
    ]


def _template(obj: Json, **more: Callable[[int], object]) -> Body:
    """Return the body in which the texts ``%(...)s`` are replaced, of number, version and ``more``."""
    content = codec.encode(obj)
    functions = {name.encode(): function for name, function in more.items()}

    def body(number: int, version: int) -> bytes:
        values: dict[bytes, object] = {name: str(make(number)).encode() for name, make in functions.items()}
        values |= {b"number": b"%d" % number, b"version": b"%d" % version, b"hex": b"%012x" % number}
        return content % values

    return body


def _object(name: str, namespace: str = NAMESPACE, **fields: Any) -> Json:
    kind = zlib.crc32(name.encode())
    metadata: Json = {
        "name": name,
        "uid": f"{kind:08x}-0000-4000-8000-%(hex)s",
        "resourceVersion": _VERSION,
        "creationTimestamp": _SINCE,
        "generation": 1,
        **fields.pop("metadata", {}),
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, **fields}


def _managed_fields(*paths: str) -> list[Json]:
    """Return what every stored object has; nothing reads it."""
    return [
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "time": _SINCE,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {f"f:{path}": {".": {}, "f:type": {}} for path in paths}},
        }
    ]


def _topology() -> Json:
    return _object("racks-" + _NUMBER, "", spec={"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]})


def _flavor() -> Json:
    return _object("flavor-" + _NUMBER, "", spec={"nodeLabels": {"pool": "main"}, "topologyName": "racks-0"})


def _cluster_queue() -> Json:
    quota = {"name": "cpu", "nominalQuota": "100k", "borrowingLimit": "100k"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "flavor-0", "resources": [quota]}]}]
    spec = {"namespaceSelector": {}, "cohortName": "cohort", "resourceGroups": groups}
    return _object("queue-" + _NUMBER, "", spec=spec)


def _local_queue() -> Json:
    return _object("local-" + _NUMBER, spec={"clusterQueue": "queue-" + _NUMBER})


def _volcano_queue() -> Json:
    return _object("queue-" + _NUMBER, "", spec={"weight": 1}, status={"state": "Open"})


def _group(prefix: str, members: int, phase: str) -> Json:
    spec = {"minMember": members, "queue": "queue-0", "minResources": {"cpu": str(members)}}
    return _object(f"{prefix}-{_NUMBER}", spec=spec, status={"phase": phase})


def _node_object(unschedulable: str) -> bytes:
    name = "node-" + _NUMBER
    labels = {
        "pool": "main",
        RACK: "rack-%(rack)s",
        HOSTNAME: name,
        "topology.kubernetes.io/zone": "zone-%(zone)s",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "large-64",
    }
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    conditions = [
        {"type": type_, "status": status, "lastHeartbeatTime": _SINCE, "lastTransitionTime": _SINCE}
        for type_, status in (("MemoryPressure", "False"), ("DiskPressure", "False"), ("Ready", "True"))
    ]
    obj = _object(
        name,
        "",
        metadata={"labels": labels, "managedFields": _managed_fields("conditions", "images", "allocatable")},
        spec={"podCIDR": "10.0.0.0/24", "providerID": "cloud:///" + name, "unschedulable": "%(cordoned)s"},
        status={
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3", "machineID": "%(hex)s"},
            "images": [
                {"names": [f"registry.example/image-{number}:1"], "sizeBytes": 10**8} for number in range(30)
            ],
        },
    )
    return codec.encode(obj).replace(b'"%(cordoned)s"', unschedulable.encode())


_NODE: Final = _node_object("false")
_CORDONED: Final = _node_object("true")


def _node(content: bytes, number: int, version: int) -> bytes:
    rack = number // NODES_OF_A_RACK
    return content % {
        b"number": b"%d" % number,
        b"version": b"%d" % version,
        b"hex": b"%012x" % number,
        b"rack": b"%d" % rack,
        b"zone": b"%d" % (rack % 3),
    }


def node(number: int, version: int) -> bytes:
    return _node(_NODE, number, version)


def cordoned_node(number: int, version: int) -> bytes:
    """Return the node unschedulable in every second version."""
    return _node(_CORDONED if version % 2 else _NODE, number, version)


def _pod_object(name: str, pod_set: Json, cpu: str, status: Json, spec: Json) -> Json:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job-%(job)s", "controller": True}
    metadata = {
        "labels": {
            "app": "training",
            "batch.kubernetes.io/job-name": "job-%(job)s",
            "batch.kubernetes.io/job-completion-index": "%(index)s",
            **pod_set.get("labels", {}),
        },
        "annotations": {"example.com/checksum": "0123456789abcdef", **pod_set.get("annotations", {})},
        "ownerReferences": [owner | {"uid": "00000000-0000-4000-8000-%(job)s"}],
        "managedFields": _managed_fields("conditions", "containerStatuses", "hostIP", "podIP", "startTime"),
    }
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "command": ["python", "-m", "train"],
        "env": [{"name": f"VARIABLE_{number}", "value": "value"} for number in range(20)],
        "resources": {"requests": {"cpu": cpu, "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ]
    whole_spec = {
        "containers": [container],
        "volumes": [{"name": "token", "projected": {"defaultMode": 420}}],
        "restartPolicy": "Never",
        "tolerations": tolerations,
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler",
        **pod_set.get("spec", {}),
        **spec,
    }
    return _object(name, metadata=metadata, spec=whole_spec, status=status)


def _running(ready: str) -> Json:
    conditions = [
        {"type": type_, "status": status, "lastTransitionTime": _SINCE}
        for type_, status in (
            ("PodScheduled", "True"),
            ("Initialized", "True"),
            ("ContainersReady", ready),
            ("Ready", ready),
        )
    ]
    container = {
        "name": "main",
        "ready": ready == "True",
        "restartCount": 0,
        "image": "registry.example/train:1",
        "imageID": "sha256:0123456789abcdef",
        "containerID": "containerd://%(hex)s",
        "state": {"running": {"startedAt": _SINCE}},
    }
    return {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "startTime": _SINCE,
        "containerStatuses": [container],
        "qosClass": "Burstable",
    }


_of_workload: Final[Json] = {
    "labels": {POD_SET: "main"},
    "annotations": {WORKLOAD_ANNOTATION: "admitted-%(owner)s"},
}
_of_running_group: Final[Json] = {
    "annotations": {GROUP_NAME: "running-%(owner)s"},
    "spec": {"schedulerName": "quorate"},
}


def _pod(size: Size, of_queued: Json, ready: str = "True") -> Body:
    node_name = {"nodeName": "node-%(node)s"}
    foreign, queued = (
        _template(
            _pod_object("pod-" + _NUMBER, pod_set, FITS, _running(ready), node_name),
            node=lambda number: number % size.nodes,
            job=lambda number: number // JOB_PODS,
            index=lambda number: number % JOB_PODS,
            owner=lambda number: number // JOB_PODS // 2,
        )
        for pod_set in ({}, of_queued)
    )
    return lambda number, version: (queued if number // JOB_PODS % 2 else foreign)(number, version)


def changed_pod(size: Size, *, of_workload: bool) -> Body:
    """Return the pod, ready in every second version and not ready in the others."""
    of_queued = _of_workload if of_workload else _of_running_group
    ready, unready = _pod(size, of_queued), _pod(size, of_queued, "False")
    return lambda number, version: (ready if version % 2 else unready)(number, version)


def _member(prefix: str, cpu: str) -> Body:
    pod_set: Json = {
        "annotations": {GROUP_NAME: f"{prefix}-%(job)s"},
        "spec": {"schedulerName": "quorate"},
    }
    obj = _pod_object(f"{prefix}-pod-{_NUMBER}", pod_set, cpu, {"phase": "Pending"}, {})
    return _template(obj, job=lambda number: number // GANG_PODS, index=lambda number: number % GANG_PODS)


def _workload_spec(pods: int, cpu: str, queue: str) -> Json:
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "command": ["python", "-m", "train"],
        "env": [{"name": f"VARIABLE_{number}", "value": "value"} for number in range(20)],
        "resources": {"requests": {"cpu": cpu}},
    }
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "queueName": queue,
        "priority": 0,
        "podSets": [{"name": "main", "count": pods, "template": template}],
    }


def _pending(prefix: str, cpu: str) -> Body:
    """Return a workload of two pods without a reservation."""
    obj = _object(f"{prefix}-{_NUMBER}", spec=_workload_spec(2, cpu, "local-%(queue)s"))
    return _template(obj, queue=lambda number: number % QUEUE_COUNT)


def _admitted(size: Size) -> Body:
    """Return an admitted workload with the hosts of its pods, those of every second job."""

    def hosts(number: int) -> str:
        first = (2 * number + 1) * JOB_PODS
        return '","'.join(str((first + index) % size.nodes) for index in range(JOB_PODS))

    values = {"individual": {"prefix": "node-", "roots": ["%(hosts)s"]}}
    slices = [{"domainCount": JOB_PODS, "valuesPerLevel": [values], "podCounts": {"universal": 1}}]
    assignment = {
        "name": "main",
        "flavors": {"cpu": "flavor-0"},
        "resourceUsage": {"cpu": str(JOB_PODS)},
        "count": JOB_PODS,
        "topologyAssignment": {"levels": [HOSTNAME], "slices": slices},
    }
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": _SINCE, "reason": type_, "message": ""}
        for type_ in ("QuotaReserved", "Admitted", "PodsReady")
    ]
    admission = {"clusterQueue": "queue-%(queue)s", "podSetAssignments": [assignment]}
    obj = _object(
        "admitted-" + _NUMBER,
        spec=_workload_spec(JOB_PODS, FITS, "local-%(queue)s"),
        status={"admission": admission, "conditions": conditions},
    )
    return _template(obj, hosts=hosts, queue=lambda number: number % QUEUE_COUNT)
