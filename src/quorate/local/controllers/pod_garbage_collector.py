"""Deletion of pods that no kubelet will delete: on removed nodes, on nodes out of service, or on no node.

The rules are those of the pod garbage collector of kube-controller-manager.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from quorate.api.codec import Json
from quorate.api.core import Node, Pod
from quorate.api.meta import Key, condition_at, find_condition, with_condition
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import NODES, PODS
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.pod_control import is_pod_finished

QUARANTINE_S: Final = 40.0  # a node that is created just now may be announced later than its pods
TERMINATED_THRESHOLD: Final = 12_500  # finished pods that are kept
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
NO_NODE: Final = Key("", "")  # of pods that terminate before they are bound
FINISHED: Final = Key("finished", "")


class PodGarbageCollector(Controller):
    """A key is a node, ``NO_NODE`` or ``FINISHED``."""

    def __init__(self, context: ControllerContext, pods: Informer[Pod], nodes: Informer[Node]) -> None:
        super().__init__("pod-garbage-collector", context, pods, nodes, workers=1)
        self._pods = pods
        self._nodes = nodes
        self._missing_since: dict[str, float] = {}  # nodes that have pods and that no node object describes
        self._finished = 0
        pods.add_index("node", lambda pod: (pod.spec.node_name,))
        pods.subscribe(self._on_pod)
        nodes.subscribe(self._on_node)

    def _on_pod(self, change: Change[Pod]) -> None:
        was, now = (pod is not None and is_pod_finished(pod) for pod in (change.old, change.new))
        self._finished += now - was
        if self._finished > TERMINATED_THRESHOLD and now and not was:
            self._reconciler.enqueue(FINISHED)
        pod = change.new
        if pod is None:
            return
        node = Key("", pod.spec.node_name)
        if pod.metadata.deletion_timestamp is not None or self._nodes.get(node) is None:
            self._reconciler.enqueue(node)

    def _on_node(self, change: Change[Node]) -> None:
        if change.new is None or is_out_of_service(change.new):
            self._reconciler.enqueue(change.key)

    async def reconcile(self, key: Key) -> float | None:
        if key == FINISHED:
            await self._delete(oldest_finished(self._pods, TERMINATED_THRESHOLD), "")
            return None
        pods = self._pods.by_index("node", key.name)
        terminating = [pod for pod in pods if pod.metadata.deletion_timestamp is not None]
        if key == NO_NODE:
            await self._delete(terminating, "")
            return None
        node = self._nodes.get(key)
        if node is not None or not pods:
            self._missing_since.pop(key.name, None)
            if node is not None and is_out_of_service(node):
                await self._delete(terminating, "PodGC: node is out of service")
            return None
        now = self._clock.now()
        due = self._missing_since.setdefault(key.name, now) + QUARANTINE_S
        if now < due:
            return due
        if await self._client.find(NODES, key) is None:
            await self._delete(pods, "PodGC: node no longer exists")
        return None

    async def _delete(self, pods: Iterable[Pod], reason: str) -> None:
        """Delete pods at once.  ``reason``: why they are disrupted; empty if they are not."""
        await asyncio.gather(*(self._delete_one(pod, reason) for pod in pods))

    async def _delete_one(self, pod: Pod, reason: str) -> None:
        with suppress(NotFound, Conflict):  # deleted, or replaced by another pod with that name
            if not is_pod_finished(pod):  # a finalizer may keep it, and its owner waits for its end
                body = {"metadata": {"uid": pod.metadata.uid}, "status": self._failed_status(pod, reason)}
                await self._client.patch(PODS, pod.metadata.key, body, subresource="status")
            await self._client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid, grace_period_s=0)

    def _failed_status(self, pod: Pod, reason: str) -> Json:
        failed = {"phase": "Failed", "observedGeneration": pod.metadata.generation}
        if not reason:
            return failed
        condition = condition_at(self._clock.now(), "DisruptionTarget", "True", "DeletionByPodGC", reason)
        return {**failed, "conditions": with_condition(pod.status.conditions, condition)}


def is_out_of_service(node: Node) -> bool:
    """Return True if an administrator says so of a node that is not ready: its pods do not run any more."""
    ready = find_condition(node.status.conditions, "Ready")
    return (ready is None or ready.status != "True") and any(
        taint.key == OUT_OF_SERVICE for taint in node.spec.taints
    )


def oldest_finished(pods: Iterable[Pod], kept: int) -> list[Pod]:
    """Return the finished pods beyond the number that is kept, the oldest first."""
    finished = sorted(
        (pod for pod in pods if is_pod_finished(pod)),
        key=lambda pod: (str(pod.metadata.creation_timestamp), pod.metadata.key),
    )
    return finished[: max(len(finished) - kept, 0)]
