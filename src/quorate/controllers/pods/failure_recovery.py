"""Pods that cannot end because their node is lost: ended without it, where their users allow that.

A pod on a node that nobody reaches stays in the API, being deleted, until the node comes back; its
replacement and its quota wait for it.  Whoever knows that two such pods do no harm says so by an annotation.
"""

from typing import Final

from quorate.api.core import Node
from quorate.api.meta import Key, at_epoch, epoch
from quorate.controllers.context import ControllerContext
from quorate.controllers.pods import constants
from quorate.controllers.pods.carrying import PlanCarrier
from quorate.controllers.pods.plan import IDLE, PodPlan, warned
from quorate.controllers.pods.queued_pod import PODS, QueuedPod, is_deleted, is_managed, is_terminated
from quorate.controllers.pods.start_stop import FIELD_MANAGER
from quorate.kube.informer import Change, Informer
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import Json
from quorate.kube.writes import Apply, Delete

GRACE_S: Final = 60.0  # beyond the pod's own
CONDITION: Final = "KueueFailureRecovery"
REASON: Final = "KueueForcefullyDeleted"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"

_ON: Final = "managed pods on"  # index of pods by their node


def may_be_ended(pod: QueuedPod) -> bool:
    return is_managed(pod) and pod.metadata.annotations.get(constants.FORCEFULLY) == "true"


def decide_stuck(pod: QueuedPod, node: Node | None, now: float) -> PodPlan:
    """End a pod that was to have ended a minute ago on a node that cannot be reached."""
    deleted_at = pod.metadata.deletion_timestamp
    if deleted_at is None or not may_be_ended(pod):
        return IDLE
    due = epoch(deleted_at) + GRACE_S
    if now < due:
        return PodPlan(wake_at=due)
    if node is None or UNREACHABLE not in {taint.key for taint in node.spec.taints}:
        return IDLE
    message = (
        f"Pod forcefully terminated after {GRACE_S:.0f}s grace period due to unreachable node "
        f"`{node.metadata.name}` (triggered by `{constants.FORCEFULLY}` annotation)"
    )
    condition: Json = {
        "type": CONDITION,
        "status": "True",
        "reason": REASON,
        "message": message,
        "lastTransitionTime": at_epoch(now),
    }
    status: Json = (
        {"conditions": [condition]} if is_terminated(pod) else {"phase": "Failed", "conditions": [condition]}
    )
    metadata = pod.metadata
    return PodPlan(
        pods=(
            (
                Apply(
                    PODS,
                    metadata.key,
                    {"metadata": {"uid": metadata.uid}, "status": status},
                    FIELD_MANAGER,
                    "status",
                ),
                Delete(PODS, metadata.key, metadata.uid, grace_period_s=0),
            ),
        ),
        told=(warned(pod, REASON, message),),
    )


class RecoveryController:
    def __init__(self, context: ControllerContext, pods: Informer[QueuedPod], nodes: Informer[Node]) -> None:
        self._context = context
        self._pods = pods
        self._nodes = nodes
        self._carrier = PlanCarrier(context, PODS, "pods.recovery", self._reconcile)
        pods.add_index(_ON, lambda pod: (pod.node_name,) if may_be_ended(pod) else ())
        pods.subscribe(self._pod_changed)
        nodes.subscribe(self._node_changed)

    @property
    def reconciler(self) -> Reconciler:
        return self._carrier.reconciler

    def _pod_changed(self, change: Change[QueuedPod]) -> None:
        if change.new is not None and is_deleted(change.new):
            self.reconciler.enqueue(change.key)

    def _node_changed(self, change: Change[Node]) -> None:
        for pod in self._pods.by_index(_ON, change.key.name):
            if is_deleted(pod):
                self.reconciler.enqueue(pod.metadata.key)

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        if pod is None:
            return None
        now = self._context.clock.now()
        plan = decide_stuck(pod, self._nodes.get(Key("", pod.node_name)), now)
        return await self._carrier.carry_out(key, plan)
