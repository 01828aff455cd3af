"""Deletion of pods that no kubelet will delete, and of pods that do not tolerate the taints of their nodes.

The rules are those of the pod garbage collector and of the taint eviction controller of
kube-controller-manager.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from quorate.api.codec import Json
from quorate.api.core import Node, Pod, Taint, Toleration, tolerates
from quorate.api.meta import Key, Uid, find_condition
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import NODES, PODS
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.pod_control import disruption_patch, is_pod_finished

QUARANTINE_S: Final = 40.0  # a node that is created just now may be announced later than its pods
TERMINATED_THRESHOLD: Final = 12_500  # finished pods that are kept
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
NO_NODE: Final = Key("", "")  # of pods that terminate before they are bound
FINISHED: Final = Key("finished", "")


class PodGarbageCollector(Controller):
    """Deletes pods on removed nodes, on nodes out of service, and on no node.

    A key is a node, ``NO_NODE`` or ``FINISHED``.
    """

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
                await self._client.patch(
                    PODS, pod.metadata.key, self._failure_patch(pod, reason), subresource="status"
                )
            await self._client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid, grace_period_s=0)

    def _failure_patch(self, pod: Pod, reason: str) -> Json:
        if reason:
            return disruption_patch(pod, self._clock.now(), "DeletionByPodGC", reason, phase="Failed")
        failed = {"phase": "Failed", "observedGeneration": pod.metadata.generation}
        return {"metadata": {"uid": pod.metadata.uid}, "status": failed}


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


MESSAGE: Final = "Taint manager: deleting due to NoExecute taint"


class TaintEvictionController(Controller):
    """Deletes pods that do not tolerate the NoExecute taints of their nodes.  A key is a pod.

    ``tolerationSeconds`` count from the moment when the taints were first seen beside the pod, and taints
    that are gone evict nothing.
    """

    def __init__(self, context: ControllerContext, pods: Informer[Pod], nodes: Informer[Node]) -> None:
        super().__init__("taint-eviction-controller", context, pods, nodes)
        self._pods = pods
        self._nodes = nodes
        self._since: dict[Uid, float] = {}  # when the taints of tolerant pods were first seen
        pods.subscribe(self._on_pod)
        nodes.subscribe(self._on_node)

    def _on_pod(self, change: Change[Pod]) -> None:
        if change.new is None:
            self._since.pop(change.old.metadata.uid if change.old else Uid(""), None)
        elif no_execute_taints(self._nodes.get(Key("", change.new.spec.node_name))):
            self._reconciler.enqueue(change.key)

    def _on_node(self, change: Change[Node]) -> None:
        if no_execute_taints(change.old) != no_execute_taints(change.new):
            for pod in self._pods:
                if pod.spec.node_name == change.key.name:
                    self._reconciler.enqueue(pod.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return None
        taints = no_execute_taints(self._nodes.get(Key("", pod.spec.node_name)))
        wait_s = tolerated_s(pod.spec.tolerations, taints) if taints else None
        if wait_s is None:
            self._since.pop(pod.metadata.uid, None)
            return None
        now = self._clock.now()
        due = self._since.setdefault(pod.metadata.uid, now) + wait_s
        if now < due:
            return due
        with suppress(NotFound, Conflict):  # deleted, or replaced by another pod with that name
            body = disruption_patch(pod, now, "DeletionByTaintManager", MESSAGE)
            await self._client.patch(PODS, key, body, subresource="status")
            await self._client.delete(PODS, key, uid=pod.metadata.uid)
        return None


def no_execute_taints(node: Node | None) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect == "NoExecute") if node else ()


def tolerated_s(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> float | None:
    """Return for how many seconds a pod may stay beside NoExecute taints: None for ever, 0 not at all.

    The first toleration that matches a taint counts for it, and the shortest time of all taints.
    """
    seconds = []
    for taint in taints:
        used = next((toleration for toleration in tolerations if tolerates((toleration,), taint)), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            seconds.append(max(float(used.toleration_seconds), 0.0))
    return min(seconds, default=None)
