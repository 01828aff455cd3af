"""The queue controller: execute the plans for Volcano queues."""

from collections import Counter
from dataclasses import replace
from typing import Any, Final

from quorate.api.meta import Key
from quorate.api.volcano import BUILT_IN_QUEUES, DEFAULT_QUEUE, PodGroup, Queue
from quorate.api.volcano.job import Command
from quorate.controllers.context import ControllerContext
from quorate.controllers.executor import ObjectEvent, Plan, PlanExecutor
from quorate.controllers.limits import FEW_WORKERS
from quorate.controllers.volcano.command_bus import CommandBus
from quorate.controllers.volcano.queue_state import QueuePlan, decide
from quorate.kube.controller.expectations import versions
from quorate.kube.errors import AlreadyExists
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import merge_patch
from quorate.kube.resources import QUEUES, reference_to
from quorate.kube.writes import Patch

_BY_QUEUE: Final = "pod groups by queue"  # index of pod groups by the name of their queue
_BY_PARENT: Final = "queues by parent"  # index of queues by the name of their parent


class VolcanoQueueController:
    """Keeps the state and counts of each queue current, and creates the built-in queues."""

    def __init__(
        self,
        context: ControllerContext,
        queues: Informer[Queue],
        groups: Informer[PodGroup],
        commands: Informer[Command],
    ) -> None:
        self._client = context.client
        self._queues = queues
        self._groups = groups
        self._commands = CommandBus(context.client, context.clock, commands, QUEUES)
        # Queues without the parent that was written, as the CRD of an older Volcano has no such field; the
        # value is the generation of that write.
        self._dropped_parent: dict[Key, int] = {}
        self._log = logger(__name__)
        self.reconciler = context.reconciler("volcano.queues", self.reconcile, queues, FEW_WORKERS)
        self._executor = PlanExecutor(context, QUEUES, self.reconciler.enqueue)
        groups.add_index(_BY_QUEUE, lambda group: (_queue_of(group),))
        queues.add_index(_BY_PARENT, lambda queue: (queue.spec.parent,))
        groups.subscribe(self._group_changed)
        queues.subscribe(self._queue_changed)
        self._commands.subscribe(self.reconciler.enqueue)
        for name in BUILT_IN_QUEUES:
            self.reconciler.enqueue(Key("", name))

    def _group_changed(self, change: Change[PodGroup]) -> None:
        for group in change.versions:
            self.reconciler.enqueue(Key("", _queue_of(group)))

    def _queue_changed(self, change: Change[Queue]) -> None:
        self.reconciler.enqueue(change.key)
        for child in self._queues.by_index(_BY_PARENT, change.key.name):
            self.reconciler.enqueue(child.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        queue = self._queues.get(key)
        if queue is None:
            self._executor.forget(key)
            self._dropped_parent.pop(key, None)
            await self._create_built_in(key)
            return await self._commands.delete_orphans(key)
        until = self._executor.pending_until(key, versions(QUEUES, (queue,)))
        if until is not None:
            return until
        command = next(iter(await self._commands.pending(key, queue.metadata.uid)), None)
        phases = Counter(group.status.phase for group in self._groups.by_index(_BY_QUEUE, key.name))
        parent = self._queues.get(Key("", queue.spec.parent)) if queue.spec.parent else None
        plan = decide(queue, parent, phases, "" if command is None else command.action)
        if self._dropped_parent.get(key) == queue.metadata.generation:
            plan = replace(plan, parent="")
        deferrable = command is None and _changes_only_counts(queue, plan)
        deferred_until = await self._execute(queue, plan, deferrable=deferrable)
        if deferred_until is not None:
            return deferred_until
        if command is not None:
            await self._commands.delete((command,))
            self.reconciler.enqueue(key)  # for the next command
        return None

    async def _create_built_in(self, key: Key) -> None:
        if (queue := BUILT_IN_QUEUES.get(key.name)) is not None:
            try:
                await self._client.create(QUEUES, queue)
            except AlreadyExists:
                return  # another process created it a moment ago
            self._log.info("queue created", queue=key)

    async def _execute(self, queue: Queue, plan: QueuePlan, *, deferrable: bool) -> float | None:
        metadata = queue.metadata

        def on_written(stored: list[Any]) -> None:
            if plan.parent and stored[0].spec.parent != plan.parent:
                self._dropped_parent[metadata.key] = metadata.generation

        writes = _patches(queue, plan)
        deferred_until = await self._executor.execute(
            metadata.key, Plan(writes=writes, deferrable=deferrable), on_written if writes else None
        )
        if deferred_until is None:
            regarding = reference_to(QUEUES, queue.metadata)
            events = tuple(ObjectEvent(regarding, event) for event in plan.events)
            self._executor.record(metadata.key, events, unique=False)
        return deferred_until


def _patches(queue: Queue, plan: QueuePlan) -> tuple[Patch, ...]:
    metadata = queue.metadata
    patches: list[Patch] = []
    body: dict[str, Any] = {}
    if plan.annotations:
        body["metadata"] = {"annotations": dict(plan.annotations)}
    if plan.parent:
        body["spec"] = {"parent": plan.parent}
    if body:
        patches.append(Patch(QUEUES, metadata.key, metadata.resource_version, body))
    if status := merge_patch(queue.status, plan.status):
        if not queue.status.state:
            # The CRD requires the field.  An empty object removes nothing that the scheduler has written.
            status = {"allocated": {}, **status}
        patches.append(Patch(QUEUES, metadata.key, metadata.resource_version, {"status": status}, "status"))
    return tuple(patches)


def _changes_only_counts(queue: Queue, plan: QueuePlan) -> bool:
    acts = plan.annotations or plan.parent or plan.events
    return plan.status != queue.status and plan.status.state == queue.status.state and not acts


def _queue_of(group: PodGroup) -> str:
    return group.spec.queue or DEFAULT_QUEUE
