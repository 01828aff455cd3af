"""Short descriptions of observed clusters: jobs with pods in given states, their workloads and nodes."""

from collections.abc import Iterable
from typing import Any

from quorate.api import codec
from quorate.api.batch import Job
from quorate.api.core import Node, Pod
from quorate.api.kueue import Workload
from quorate.api.volcano import PodGroup
from quorate.processes.local.observation import ObservedCluster, observe

START = "2030-01-01T00:00:00Z"


def condition(type_: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": START,
    }


UNSCHEDULABLE = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
WAITS_FOR_PEERS = condition(
    "simulate.quorate.dev/Progressing", "False", "WaitingForPeers", "14 of 20 pods run"
)
WAITS_FOR_NODES = condition("Unschedulable", "True", "NotEnoughResources", "cluster: cpu: need 6, have 2 now")
ADMITTED = (condition("QuotaReserved"), condition("Admitted"))

STATES: dict[str, dict[str, Any]] = {
    "unevaluated": {},
    "unplaced": {"status": {"conditions": [UNSCHEDULABLE]}},
    "starting": {"spec": {"nodeName": "node-0"}},
    "elsewhere": {"spec": {"nodeName": "not-simulated"}},
    "working": {"spec": {"nodeName": "node-0"}, "status": {"phase": "Running"}},
    "idle": {"spec": {"nodeName": "node-0"}, "status": {"phase": "Running", "conditions": [WAITS_FOR_PEERS]}},
    "succeeded": {"spec": {"nodeName": "node-0"}, "status": {"phase": "Succeeded"}},
    "leaving": {"metadata": {"deletionTimestamp": START}},
}


class JobExample:
    """One job with its workload and its pods.

    ``pods`` are counts by state, such as ``{"idle": 14, "unplaced": 6}``; fourteen pods of the default size
    fill a node.  Without ``conditions`` the job has no workload; by default it is admitted.  ``group`` is
    the status of its pod group, if it has one.
    """

    def __init__(
        self,
        name: str,
        pods: dict[str, int] | None = None,
        *,
        wants: int = 20,
        memory: str = "600Mi",
        conditions: Iterable[dict[str, str]] | None = ADMITTED,
        suspend: bool = False,
        queue: str = "user-queue",
        job_status: dict[str, Any] | None = None,
        workload: dict[str, Any] | None = None,
        workload_status: dict[str, Any] | None = None,
        group: dict[str, Any] | None = None,
    ) -> None:
        labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        self.job = codec.convert(Job, {
            "metadata": _metadata(name) | {"labels": labels, "creationTimestamp": START},
            "spec": {"parallelism": wants, "completions": wants, "suspend": suspend},
            "status": job_status or {},
        })  # fmt: skip
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": f"uid-{name}",
            "controller": True,
        }
        self.workload = None
        if conditions is not None:
            self.workload = codec.convert(Workload, {
                "metadata": _metadata(f"job-{name}") | {"ownerReferences": [owner]},
                "spec": workload or {},
                "status": {"conditions": list(conditions)} | (workload_status or {}),
            })  # fmt: skip
        self.group = None
        if group is not None:
            self.group = codec.convert(PodGroup, {
                "metadata": _metadata(f"podgroup-{name}") | {"ownerReferences": [owner]}, "status": group
            })  # fmt: skip
        self.pods = [
            a_pod(f"{name}-{state}-{index}", STATES[state], memory, owner)
            for state, count in (pods or {}).items()
            for index in range(count)
        ]


def a_pod(name: str, state: dict[str, Any], memory: str, owner: dict[str, Any]) -> Pod:
    container = {"name": "main", "resources": {"requests": {"memory": memory}}}
    return codec.convert(Pod, {
        "metadata": _metadata(name) | {"ownerReferences": [owner]} | state.get("metadata", {}),
        "spec": {"containers": [container]} | state.get("spec", {}),
        "status": state.get("status", {}),
    })  # fmt: skip


def a_node(name: str = "node-0", memory: str = "8429Mi") -> Node:
    return codec.convert(
        Node,
        {
            "metadata": {"name": name},
            "status": {
                "allocatable": {"cpu": "8", "memory": memory, "pods": "110"},
                "conditions": [condition("Ready")],
            },
        },
    )


def a_cluster(*examples: JobExample, nodes: Iterable[Node] | None = None) -> ObservedCluster:
    return observe(
        [example.job for example in examples],
        [example.workload for example in examples if example.workload is not None],
        [pod for example in examples for pod in example.pods],
        [a_node()] if nodes is None else nodes,
        [],
        [example.group for example in examples if example.group is not None],
    )


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
