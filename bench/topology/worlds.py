"""Nodes and pod sets for the measures of places, and a queueing core that checks pods against nodes."""

from collections.abc import Iterator
from itertools import islice
from time import thread_time
from typing import Final

from msgspec.structs import replace

from bench.worlds import (
    BASELINE,
    BLOCK,
    EPOCH_S,
    GROUP,
    GROUP_LABEL,
    NAMESPACE,
    RACK,
    Racks,
    WorkloadClass,
    cluster_queue,
    endless_workloads,
    flavor_object,
    make_workload,
    node_object,
)
from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import DEFAULT_GATES, TopologyGates
from quorate.api.configuration.queueing import NodeFit, NodeFitMode
from quorate.api.core.scheduling import HostNode
from quorate.api.kueue import LocalQueue, ResourceFlavor, Workload
from quorate.api.kueue.topology import HOSTNAME, Topology
from quorate.api.meta import Key
from quorate.placement.topology.request import TopologyRequest
from quorate.queueing.decisions import Hold, Reserve
from quorate.queueing.inadmissible_reasons import PlacementRefused
from quorate.queueing.lifecycle.statuses import admit_status, hold_status
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.pending.shape import PodSetShape
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State
from quorate.queueing.topology.placing import PodSetToPlace

BLOCKS: Final = 20
RACKS: Final = 10  # of a block
HOSTS: Final = 50  # of a rack
NODES: Final = BLOCKS * RACKS * HOSTS
CPUS: Final = 96
FLAVOR: Final = "default"
_ZONE: Final = "topology.kubernetes.io/zone"
_LABELS: Final = {  # of every node, as a cloud sets them
    "beta.kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "node.kubernetes.io/instance-type": "large-96",
    "topology.kubernetes.io/region": "region-1",
    "failure-domain.beta.kubernetes.io/region": "region-1",
    GROUP_LABEL: GROUP,
}


