"""Deletion of the pods that do not tolerate the NoExecute taints of their nodes.

The rules are those of the taint eviction controller of kube-controller-manager: ``tolerationSeconds`` count
from the moment when the taints were first seen beside the pod, and taints that are gone evict nothing.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from quorate.api.core import Node, Pod, Taint, Toleration
from quorate.api.meta import Key, Uid, condition_at, with_condition
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PODS
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.scheduler_filters import tolerates

MESSAGE: Final = "Taint manager: deleting due to NoExecute taint"


class TaintEvictionController(Controller):
    """A key is a pod."""

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
        condition = condition_at(now, "DisruptionTarget", "True", "DeletionByTaintManager", MESSAGE)
        status = {
            "conditions": with_condition(pod.status.conditions, condition),
            "observedGeneration": pod.metadata.generation,
        }
        with suppress(NotFound, Conflict):  # deleted, or replaced by another pod with that name
            body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
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
