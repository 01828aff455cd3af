"""What queues use of their quota, and what the nodes of each flavor have free."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from quorate.api.core import Resources
from quorate.api.core.pod import ENDED_PHASES, Pod
from quorate.api.core.pod_resources import sum_resources
from quorate.api.core.scheduling import Node
from quorate.api.kueue import ACTIVE, ClusterQueue, FlavorUsage, LocalQueue, ResourceFlavor
from quorate.api.meta import Struct, find_condition, is_true


class QueueStatus(Struct, omit_defaults=False):
    """A local queue; resources are summed over flavors.

    ``used`` and ``quota`` are those of its cluster queue, None without the permission to read it.
    """

    namespace: str
    name: str
    cluster_queue: str
    is_active: bool
    pending: int
    admitted: int
    used_by_queue: Resources
    used: Resources | None
    quota: Resources | None


class NodesStatus(Struct, omit_defaults=False):
    """The nodes of a flavor; ``used`` is None without the permission to list the pods of all namespaces."""

    flavor: str  # empty: nodes without a flavor
    nodes: int
    available: int  # ready, and not cordoned
    allocatable: Resources  # of the available nodes
    used: Resources | None  # requested by pods on the available nodes


def queue_status(queue: LocalQueue, cluster_queue: ClusterQueue | None) -> QueueStatus:
    """Return the status of a local queue; ``cluster_queue`` is None if it cannot be read."""
    return QueueStatus(
        namespace=queue.metadata.namespace,
        name=queue.metadata.name,
        cluster_queue=queue.spec.cluster_queue,
        is_active=is_true(queue.status.conditions, ACTIVE),
        pending=queue.status.pending_workloads,
        admitted=queue.status.admitted_workloads,
        used_by_queue=usage_of(queue.status.flavors_reservation),
        used=None if cluster_queue is None else usage_of(cluster_queue.status.flavors_reservation),
        quota=None if cluster_queue is None else quota_of(cluster_queue),
    )


def usage_of(flavors: Iterable[FlavorUsage]) -> Resources:
    """Return the usage of each resource, summed over flavors."""
    return sum_resources(
        {resource.name: resource.total} for flavor in flavors for resource in flavor.resources
    )


def quota_of(queue: ClusterQueue) -> Resources:
    """Return the nominal quota of each resource, summed over flavors."""
    return sum_resources(
        {quota.name: quota.nominal_quota}
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    )


def nodes_status(
    nodes: Sequence[Node], flavors: Sequence[ResourceFlavor], pods: Sequence[Pod] | None
) -> tuple[NodesStatus, ...]:
    """Return the nodes by flavor; a node with the labels of several flavors counts for each of them."""
    used: dict[str, Resources] | None = None
    if pods is not None:
        requests: defaultdict[str, list[Resources]] = defaultdict(list)
        for pod in pods:
            if pod.node_name and pod.status.phase not in ENDED_PHASES:
                requests[pod.node_name].append(pod.requests)
        used = {name: sum_resources(of_node) for name, of_node in requests.items()}
    return tuple(_nodes(name, of_flavor, used) for name, of_flavor in _by_flavor(nodes, flavors) if of_flavor)


def _by_flavor(nodes: Sequence[Node], flavors: Sequence[ResourceFlavor]) -> Iterator[tuple[str, list[Node]]]:
    rest = {node.metadata.name: node for node in nodes}
    for flavor in flavors:
        labels = flavor.spec.node_labels.items()
        with_labels = [node for node in nodes if labels <= node.metadata.labels.items()]
        for node in with_labels:
            rest.pop(node.metadata.name, None)
        yield flavor.metadata.name, with_labels
    yield "", list(rest.values())


def _nodes(flavor: str, nodes: Sequence[Node], used: Mapping[str, Resources] | None) -> NodesStatus:
    available = [node for node in nodes if _is_available(node)]
    return NodesStatus(
        flavor=flavor,
        nodes=len(nodes),
        available=len(available),
        allocatable=sum_resources(node.status.allocatable for node in available),
        used=None if used is None else sum_resources(used.get(node.metadata.name, {}) for node in available),
    )


def _is_available(node: Node) -> bool:
    ready = find_condition(node.status.conditions, "Ready")
    return not node.spec.unschedulable and (ready is None or ready.status == "True")
