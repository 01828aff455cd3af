"""Failure recovery: forceful termination of pods on unreachable nodes.

A deleted pod on an unreachable node stays in the API until the node comes back; its replacement and its quota
wait for it.  With the annotation ``safe-to-forcefully-delete`` two such pods may run at once.  Pods of all
kinds of jobs, and pods that are not managed, can have it.
"""

from typing import Final

from quorate.api.core import Node
from quorate.api.core.pod import Pod
from quorate.api.meta import Key, epoch
from quorate.controllers.context import ControllerContext
from quorate.controllers.executor import Plan, PlanExecutor, warning_event
from quorate.controllers.limits import RECOVERY_GRACE_S, WORKERS
from quorate.controllers.pods import constants
from quorate.controllers.pods.pod_writes import set_condition
from quorate.controllers.pods.queued_pod import is_forcefully_deletable
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PLACEABLE_PODS, reference_to
from quorate.kube.selection import Selection
from quorate.kube.writes import Delete

CONDITION: Final = "KueueFailureRecovery"
REASON: Final = "KueueForcefullyDeleted"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"

_NODE: Final = "forcefully deletable pods on"  # index of pods by their node


def recovery_plan(pod: Pod, node: Node | None, now: float) -> Plan:
    """Terminate a pod on an unreachable node a minute after its grace period."""
    deleted_at = pod.metadata.deletion_timestamp
    if deleted_at is None or not is_forcefully_deletable(pod):
        return Plan()
    due = epoch(deleted_at) + RECOVERY_GRACE_S
    if now < due:
        return Plan(wake_at=due)
    if node is None or UNREACHABLE not in {taint.key for taint in node.spec.taints}:
        return Plan()
    message = (
        f"Pod forcefully terminated after {RECOVERY_GRACE_S:.0f}s grace period due to unreachable node "
        f"`{node.metadata.name}` (triggered by `{constants.FORCEFULLY}` annotation)"
    )
    writes = (
        set_condition(pod, CONDITION, REASON, message, now, failed=not pod.has_ended),
        Delete(PLACEABLE_PODS, pod.metadata.key, pod.metadata.uid, grace_period_s=0),
    )
    return Plan(
        concurrent=(writes,),
        events=(warning_event(reference_to(PLACEABLE_PODS, pod.metadata), REASON, message),),
    )


class RecoveryController:
    def __init__(self, context: ControllerContext, pods: Selection[Pod], nodes: Informer[Node]) -> None:
        self._clock = context.clock
        self._pods = pods
        self._nodes = nodes
        self.reconciler = context.reconciler("pods.recovery", self._reconcile, pods, WORKERS)
        self._executor = PlanExecutor(context, PLACEABLE_PODS, self.reconciler.enqueue)
        pods.add_index(_NODE, lambda pod: (pod.node_name,) if is_forcefully_deletable(pod) else ())
        pods.subscribe(self._pod_changed)
        nodes.subscribe(self._node_changed)

    def _pod_changed(self, change: Change[Pod]) -> None:
        if change.new is not None and change.new.is_leaving:
            self.reconciler.enqueue(change.key)
        elif change.new is None:
            self._executor.forget(change.key)

    def _node_changed(self, change: Change[Node]) -> None:
        for pod in self._pods.by_index(_NODE, change.key.name):
            if pod.is_leaving:
                self.reconciler.enqueue(pod.metadata.key)

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        if pod is None:
            return None
        plan = recovery_plan(pod, self._nodes.get(Key("", pod.node_name)), self._clock.now())
        return await self._executor.execute(key, plan)
