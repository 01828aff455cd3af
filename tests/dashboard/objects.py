"""The objects of a small cluster, and data that were fed with them."""

from collections.abc import Iterable, Mapping
from typing import Any

from quorate.api import codec
from quorate.api.configuration import Configuration, default_configuration
from quorate.api.core.scheduling import HostNode
from quorate.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from quorate.api.kueue.topology import Topology
from quorate.api.meta import Key
from quorate.api.native_groups import PodGroup as NativePodGroup
from quorate.api.volcano import PodGroup, Queue
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.queries import Viewer
from quorate.gang.cache.native_groups import as_volcano_group
from quorate.kube.informer import Change
from quorate.queueing.explanation.scope import Scope

NOW = 1_000.0
SECOND = "1970-01-01T00:{:02}:{:02}Z"


def at(second: int) -> str:
    return SECOND.format(second // 60, second % 60)


def tenant(*namespaces: str) -> Viewer:
    """Return a viewer that may list workloads in some namespaces, and neither queues nor nodes."""
    names = frozenset(namespaces)
    return Viewer(
        Scope(names, cluster_queues=False),
        nodes=False,
        pod_group_namespaces=names,
        native_group_namespaces=names,
    )


def a_cluster_queue(name: str, cpu: str = "4", cohort: str = "", **spec: Any) -> ClusterQueue:
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    body = {"namespaceSelector": {}, "cohortName": cohort, "resourceGroups": groups, **spec}
    return codec.convert(ClusterQueue, {"metadata": {"name": name, "uid": name}, "spec": body})


def a_condition(
    type_: str, status: str = "True", reason: str = "", message: str = "", second: int = 0
) -> Any:
    return {
        "type": type_, "status": status, "reason": reason or type_, "message": message,
        "lastTransitionTime": at(second),
    }  # fmt: skip


def a_workload(
    name: str,
    namespace: str = "red",
    queue: str = "queue",
    *,
    cpu: str = "1",
    pods: int = 1,
    second: int = 1,
    version: int = 1,
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    admitted_in: str = "",
    conditions: Iterable[Any] = (),
    active: bool = True,
    **status: Any,
) -> Workload:
    """Return a workload of the Job of its name; ``admitted_in``: the cluster queue of its reservation."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": f"job-{name}", "uid": f"{namespace}-{name}-job",
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    if admitted_in:
        assigned = {
            "name": "main", "flavors": {"cpu": "default"}, "count": pods,
            "resourceUsage": {"cpu": f"{int(cpu) * pods}"},
        }  # fmt: skip
        status["admission"] = {"clusterQueue": admitted_in, "podSetAssignments": [assigned]}
        conditions = (a_condition("QuotaReserved", second=second), *conditions)
    body: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": at(second),
            "labels": dict(labels or {}),
            "ownerReferences": [owner],
        },
        "spec": {
            "queueName": queue,
            "priority": priority,
            "active": active,
            "podSets": [{"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {"conditions": list(conditions), **status},
    }
    return codec.decode(Workload, codec.encode(body))


class Cluster:
    """Data of a dashboard, fed by the calls that informers make."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.data = ClusterData(configuration or default_configuration())
        self.put_flavor("default")

    def put_flavor(self, name: str, **spec: Any) -> None:
        self.data.state.put_flavor(codec.convert(ResourceFlavor, {"metadata": {"name": name}, "spec": spec}))
        self.data.without_pods.flavor_changed(name)
        self.data.queue_revision += 1

    def put_topology(self, name: str, *levels: str) -> None:
        spec = {"levels": [{"nodeLabel": level} for level in levels]}
        topology = codec.convert(Topology, {"metadata": {"name": name}, "spec": spec})
        self.data.topologies[name] = topology
        self.data.state.put_topology(topology)
        self.data.without_pods.put_topology(topology)
        self.data.queue_revision += 1

    def put_cluster_queue(self, queue: ClusterQueue) -> None:
        self.data.state.put_cluster_queue(queue)
        self.data.queue_revision += 1

    def put_local_queue(self, namespace: str, cluster_queue: str, name: str = "queue", **spec: Any) -> None:
        self.data.state.put_namespace(namespace, {})
        queue = {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterQueue": cluster_queue, **spec},
        }
        self.data.state.put_local_queue(codec.convert(LocalQueue, queue))
        self.data.queue_revision += 1

    def put(self, *workloads: Workload) -> None:
        for workload in workloads:
            self.data.state.put_workload(workload, NOW)
            self.data.workloads.on_change(Change(None, workload))

    def put_pod_group(
        self, name: str, namespace: str, *, labels: Mapping[str, str] | None = None, **parts: Any
    ) -> None:
        metadata = {"name": name, "namespace": namespace, "creationTimestamp": at(1), "labels": labels or {}}
        group = codec.convert(PodGroup, {"metadata": metadata, **parts})
        self._put_group(group)

    def put_native_group(self, name: str, namespace: str, **parts: Any) -> None:
        group = codec.convert(NativePodGroup, {"metadata": {"name": name, "namespace": namespace}, **parts})
        self._put_group(as_volcano_group(group))

    def _put_group(self, group: PodGroup) -> None:
        self.data.pod_groups[group.metadata.key] = group
        self.data.pod_group_revision += 1

    def put_gang_queue(self, name: str, **parts: Any) -> None:
        self.data.gang_queues[name] = codec.convert(Queue, {"metadata": {"name": name}, **parts})
        self.data.pod_group_revision += 1

    def put_node(
        self, name: str, labels: Mapping[str, str] | None = None, *, ready: bool = True, **amounts: str
    ) -> None:
        """Add a node with a host name; ``amounts`` by resource."""
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {
                "allocatable": {"pods": "110", **(amounts or {"cpu": "8"})},
                "conditions": [a_condition("Ready", "True" if ready else "False")],
            },
        }
        self.data.state.nodes.put_node(codec.convert(HostNode, node))
        self.data.without_pods.put_node(codec.convert(HostNode, node))
        self.data.node_revision += 1

    def remove(self, key: Key) -> None:
        old = self.data.workloads.by_key[key].workload
        self.data.state.remove_workload(key)
        self.data.workloads.on_change(Change(old, None))


def two_tenants() -> Cluster:
    """Return a cohort of two cluster queues, each of a tenant: red uses 2 of 4, blue 6 of 4 cpu."""
    cluster = Cluster()
    cluster.put_cluster_queue(a_cluster_queue("red-queue", cohort="all"))
    cluster.put_cluster_queue(a_cluster_queue("blue-queue", cohort="all"))
    cluster.put_local_queue("red", "red-queue")
    cluster.put_local_queue("blue", "blue-queue")
    admitted = (a_condition("Admitted", second=20),)
    cluster.put(
        a_workload("runs", "red", cpu="2", second=10, admitted_in="red-queue", conditions=admitted),
        a_workload("waits", "red", cpu="3", second=30),
        a_workload(
            "borrows", "blue", cpu="3", pods=2, second=5, admitted_in="blue-queue", conditions=admitted
        ),
    )
    return cluster
