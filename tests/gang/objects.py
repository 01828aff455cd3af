"""Conversion of the vectors' short notation to API objects.  The vector files describe the schema."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from quorate.api import codec
from quorate.api.core import PriorityClass, ResourceQuota
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.meta import Uid, at_epoch
from quorate.api.names.volcano import ADMITTED_POD_SETS, SUSPENDED
from quorate.api.volcano import PodGroup, Queue
from quorate.api.volcano.topology import HyperNode

Json = dict[str, Any]

MEMORY_OF_A_NODE = "64Gi"
PODS_OF_A_NODE = 110
OUR_SCHEDULER = "volcano"


def _created(given: Mapping[str, Any]) -> str:
    return at_epoch(given.get("created", 0)).isoformat().replace("+00:00", "Z")


def _metadata(given: Mapping[str, Any], *, namespaced: bool = True) -> Json:
    metadata: Json = {"name": given["name"], "creationTimestamp": _created(given)}
    if namespaced:
        metadata["namespace"] = given.get("namespace", "default")
    metadata["uid"] = f"{metadata.get('namespace', '')}/{given['name']}"
    return metadata


def node(given: Mapping[str, Any]) -> Node:
    amounts = {
        "cpu": given["cpu"],
        "memory": given.get("memory", MEMORY_OF_A_NODE),
        "pods": given.get("pods", PODS_OF_A_NODE),
        **given.get("scalars", {}),
    }
    return codec.convert(
        Node,
        {
            "metadata": {"name": given["name"], "labels": given.get("labels", {})},
            "spec": {"taints": given.get("taints", []), "unschedulable": given.get("unschedulable", False)},
            "status": {
                "allocatable": quantities(amounts),
                "conditions": [{"type": "Ready", "status": str(given.get("ready", True))}],
            },
        },
    )


def quantities(amounts: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def queue(given: Mapping[str, Any]) -> Queue:
    spec: Json = {
        "weight": given.get("weight", 1),
        "capability": quantities(given.get("capability", {})),
        "deserved": quantities(given.get("deserved", {})),
        "guarantee": {"resource": quantities(given.get("guarantee", {}))},
        "reclaimable": given.get("reclaimable", True),
        "parent": given.get("parent", ""),
        "priority": given.get("priority", 0),
        "dequeueStrategy": given.get("dequeueStrategy", "traverse"),
        "maxPodGroups": given.get("maxPodGroups"),
        "affinity": given.get("affinity"),
    }
    metadata = _metadata(given, namespaced=False) | {"annotations": given.get("annotations", {})}
    status = {"state": given.get("state", "Open")}
    return codec.convert(Queue, {"metadata": metadata, "spec": spec, "status": status})


def quota(given: Mapping[str, Any]) -> ResourceQuota:
    hard = quantities(given["hard"])
    spec = {"hard": hard, **{key: given[key] for key in ("scopes", "scopeSelector") if key in given}}
    status = {"hard": hard, "used": quantities(given.get("used", {}))}
    return codec.convert(ResourceQuota, {"metadata": _metadata(given), "spec": spec, "status": status})


def priority_class(name: str, value: int, *, default: bool = False) -> PriorityClass:
    return codec.convert(
        PriorityClass, {"metadata": {"name": name}, "value": value, "globalDefault": default}
    )


def pod_group(given: Mapping[str, Any]) -> PodGroup:
    minimum = given.get("minResources")
    spec = {
        "minMember": given.get("minMember", 1),
        "minTaskMember": given.get("minTaskMember", {}),
        "queue": given.get("queue", "default"),
        "priorityClassName": given.get("priorityClassName", ""),
        "minResources": None if minimum is None else quantities(minimum),
        **{key: given[key] for key in ("networkTopology", "subGroupPolicy") if key in given},
    }
    metadata = _metadata(given)
    metadata["annotations"] = given.get("annotations", {}) | _quota_annotations(metadata["uid"], given)
    metadata["labels"] = given.get("labels", {})
    if "owner" in given:  # a kind of job, such as batch/v1/Job
        api_version, _, kind = given["owner"].rpartition("/")
        owner = {"apiVersion": api_version, "kind": kind, "name": given["name"], "uid": "job"}
        metadata["ownerReferences"] = [owner | {"controller": True}]
    status = {"phase": given.get("phase", ""), "conditions": given.get("conditions", ())}
    return codec.convert(PodGroup, {"metadata": metadata, "spec": spec, "status": status})


def _quota_annotations(uid: str, given: Mapping[str, Any]) -> Json:
    """Return the annotations of ``quota``: "suspended", or the pod set that a cluster queue admitted."""
    match given.get("quota"):
        case None:
            return {}
        case "suspended":
            return {SUSPENDED: "true"}
        case admitted:
            record = {"jobUid": uid, "podSets": [admitted]}
            return {ADMITTED_POD_SETS: codec.encode(record).decode()}


def with_quota(group: PodGroup, given: Mapping[str, Any]) -> PodGroup:
    """Return ``group`` with another state of its ``quota``."""
    kept = {
        name: text
        for name, text in group.metadata.annotations.items()
        if name not in (SUSPENDED, ADMITTED_POD_SETS)
    }
    annotations = kept | _quota_annotations(group.metadata.uid, given)
    metadata = msgspec.structs.replace(group.metadata, annotations=annotations)
    return msgspec.structs.replace(group, metadata=metadata)


def hyper_node(given: Mapping[str, Any]) -> HyperNode:
    """Return the HyperNode with ``nodes``, ``hyperNodes`` (names, separated by spaces) and other members."""
    members = [
        {"type": kind, "selector": {"exactMatch": {"name": name}}}
        for kind, key in (("Node", "nodes"), ("HyperNode", "hyperNodes"))
        for name in given.get(key, "").split()
    ]
    if "regex" in given:
        members.append({"type": "Node", "selector": {"regexMatch": {"pattern": given["regex"]}}})
    if "labels" in given:
        members.append({"type": "Node", "selector": {"labelMatch": {"matchLabels": given["labels"]}}})
    spec = {"tier": given["tier"], "tierName": given.get("tierName", ""), "members": members}
    return codec.convert(HyperNode, {"metadata": _metadata(given, namespaced=False), "spec": spec})


def pods(given: Mapping[str, Any], classes: Mapping[str, int]) -> Iterator[Pod]:
    """Return the pod, or ``count`` copies of it."""
    if "count" not in given:
        yield _pod(given, classes)
        return
    for index in range(given["count"]):
        yield _pod({**given, "name": f"{given['name']}-{index}"}, classes)


def _pod(given: Mapping[str, Any], classes: Mapping[str, int]) -> Pod:
    annotations: Json = {}
    if "group" in given:
        annotations["scheduling.k8s.io/group-name"] = given["group"]
    if "role" in given:
        annotations["volcano.sh/task-spec"] = given["role"]
    if "preemptable" in given:
        annotations["volcano.sh/preemptable"] = str(given["preemptable"]).lower()
    metadata = _metadata(given) | {"annotations": annotations | given.get("annotations", {})}
    metadata["labels"] = given.get("labels", {})
    if given.get("deleting"):
        metadata["deletionTimestamp"] = _created(given)
        if "grace" in given:
            metadata["deletionGracePeriodSeconds"] = given["grace"]
    requests = quantities(
        {
            **{name: given[name] for name in ("cpu", "memory") if name in given},
            **given.get("scalars", {}),
        }
    )
    class_name = given.get("priorityClassName", "")
    spec: Json = {
        "schedulerName": given.get("schedulerName", OUR_SCHEDULER),
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        "nodeName": given.get("node", ""),
        "nodeSelector": given.get("nodeSelector", {}),
        "tolerations": given.get("tolerations", []),
        "priorityClassName": class_name,
        "priority": given.get("priority", classes.get(class_name)),
        "preemptionPolicy": given.get("preemptionPolicy", "PreemptLowerPriority"),
        "schedulingGates": [{"name": given.get("gate", "test")}] if given.get("gated") else [],
    }
    if "deadline" in given:
        spec["activeDeadlineSeconds"] = given["deadline"]
    spec |= given.get("spec", {})
    status: Json = {"phase": given.get("phase", "Pending"), "nominatedNodeName": given.get("nominated", "")}
    if "started" in given:
        status["startTime"] = at_epoch(given["started"])
    return codec.convert(Pod, {"metadata": metadata, "spec": spec, "status": status})


def with_node(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, node_name=name)


def with_phase(pod: Pod, phase: str) -> Pod:
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase))


def started(pod: Pod, now: float) -> Pod:
    """Return ``pod`` as its kubelet reports it when it starts."""
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, phase="Running", start_time=at_epoch(now))
    )


def with_nomination(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name=name))


def leaving(pod: Pod, now: float) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=at_epoch(now))
    return msgspec.structs.replace(pod, metadata=metadata)


def created_again(pod: Pod, number: int) -> Pod:
    """Return the pod that a controller creates for ``pod``, which has left its node.  ``number``: unique."""
    replace = msgspec.structs.replace
    return replace(
        pod,
        metadata=replace(pod.metadata, uid=Uid(f"{pod.metadata.uid} {number}"), deletion_timestamp=None),
        node_name="",
        status=replace(pod.status, phase="Pending", nominated_node_name=""),
    )
