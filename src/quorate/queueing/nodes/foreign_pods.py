"""Bound pods: what those without a place use of nodes is not free for others.

Kueue (v0.19) counts the pods that request no place.  Here a pod that requests one counts too as soon as its
workload has no places any more: until a terminating pod has ended, its room is not free.
"""

from collections.abc import Mapping
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.core.scheduling import Node
from quorate.api.meta import Key
from quorate.api.names.kueue import SLICE_NAME, WORKLOAD_ANNOTATION
from quorate.api.names.volcano import GROUP_NAME
from quorate.api.quantity import Quantity
from quorate.placement.resources import in_base_units
from quorate.queueing.nodes.occupants import Owner, Requests
from quorate.queueing.nodes.places import Amounts

PODS: Final = "pods"  # the resource of which each pod uses 1


def owner_of(pod: Pod) -> Owner | None:
    """Return what the pod belongs to; None: nothing that has places, or an unknown workload that has."""
    key = workload_of(pod) if pod.requests_place else group_of(pod)
    return None if key is None else Owner("workload" if pod.requests_place else "group", key)


def workload_of(pod: Pod) -> Key | None:
    """Return the workload with the places of the pod; None: unknown, or one of several slices of a job."""
    annotations = pod.metadata.annotations
    name = "" if SLICE_NAME in annotations else annotations.get(WORKLOAD_ANNOTATION, "")
    return Key(pod.metadata.namespace, name) if name else None


def group_of(pod: Pod) -> Key | None:
    """Return the Volcano pod group of a pod that names no workload; None if it has none."""
    annotations = pod.metadata.annotations
    name = "" if WORKLOAD_ANNOTATION in annotations else annotations.get(GROUP_NAME, "")
    return Key(pod.metadata.namespace, name) if name else None


def usage_on_node(pod: Pod) -> Amounts:
    """Return what a pod uses of its node, in base units by resource."""
    return {**in_base_units(pod.requests), PODS: 1}


def offered_amounts(requests: Requests, node: Node | None) -> Amounts:
    """Return the requests of resources that the node offers, in base units; of an unknown node only ``pods``.

    Of any other resource nothing is free, whatever pods use, and a pod may name thousands of them.
    """
    names: Mapping[str, Quantity] = {} if node is None else node.status.allocatable
    if isinstance(requests, EncodedRequests):
        return {**in_base_units(requests.of_resources(names)), PODS: 1}
    return {name: amount for name, amount in requests.items() if name in names or name == PODS}


def offer_the_same(old: Node, new: Node) -> bool:
    """Return True if the same requests count on both nodes."""
    return old.status.allocatable.keys() == new.status.allocatable.keys()
