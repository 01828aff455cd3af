"""Quota of a manager's cluster queues: the sum of what its worker clusters have (KEP-9988, alpha).

A local queue of a worker cluster with the name of a local queue of the manager points to the cluster queue
that runs its workloads.  Reasons and messages are Kueue's.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from quorate.api.kueue import (
    AdmissionCheck,
    ClusterQueue,
    FlavorQuotas,
    LocalQueue,
    ResourceGroup,
    ResourceQuota,
)
from quorate.api.kueue.multikueue import MultiKueueConfig
from quorate.api.meta import Condition, ConditionStatus, Key, find_condition, with_condition
from quorate.api.names.multikueue import CONTROLLER
from quorate.api.quantity import Quantity
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import POINTS_TO, ByName
from quorate.controllers.limits import FEW_WORKERS
from quorate.controllers.multikueue.connection.check_controller import config_of
from quorate.controllers.multikueue.workers import Worker, Workers
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from quorate.kube.writes import Patch, send, status_patch
from quorate.queueing import conditions as c

AUTOMATION: Final = "MultiKueueManagerQuotaAutomation"  # a condition of cluster queues


@dataclass(frozen=True, slots=True)
class WorkerQueues:
    """The cluster queues and the local queues of a worker cluster that has a connection to the manager."""

    local_queues: Iterable[LocalQueue]
    cluster_queues: Iterable[ClusterQueue]


@dataclass(frozen=True, slots=True)
class QuotaPlan:
    """What to write into a cluster queue; None: leave as it is.  Without ``condition`` it is removed."""

    condition: Condition | None
    resource_groups: tuple[ResourceGroup, ...] | None = None


def multikueue_check(queue: ClusterQueue, checks: Mapping[str, AdmissionCheck]) -> AdmissionCheck | None:
    """Return the MultiKueue check of a cluster queue, the first by name."""
    names = sorted(rule.name for rule in queue.spec.admission_checks_strategy.admission_checks)
    existing = (checks[name] for name in names if name in checks)
    return next((check for check in existing if check.spec.controller_name == CONTROLLER), None)


def decide(
    queue: ClusterQueue,
    config: MultiKueueConfig | None,
    local_queues: Iterable[Key],
    workers: Sequence[WorkerQueues],
    now: float,
) -> QuotaPlan:
    """Return the quota of a queue with a MultiKueue check; ``config`` is None if it does not exist.

    ``workers``: the connected clusters of ``config``.  A lost cluster has no quota.
    """

    def no(reason: str, message: str) -> QuotaPlan:
        return QuotaPlan(_condition(queue, "False", reason, message, now))

    if config is None:
        return no("UnsupportedConfiguration", "The referenced MultiKueueConfig was not found.")
    if config.spec.quota_management != "Automated":
        return no("NotRequested", "MultiKueue manager quota automation has not been requested.")
    groups = queue.spec.resource_groups
    if len(groups) != 1 or len(groups[0].flavors) != 1:
        rule = "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor"
        return no("UnsupportedConfiguration", rule)
    quota = _summed(frozenset(local_queues), workers)
    covered = groups[0].covered_resources
    if missing := sorted(quota.keys() - set(covered)):
        rule = "manager-side coveredResources is missing resources configured on workers"
        return no("UnsupportedConfiguration", f"{rule}: [{' '.join(missing)}]")
    flavor = groups[0].flavors[0]
    resources = tuple(
        ResourceQuota(name=name, nominal_quota=quota.get(name, Quantity(0))) for name in covered
    )
    text = "ClusterQueue quota is automatically managed based on MultiKueue workers."
    condition = _condition(queue, "True", "QuotaAutomated", text, now)
    if flavor.resources == resources:
        return QuotaPlan(condition)
    wanted = FlavorQuotas(name=flavor.name, resources=resources)
    return QuotaPlan(condition, (ResourceGroup(covered_resources=covered, flavors=(wanted,)),))


def _summed(local_queues: frozenset[Key], workers: Iterable[WorkerQueues]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for worker in workers:
        names = {
            queue.spec.cluster_queue for queue in worker.local_queues if queue.metadata.key in local_queues
        }
        for queue in worker.cluster_queues:
            if queue.metadata.name not in names:
                continue
            for group in queue.spec.resource_groups:
                for resource in (resource for flavor in group.flavors for resource in flavor.resources):
                    before = total.get(resource.name)
                    quota = resource.nominal_quota
                    total[resource.name] = quota if before is None else before + quota
    return total


def _condition(
    queue: ClusterQueue, status: ConditionStatus, reason: str, message: str, now: float
) -> Condition:
    return c.new_condition(AUTOMATION, status, reason, message, now, queue.metadata.generation)


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
        conditions = queue.status.conditions
        if plan.condition is None:
            conditions = c.without_condition(conditions, AUTOMATION)
        elif not c.is_unchanged(find_condition(conditions, AUTOMATION), plan.condition):
            conditions = with_condition(conditions, plan.condition)
        status = replace(queue.status, conditions=conditions)
        await send(self._context.client, (*writes, *status_patch(CLUSTER_QUEUES, queue, status)))


async def _run(*informers: Informer[Any]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for informer in informers:
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
