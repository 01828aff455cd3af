"""The status of cohorts: their weighted share, where fair sharing is configured.

Whoever comes or goes in a queue changes the share of every cohort above it, so a cohort is looked at at most
once a second, and written only when its share differs from what is stored.
"""

from typing import Any, Final

from quorate.api.kueue import ClusterQueue, Workload
from quorate.api.meta import Key
from quorate.controllers.context import ControllerContext
from quorate.kube.informer import Change
from quorate.kube.patches import merge_patch
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import COHORTS
from quorate.kube.writes import Patch, send
from quorate.queueing.state import State

INTERVAL_S: Final = 1.0


class CohortController:
    def __init__(self, context: ControllerContext, state: State) -> None:
        self._client = context.client
        self._informers = informers = context.informers
        self._state = state
        self.reconciler = Reconciler("cohorts", self.reconcile, context.clock)
        informers.cohorts.subscribe(self._quota_changed)
        if context.configuration.fair_sharing is not None:
            informers.cluster_queues.subscribe(self._cluster_queue_changed)
            informers.workloads.subscribe(self._workload_changed)

    def _quota_changed(self, change: Change[Any]) -> None:
        """What one node owns counts in the shares of its whole tree."""
        for cohort in self._informers.cohorts:
            self._look_soon(cohort.metadata.name)

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self._quota_changed(change)

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in (change.old, change.new):
            if workload is None or workload.status.admission is None:
                continue
            queue = self._state.ledger.cluster_queues.get(workload.status.admission.cluster_queue)
            node = queue.node.parent if queue is not None else None
            while node is not None:
                self._look_soon(node.name)
                node = node.parent

    def _look_soon(self, name: str) -> None:
        self.reconciler.enqueue_in(Key("", name), INTERVAL_S)

    async def reconcile(self, key: Key) -> None:
        cohort = self._informers.cohorts.get(key)
        if cohort is None:
            return
        changed = merge_patch(cohort.status, self._state.cohort_status(key.name))
        if changed:
            version = cohort.metadata.resource_version
            await send(self._client, [Patch(COHORTS, key, version, {"status": changed}, "status")])
