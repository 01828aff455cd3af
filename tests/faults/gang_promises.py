"""Invariants of gangs, checked on every stored state and on nothing else.

- The requests of the pods on a node do not exceed its allocatable resources.
- A pod is bound to one node and never moves.
- A gang that never had minMember pods on nodes does not keep capacity for longer than its timeout.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from quorate.api.core import Node, Pod
from quorate.api.core.pod_resources import pod_requests
from quorate.api.meta import Key
from tests.faults.gang_scene import OF_GROUP, Gang
from tests.faults.history import Step

# The timeout of the scene's configuration, and time for a scheduler that dies meanwhile to restart: the new
# process measures the timeout again, as the time since the first bind is not stored.
PARTLY_BOUND_S: Final = 2.0 + 12.0


class GangPromises:
    def __init__(self, nodes: Iterable[Node], gangs: Iterable[Gang]) -> None:
        self._allocatable = {node.metadata.name: node.status.allocatable["cpu"].milli for node in nodes}
        self._minimum = {gang.name: gang.minimum for gang in gangs}
        self._pods: dict[Key, Pod] = {}
        self._complete: set[str] = set()  # gangs that once had minMember pods on nodes
        self._partial_since: dict[str, float] = {}

    def step(self, step: Step) -> Iterator[str]:
        """Check the next stored state and yield its findings."""
        if not isinstance(step.object, Pod):
            return
        for finding in self._pod_changed(step.object, step.deleted, step.at):
            yield f"{finding} (at version {step.version})"

    def _pod_changed(self, pod: Pod, deleted: bool, at: float) -> Iterator[str]:
        key, node = pod.metadata.key, pod.spec.node_name
        old = self._pods.pop(key, None)
        if not deleted:
            self._pods[key] = pod
            if old is not None and old.metadata.uid == pod.metadata.uid:
                before = old.spec.node_name
                if before and before != node:
                    yield f"{key} was on {before} and is on {node or 'none'}"
            if node and (old is None or not old.spec.node_name):
                yield from self._fits(node)
        yield from self._partly_bound(pod.metadata.annotations.get(OF_GROUP, ""), at)

    def _fits(self, node: str) -> Iterator[str]:
        used = sum(pod_requests(pod.spec)["cpu"].milli for pod in self._pods.values() if _holds(pod, node))
        if used > self._allocatable[node]:
            yield f"{node} has pods of {used} milli-cpus and {self._allocatable[node]} allocatable"

    def _partly_bound(self, gang: str, at: float) -> Iterator[str]:
        members = Counter(
            _member_state(pod)
            for pod in self._pods.values()
            if pod.metadata.annotations.get(OF_GROUP) == gang
        )
        if members["on a node"] + members["succeeded"] >= self._minimum[gang]:
            self._complete.add(gang)
        is_partial = gang not in self._complete and members["on a node"] > 0
        since = self._partial_since.get(gang)
        if not is_partial:
            self._partial_since.pop(gang, None)
        elif since is None:
            self._partial_since[gang] = at
        elif at - since > PARTLY_BOUND_S:
            yield f"{gang} has been partly bound for {at - since:.1f} s: {dict(members)}"


def _holds(pod: Pod, node: str) -> bool:
    return pod.spec.node_name == node and pod.status.phase not in ("Succeeded", "Failed")


def _member_state(pod: Pod) -> str:
    if pod.status.phase == "Succeeded":
        return "succeeded"
    return "on a node" if pod.spec.node_name and pod.status.phase != "Failed" else "waiting"
