"""The controller that writes the quota of worker clusters into the manager's cluster queues."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.kueue import ClusterQueue, LocalQueue
from quorate.api.kueue.multikueue import MultiKueueConfig
from quorate.api.meta import Key, find_condition, with_condition
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import POINTS_TO, ByName
from quorate.controllers.limits import FEW_WORKERS
from quorate.controllers.multikueue.connection.check_controller import config_of
from quorate.controllers.multikueue.quota.manager_quota import (
    AUTOMATION,
    QuotaPlan,
    WorkerQueues,
    decide,
    multikueue_check,
)
from quorate.controllers.multikueue.workers import Worker, Workers
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from quorate.kube.writes import Patch, send
from quorate.queueing import conditions as c

BATCH_S: Final = 0.5  # changes within this time cause one write


@dataclass(frozen=True, slots=True)
class _Followed:
    worker: Worker
    local_queues: Informer[LocalQueue]
    cluster_queues: Informer[ClusterQueue]
    task: asyncio.Task[None]


class QuotaController:
    """Watches the queues of each connected worker cluster, for cluster queues with a MultiKueue check."""

    def __init__(
        self, context: ControllerContext, configs: Informer[MultiKueueConfig], workers: Workers
    ) -> None:
        self._context, self._configs, self._workers = context, configs, workers
        self._followed: dict[str, _Followed] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._queues = context.informers.cluster_queues
        self.reconciler = context.reconciler(
            "multikueue_clusterqueue", self.reconcile, self._queues, FEW_WORKERS
        )

    async def run(self) -> None:
        """Run until cancelled."""
        informers = self._context.informers
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._workers.subscribe_workers(self._worker_changed)
            for worker in self._workers:
                self._worker_changed(worker.name)
            self._queues.subscribe(self._queue_changed)
            informers.local_queues.subscribe(self._local_queue_changed)
            informers.checks.subscribe(lambda _: self._enqueue_all())
            self._configs.subscribe(lambda _: self._enqueue_all())
            await self.reconciler.run()

    def _queue_changed(self, change: Change[ClusterQueue]) -> None:
        old, new = change.old, change.new
        if new is not None and (old is None or old.spec != new.spec):
            self.reconciler.enqueue_in(change.key, BATCH_S)

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        if change.old is None or change.new is None:
            for queue in change.versions:
                self.reconciler.enqueue_in(Key("", queue.spec.cluster_queue), BATCH_S)

    def _enqueue_all(self) -> None:
        for queue in self._queues:
            conditions, rules = queue.status.conditions, queue.spec.admission_checks_strategy
            if rules.admission_checks or find_condition(conditions, AUTOMATION) is not None:
                self.reconciler.enqueue_in(queue.metadata.key, BATCH_S)

    def _worker_changed(self, name: str) -> None:
        worker, followed = self._workers.get(name), self._followed.get(name)
        if followed is not None and followed.worker is not worker:
            followed.task.cancel()
            del self._followed[name]
        if worker is not None and name not in self._followed:
            self._follow(worker)
        self._enqueue_all()

    def _follow(self, worker: Worker) -> None:
        assert self._tasks is not None, "followed before the controller runs"
        local_queues = Informer(worker.client, LOCAL_QUEUES)
        cluster_queues = Informer(worker.client, CLUSTER_QUEUES)
        local_queues.subscribe(self._remote_changed)
        cluster_queues.subscribe(self._remote_changed)
        task = self._tasks.create_task(_run(local_queues, cluster_queues), name=f"queues of {worker.name}")
        self._followed[worker.name] = _Followed(worker, local_queues, cluster_queues, task)

    def _remote_changed(self, change: Change[Any]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old.spec != new.spec:
            self._enqueue_all()

    async def reconcile(self, key: Key) -> None:
        queue = self._queues.get(key)
        if queue is not None:
            await self._write(queue, self._plan(queue))

    def _plan(self, queue: ClusterQueue) -> QuotaPlan | None:
        """Return what to write; None: not all queues of a connected worker cluster are listed yet."""
        informers = self._context.informers
        check = multikueue_check(queue, ByName(informers.checks))
        if check is None:
            return QuotaPlan(None)
        (name,) = config_of(check) or ("",)
        config = self._configs.get(Key("", name))
        followed = list(self._followed_of(config))
        if not all(
            one.local_queues.synced.is_set() and one.cluster_queues.synced.is_set() for one in followed
        ):
            return None
        local = informers.local_queues.by_index(POINTS_TO, queue.metadata.name)
        keys = [local_queue.metadata.key for local_queue in local]
        remote = [WorkerQueues(one.local_queues, one.cluster_queues) for one in followed]
        return decide(queue, config, keys, remote, self._context.clock.now())

    def _followed_of(self, config: MultiKueueConfig | None) -> Iterator[_Followed]:
        for name in () if config is None else config.spec.clusters:
            if name in self._followed:
                yield self._followed[name]

    async def _write(self, queue: ClusterQueue, plan: QuotaPlan | None) -> None:
        if plan is None:
            return
        metadata, writes = queue.metadata, []
        if plan.resource_groups is not None:
            spec = {"resourceGroups": plan.resource_groups}
            writes.append(Patch(CLUSTER_QUEUES, metadata.key, metadata.resource_version, {"spec": spec}))
        old, new = find_condition(queue.status.conditions, AUTOMATION), plan.condition
        if new is None and old is not None:
            conditions = c.without_condition(queue.status.conditions, AUTOMATION)
        elif new is not None and not c.is_unchanged(old, new):
            conditions = with_condition(queue.status.conditions, new)
        else:
            conditions = queue.status.conditions
        if conditions != queue.status.conditions:
            body = {"status": {"conditions": conditions}}
            writes.append(Patch(CLUSTER_QUEUES, metadata.key, metadata.resource_version, body, "status"))
        await send(self._context.client, writes)


async def _run(*informers: Informer[Any]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for informer in informers:
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
