"""Workloads with places, and their pods."""

from typing import Any

import msgspec

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.kueue.topology import HOSTNAME, topology_assignment

INDEX = "batch.kubernetes.io/job-completion-index"
LAUNCHER, WORKER = "launcher", "worker"


def a_workload(
    *pod_sets: tuple[str, dict[str, int]],
    request: dict[str, Any] | None = None,
    levels: tuple[str, ...] = (HOSTNAME,),
    unhealthy: tuple[str, ...] = (),
    **metadata: Any,
) -> Workload:
    """Return an admitted workload; ``pod_sets``: names, and numbers of pods by domain (``block/host``)."""
    conditions = [
        {"type": type_, "status": "True", "reason": type_, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_ in ("QuotaReserved", "Admitted")
    ]
    assignments = [
        {
            "name": name,
            "flavors": {"cpu": "tas"},
            "count": sum(domains.values()),
            "topologyAssignment": codec.to_builtins(
                topology_assignment(levels, [(tuple(d.split("/")), n) for d, n in domains.items()])
            ),
        }
        for name, domains in pod_sets
    ]
    return codec.convert(
        Workload,
        {
            "metadata": {"name": "train", "namespace": "default", "uid": "w", **metadata},
            "spec": {
                "podSets": [
                    {"name": name, "count": sum(domains.values()), "topologyRequest": request or {}}
                    for name, domains in pod_sets
                ]
            },
            "status": {
                "conditions": conditions,
                "admission": {"clusterQueue": "research", "podSetAssignments": assignments},
                "unhealthyNodes": [{"name": name} for name in unhealthy],
            },
        },
    )


def a_pod(
    name: str,
    selector: dict[str, str] | None = None,
    *,
    pod_set: str = "main",
    index: int | None = None,
    phase: str = "Pending",
    version: str = "1",
    node: str = "",
    is_deleted: bool = False,
    annotations: dict[str, str] | None = None,
    gates: tuple[str, ...] = (),
    **labels: str,
) -> Pod:
    """Return a pod that is gated, unless it has a ``selector``."""
    names = (*gates, *(("kueue.x-k8s.io/topology",) if selector is None else ()))
    ranks = {} if index is None else {INDEX: str(index)}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "resourceVersion": version,
        "labels": {"kueue.x-k8s.io/podset": pod_set, **ranks, **labels},
        "annotations": {"kueue.x-k8s.io/workload": "train", **(annotations or {})},
    }
    if is_deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {
        "nodeName": node,
        "nodeSelector": selector or {},
        "schedulingGates": [{"name": gate} for gate in names],
    }
    return codec.convert(Pod, {"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def changed(pod: Pod, version: str, **spec: Any) -> Pod:
    """Return another version of ``pod`` with these fields of its spec."""
    metadata = msgspec.structs.replace(pod.metadata, resource_version=version)
    return msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, **spec))
