"""Pods on hosts: which wait for theirs, which run there, and how one is ended that cannot."""

from collections.abc import Iterable
from typing import Final

from quorate.api.core.bound_pod import BoundPod
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import at_epoch, epoch
from quorate.controllers.pods.pod_writes import FIELD_MANAGER
from quorate.controllers.topology.placed_pods import PLACED_PODS, PlacedPod
from quorate.kube.resources import Json
from quorate.kube.writes import Apply
from quorate.queueing.topology.node_failures import HostState

REFUSED_S: Final = 3.0  # how long a scheduler refuses a pod before its place counts as taken
CONDITION: Final = "TerminatedByKueue"
REASON: Final = "UnschedulableOnAssignedNode"
EVENT: Final = "PodTerminatedByKueue"


def host_of(pod: PlacedPod) -> str:
    """Return the host that the pod is to run on, or runs on; empty if it is not placed on one."""
    return pod.spec.node_selector.get(HOSTNAME) or pod.spec.node_name


def is_waiting(pod: PlacedPod) -> bool:
    """Return True if a scheduler may bind the pod to its host and has not."""
    return (
        not pod.spec.node_name and not pod.is_gated and not pod.is_deleted and pod.status.phase == "Pending"
    )


def is_progressing(pod: PlacedPod | BoundPod) -> bool:
    """Return True if the pod runs on a node, or is about to."""
    is_ended = pod.status.phase in ("Succeeded", "Failed")
    return bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None and not is_ended


def termination_message(pod: PlacedPod) -> str:
    return f"Pod terminated by Kueue because its assigned node {host_of(pod)} does not take it"


def termination(pod: PlacedPod, now: float) -> Apply:
    metadata = pod.metadata
    condition: Json = {
        "type": CONDITION,
        "status": "True",
        "reason": REASON,
        "message": termination_message(pod),
        "lastTransitionTime": at_epoch(now),
    }
    body: Json = {
        "metadata": {"uid": metadata.uid},
        "status": {"phase": "Failed", "conditions": [condition]},
    }
    return Apply(PLACED_PODS, metadata.key, body, FIELD_MANAGER, "status")


def refusing_states(pods: Iterable[PlacedPod], now: float) -> dict[str, HostState]:
    """Return the states of hosts that have no room for one of ``pods``, as a scheduler found."""
    since = {
        host_of(pod): epoch(pod.status.refused_since)
        for pod in pods
        if is_waiting(pod) and pod.status.refused_since is not None
    }
    return {
        host: HostState(has_failed=True, admits_pods=False)
        if now >= start + REFUSED_S
        else HostState(check_at=start + REFUSED_S)
        for host, start in since.items()
    }
