"""A new value of a WorkloadPriorityClass is that of its workloads too, waiting or running."""

from quorate.api.kueue import GROUP, Workload, WorkloadPriorityClass
from quorate.api.meta import Key
from quorate.controllers.context import ControllerContext
from quorate.kube.informer import Change
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from quorate.kube.writes import Patch, send
from quorate.queueing.conditions import is_finished

_OF_CLASS = "of priority class"
WORKERS = 4


class PriorityController:
    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._informers = informers = context.informers
        workers = context.workers_for(WORKLOAD_PRIORITY_CLASSES, WORKERS)
        self.reconciler = Reconciler("priorities", self.reconcile, context.clock, workers)
        informers.workloads.add_index(_OF_CLASS, _class_of)
        informers.workload_classes.subscribe(self._class_changed)

    def _class_changed(self, change: Change[WorkloadPriorityClass]) -> None:
        self.reconciler.enqueue(change.key)

    async def reconcile(self, key: Key) -> None:
        priority_class = self._informers.workload_classes.get(key)
        if priority_class is None:
            return  # its workloads keep what it last gave them
        body = {"spec": {"priority": priority_class.value}}
        for workload in self._informers.workloads.by_index(_OF_CLASS, key.name):
            if workload.spec.priority != priority_class.value and not is_finished(workload):
                metadata = workload.metadata
                await send(self._client, [Patch(WORKLOADS, metadata.key, metadata.resource_version, body)])


def _class_of(workload: Workload) -> tuple[str, ...]:
    ref = workload.spec.priority_class_ref
    return (ref.name,) if ref is not None and ref.group == GROUP else ()
