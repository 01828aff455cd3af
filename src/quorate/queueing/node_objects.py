"""The nodes of the cluster with what takes room on them, as the queueing model reads them.

Methods return the flavors of which nodes may take pods that they did not take before.
"""

from collections.abc import Collection, Iterable

from quorate.api.configuration import Configuration
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.core.scheduling import Node
from quorate.api.kueue import ResourceFlavor
from quorate.api.meta import Key
from quorate.placement.topology.tree import MAX_AMOUNT
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.ledger import Ledger
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.occupants import PODS, group_of
from quorate.queueing.nodes.pod_constraints import PodConstraints
from quorate.queueing.nodes.topology_flavors import mode_of


def reads_nodes(configuration: Configuration, flavor: ResourceFlavor) -> bool:
    """Return True if pods of the flavor get places in a topology or are checked against the nodes."""
    is_placed = configuration.topology_gates is not None and bool(flavor.spec.topology_name)
    return is_placed or mode_of((flavor,), configuration.node_fit.mode) != "Off"


class NodeObjects:
    """Applies nodes, pods and volumes to the topology model of ``ledger``."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger  # may be replaced: feeds keep methods

    @property
    def _model(self) -> TopologyModel:
        return self.ledger.topology

    @property
    def placing(self) -> Collection[str]:
        """The flavors of which pods get places."""
        return self._model.placing

    @property
    def constraints(self) -> PodConstraints:
        """What reads volumes and other objects that keep pods from nodes; it is never replaced."""
        return self._model.constraints

    def reads_nodes(self, flavor: ResourceFlavor) -> bool:
        return reads_nodes(self.ledger.configuration, flavor)

    def set_has_nodes(self, has_nodes: bool) -> None:
        """Tell if all nodes and pods are known; until then, no pod gets a place in a topology."""
        self._model.set_has_nodes(has_nodes)
        self.retry_flavors(name for name, flavor in self._model.flavors.items() if self.reads_nodes(flavor))

    def retry_flavors(self, names: Iterable[str]) -> None:
        """Evaluate the pending workloads of the queues with these flavors again."""
        for queue in self.queues_with_flavors(frozenset(names)):
            self.ledger.note_external_change(queue)

    def queues_with_flavors(self, names: Collection[str]) -> list[ClusterQueueState]:
        return [
            queue
            for queue in self.ledger.cluster_queues.values()
            if any(name in group.flavors for group in queue.groups.values() for name in names)
        ]

    def put_node(self, node: Node) -> Collection[str]:
        """Return the topology flavors of the node, before and after the change."""
        flavors = self._model.put_node(node)
        self.ledger.windows.nodes_changed()
        self.ledger.node_changed(node.metadata.name)
        return flavors

    def remove_node(self, name: str) -> Collection[str]:
        flavors = self._model.remove_node(name)
        self.ledger.windows.nodes_changed()
        self.ledger.node_changed(name)
        return flavors

    # Pods.

    def put_pod(self, pod: Pod) -> Collection[str]:
        before = self.ledger.workload_of_pod(pod.metadata.key)
        freed: Collection[str] = self._model.put_pod(pod)
        for workload in {before, self.ledger.workload_of_pod(pod.metadata.key)}:
            freed = self._with_needed_places(workload, freed)
        return freed

    def remove_pod(self, key: Key) -> Collection[str]:
        workload = self.ledger.workload_of_pod(key)
        return self._with_needed_places(workload, self._model.remove_pod(key))

    def _with_needed_places(self, workload: Key | None, freed: Collection[str]) -> Collection[str]:
        """Return ``freed`` with the flavors of the places that ``workload`` no longer needs."""
        return freed if workload is None else {*freed, *self.ledger.pods_changed(workload)}

    def put_nominated_pod(self, pod: Pod) -> Collection[str]:
        """Count a pod on the node for which it is nominated, as ``put_pod`` does for one that is bound.

        A member of a group has a place until it is bound.
        """
        if self.ledger.has_group_places(group_of(pod)):
            return self.remove_nominated_pod(pod.metadata.key)
        return self._model.put_nominated_pod(pod)

    def remove_nominated_pod(self, key: Key) -> Collection[str]:
        return self._model.remove_nominated_pod(key)

    def put_unreadable_pod(self, key: Key, node: str, requests: EncodedRequests | None) -> None:
        """Count a pod of which the node and at best the requests are known.

        If these are not known, places in topologies are kept away from the node.
        """
        self._model.put_unreadable_pod(key, node, {PODS: MAX_AMOUNT} if requests is None else requests)

    # Volumes.

    def set_has_volumes(self, has_volumes: bool) -> None:
        """Tell if all claims and volumes are known; until then, no node takes pods with claims."""
        self.constraints.has_storage = has_volumes
        self.retry_flavors(self.placing)
