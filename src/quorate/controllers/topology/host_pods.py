"""Pods on hosts: which wait for theirs, which run there, and how one is ended that cannot."""

from collections.abc import Iterable
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import epoch
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.controllers.pods.pod_writes import set_condition
from quorate.kube.writes import Apply
from quorate.queueing.topology.node_failures import HostState

REFUSED_S: Final = 3.0  # how long a scheduler refuses a pod before its place counts as taken
CONDITION: Final = "TerminatedByKueue"
REASON: Final = "UnschedulableOnAssignedNode"
EVENT: Final = "PodTerminatedByKueue"


def host_of(pod: Pod) -> str:
    """Return the host that the pod is to run on, or runs on; empty if it is not placed on one."""
    return pod.spec.node_selector.get(HOSTNAME) or pod.node_name


def is_waiting(pod: Pod) -> bool:
    """Return True if a scheduler may bind the pod to its host and has not."""
    is_free = not pod.node_name and not pod.has_gate(TOPOLOGY_GATE)
    return is_free and not pod.is_leaving and pod.status.phase == "Pending"


def is_progressing(pod: Pod) -> bool:
    """Return True if the pod runs on a node, or is about to."""
    return pod.uses_node and not pod.is_leaving


def termination_message(pod: Pod) -> str:
    return f"Pod terminated by Kueue because its assigned node {host_of(pod)} does not take it"


def termination(pod: Pod, now: float) -> Apply:
    return set_condition(pod, CONDITION, REASON, termination_message(pod), now, failed=True)


def refusing_states(pods: Iterable[Pod], now: float) -> dict[str, HostState]:
    """Return the states of hosts that have no room for one of ``pods``, as a scheduler found."""
    since = {
        host_of(pod): epoch(pod.history.refused_since)
        for pod in pods
        if is_waiting(pod) and pod.history.refused_since is not None
    }
    return {
        host: HostState(has_failed=True, admits_pods=False)
        if now >= start + REFUSED_S
        else HostState(check_at=start + REFUSED_S)
        for host, start in since.items()
    }
