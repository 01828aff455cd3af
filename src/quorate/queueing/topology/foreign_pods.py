"""Pods that use nodes without a place: what they use is not free for others.

Kueue (v0.19) counts the pods that request no place.  Here a pod that requests one counts too as soon as its
workload has no places any more: until a terminating pod has ended, its room is not free.
"""

from collections.abc import Mapping
from typing import Final

from quorate.api.core.bound_pod import BoundPod
from quorate.api.kueue import SLICE_NAME, WORKLOAD_ANNOTATION
from quorate.api.kueue.topology_annotations import REQUESTS
from quorate.api.meta import Key
from quorate.placement.resources import in_base_units

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


def usage_on_node(pod: BoundPod) -> Mapping[str, int]:
    """Return what a pod uses of its node, in base units by resource."""
    return {**in_base_units(pod.requests), PODS: 1}