def node(number: int, *, cpu: int = CPUS, unschedulable: bool = False, rack: int | None = None) -> HostNode:
    """Return a node as an API server sends it; ``rack``: another one than that of its number."""
    of_all = number // HOSTS if rack is None else rack
    name = f"node-{number:05}"
    labels = {
        **_LABELS,
        _ZONE: f"zone-{of_all // RACKS % 3}",
        BLOCK: f"block-{of_all // RACKS:02}",
        RACK: f"block-{of_all // RACKS:02}-rack-{of_all % RACKS}",
        HOSTNAME: name,
    }
    body = node_object(name, labels, cpu)
    metadata = {
        **body["metadata"],
        "uid": f"{number:08}-0000-4000-8000-000000000000",
        "resourceVersion": str(number),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"node.alpha.kubernetes.io/ttl": "0", "volumes.example/controller-managed": "true"},
    }
    conditions = [
        {"type": type_, "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Kubelet"}
        for type_ in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    status = {
        **body["status"],
        "conditions": [*conditions, *body["status"]["conditions"]],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
        "nodeInfo": {"kubeletVersion": "v1.36.2", "machineID": f"{number:032}"},
        "images": [{"names": [f"registry.example/image-{each}:1"], "sizeBytes": each} for each in range(10)],
    }
    spec = {"unschedulable": unschedulable, "podCIDR": "10.0.0.0/24", "providerID": f"cloud:///{name}"}
    return codec.decode(HostNode, codec.encode({"metadata": metadata, "spec": spec, "status": status}))


def model() -> TopologyModel:
    """Return a model with a flavor of three levels and without nodes."""
    found = TopologyModel(TopologyGates())
    racks = Racks(BLOCKS * RACKS, HOSTS, CPUS)
    found.put_topology(codec.convert(Topology, racks.topology(GROUP)))
    found.flavors = {FLAVOR: codec.convert(ResourceFlavor, flavor_object(FLAVOR, racks, GROUP))}
    found.flavor_changed(FLAVOR)
    return found


def pod_set(pods: int, milli_cpu: int, topology: TopologyRequest) -> PodSetToPlace:
    amounts = {"cpu": milli_cpu, "pods": 1}
    shape = PodSetShape(
        name="main",
        count=pods,
        min_count=pods,
        per_pod=amounts,
        node_selector={},
        affinity=None,
        tolerations=(),
        topology=topology,
        on_node=amounts,
    )
    return PodSetToPlace(shape, pods, frozenset((FLAVOR,)))


class WaitingQueues:
    """The queues of ``BASELINE`` with quota without end, and a topology of ``nodes`` nodes."""

    def __init__(self, nodes: int) -> None:
        state = self._state = State(Configuration())
        state.put_namespace(NAMESPACE, {})
        racks = Racks(BLOCKS * RACKS, HOSTS, CPUS)
        state.put_topology(codec.convert(Topology, racks.topology(GROUP)))
        for number in range(nodes):
            state.nodes.put_node(node(number))
        state.put_flavor(codec.convert(ResourceFlavor, flavor_object(FLAVOR, racks, GROUP)))
        for name in BASELINE.queue_names():
            state.put_cluster_queue(cluster_queue(name, 10**9, 10**9))
            body = {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"clusterQueue": name}}
            state.put_local_queue(codec.convert(LocalQueue, body))
        self._admission_cycle = AdmissionCycle(state)
        self._created = 0

    def refuse(self, count: int) -> None:
        """Create workloads that no rack holds, each of another shape, and evaluate and keep all of them."""
        stored: dict[Key, Workload] = {}
        queues = [*BASELINE.queue_names()]
        for number in range(self._created, self._created + count):
            pods = HOSTS + 1 + number
            class_ = WorkloadClass(
                "wide", 1, pods * CPUS, 50, 1_000, 100, pods=pods, topology={"required": RACK}
            )
            workload = make_workload(queues[number % len(queues)], class_, number, EPOCH_S)
            stored[workload.metadata.key] = workload
            self._state.put_workload(workload, EPOCH_S)
        self._created += count
        refused = 0
        while decisions := self._admission_cycle.run(EPOCH_S).decisions:
            for each in decisions:
                assert isinstance(each, Hold), "no rack holds the pods"
                refused += any(isinstance(reason, PlacementRefused) for reason in each.reasons)
                status = hold_status(stored[each.key], each, EPOCH_S, DEFAULT_GATES)
                if status is not None:
                    self._state.put_workload(replace(stored[each.key], status=status), EPOCH_S)
        assert refused >= count, "each was evaluated"


class CheckedQueues:
    """The queues of ``BASELINE`` with quota without end, and ``nodes`` nodes of one flavor."""

    def __init__(self, mode: NodeFitMode, nodes: int) -> None:
        state = self._state = State(replace(Configuration(), node_fit=NodeFit(mode=mode)))
        state.put_namespace(NAMESPACE, {})
        for number in range(nodes):
            state.nodes.put_node(node(number))
        state.put_flavor(codec.convert(ResourceFlavor, flavor_object(FLAVOR, None, GROUP)))
        for name in BASELINE.queue_names():
            state.put_cluster_queue(cluster_queue(name, 100_000, 100_000))
            body = {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"clusterQueue": name}}
            state.put_local_queue(codec.convert(LocalQueue, body))
        self._admission_cycle = AdmissionCycle(state)
        self._workloads = endless_workloads(BASELINE)

    def admit(self, count: int) -> float:
        """Create workloads, admit and delete them; return the microseconds for one admission.

        They contain the decision, its status, and the reading of the status.
        """
        stored = {each.metadata.key: each for each in islice(self._workloads, count)}
        for workload in stored.values():
            self._state.put_workload(workload, EPOCH_S)
        before, admitted = thread_time(), 0
        for reserve in self._decisions():
            workload = stored[reserve.key]
            status = admit_status(workload, reserve, EPOCH_S)
            self._state.put_workload(replace(workload, status=status), EPOCH_S)
            admitted += 1
        taken_s = thread_time() - before
        assert admitted == count, "the measure is of admissions"
        for key in stored:
            self._state.remove_workload(key)
        return 1e6 * taken_s / count

    def _decisions(self) -> Iterator[Reserve]:
        while decisions := self._admission_cycle.run(EPOCH_S).decisions:
            yield from (each for each in decisions if isinstance(each, Reserve))
