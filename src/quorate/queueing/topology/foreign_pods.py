"""Bound pods: what those without a place use of nodes is not free for others.

Kueue (v0.19) counts the pods that request no place.  Here a pod that requests one counts too as soon as its
workload has no places any more: until a terminating pod has ended, its room is not free.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from quorate.api.core.bound_pod import BoundPod
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.core.scheduling import Node
from quorate.api.kueue import SLICE_NAME, WORKLOAD_ANNOTATION
from quorate.api.kueue.topology_annotations import REQUESTS
from quorate.api.meta import Key
from quorate.api.volcano.annotations import GROUP_NAME
from quorate.placement.resources import in_base_units
from quorate.queueing.topology.places import Amounts

PODS: Final = "pods"  # the resource of which each pod uses 1


def uses_node(pod: BoundPod) -> bool:
    return bool(pod.spec.node_name) and pod.status.phase not in ("Succeeded", "Failed")


def requests_place(pod: BoundPod) -> bool:
    return any(key in pod.metadata.annotations for key in REQUESTS)


def workload_of(pod: BoundPod) -> Key | None:
    """Return the workload with the places of the pod; None: unknown, or one of several slices of a job."""
    annotations = pod.metadata.annotations
    name = "" if SLICE_NAME in annotations else annotations.get(WORKLOAD_ANNOTATION, "")
    return Key(pod.metadata.namespace, name) if name else None


def group_of(pod: BoundPod) -> Key | None:
    """Return the Volcano pod group of a pod that names no workload; None if it has none."""
    annotations = pod.metadata.annotations
    name = "" if WORKLOAD_ANNOTATION in annotations else annotations.get(GROUP_NAME, "")
    return Key(pod.metadata.namespace, name) if name else None


def usage_on_node(pod: BoundPod) -> Amounts:
    """Return what a pod uses of its node, in base units by resource."""
    return {**in_base_units(pod.requests), PODS: 1}


def offered_amounts(requests: Amounts | EncodedRequests, node: Node) -> Amounts:
    """Return the requests of what the node offers, in base units.

    Of any other resource nothing is free, whatever pods use.  A pod may name thousands of them, and a tree
    has a row for each resource.
    """
    names = node.status.allocatable
    if isinstance(requests, EncodedRequests):
        return {**in_base_units(requests.of_resources(names)), PODS: 1}
    return {name: amount for name, amount in requests.items() if name in names or name == PODS}


def offer_the_same(old: Node, new: Node) -> bool:
    """Return True if the same requests count on both nodes."""
    return old.status.allocatable.keys() == new.status.allocatable.keys()


class NodeUse(NamedTuple):
    """What a pod uses of its node."""

    node: str
    requests: Amounts  # in base units by resource


class PodsByWorkload:
    """The bound pods that request a place, by their workload; or those of pod groups, by their group."""

    def __init__(self) -> None:
        self._uses: dict[Key, dict[Key, NodeUse]] = {}  # by workload and pod; no empty values
        self._workload_of: dict[Key, Key] = {}  # by pod

    def put(self, workload: Key, pod: Key, use: NodeUse) -> None:
        """Set what a pod uses that is new, or known as one of the same workload."""
        self._workload_of[pod] = workload
        self._uses.setdefault(workload, {})[pod] = use

    def remove(self, pod: Key) -> None:
        workload = self._workload_of.pop(pod, None)
        if workload is not None:
            del self._uses[workload][pod]
            if not self._uses[workload]:
                del self._uses[workload]

    def workload_of(self, pod: Key) -> Key | None:
        return self._workload_of.get(pod)

    def workloads(self) -> Iterable[Key]:
        return self._uses.keys()

    def uses_of(self, workload: Key) -> Iterable[tuple[Key, NodeUse]]:
        """Return the pods of a workload with what they use."""
        return self._uses.get(workload, {}).items()
