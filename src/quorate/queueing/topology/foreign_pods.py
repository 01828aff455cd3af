"""Pods that use nodes of topologies without a place: what they use is not free for others."""

from collections.abc import Mapping
from typing import Final

from quorate.api.core import Pod
from quorate.api.core.pod_resources import pod_requests
from quorate.api.kueue.topology_annotations import REQUESTS
from quorate.placement.resources import in_base_units

PODS: Final = "pods"  # the resource of which each pod uses 1


def is_foreign(pod: Pod) -> bool:
    """Return True for a bound pod that has not terminated and requests no place in a topology.

    So do pods of workloads that were admitted without places (Kueue's rule).
    """
    has_ended = pod.status.phase in ("Succeeded", "Failed")
    requests_place = any(key in pod.metadata.annotations for key in REQUESTS)
    return bool(pod.spec.node_name) and not has_ended and not requests_place


def usage_on_node(pod: Pod) -> Mapping[str, int]:
    """Return what a pod uses of its node, in base units by resource."""
    return {**in_base_units(pod_requests(pod.spec)), PODS: 1}
