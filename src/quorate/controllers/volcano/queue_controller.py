"""Carrying out what is decided for the queues of pod groups."""

from collections import Counter
from dataclasses import replace
from typing import Any, Final

from quorate.api.meta import Key
from quorate.api.volcano import DEFAULT_QUEUE, PodGroup, Queue
from quorate.api.volcano.job import Command
from quorate.controllers.context import ControllerContext
from quorate.controllers.volcano.command_bus import CommandBus
from quorate.controllers.volcano.queue_state import BUILT_IN_QUEUES, QueuePlan, decide
from quorate.kube.debounce import Debounce
from quorate.kube.errors import AlreadyExists
from quorate.kube.expectations import Expectations, versions
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import merge_patch
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import QUEUES, reference_to
from quorate.kube.writes import Patch, send

WORKERS: Final = 4
DEBOUNCE_S: Final = 1.0  # pod groups come and go together: one write can tell of many
_IN: Final = "in queue"  # index of pod groups by the name of their queue
_BELOW: Final = "below"  # index of queues by the name of their parent


class VolcanoQueueController:
    """Keeps the state and the counts of each queue true, and the built-in queues there."""

    def __init__(
        self,
        context: ControllerContext,
        queues: Informer[Queue],
        groups: Informer[PodGroup],
        commands: Informer[Command],
    ) -> None:
        self._client = context.client
        self._events = context.events
        self._queues = queues
        self._groups = groups
        self._commands = CommandBus(context.client, context.clock, commands, QUEUES)
        self._expectations = Expectations(context.clock)
        self._debounce = Debounce(context.clock, DEBOUNCE_S)
        # Queues that did not keep the parent they were given, by the generation it was tried at: a definition
        # of an older Volcano has no such field.
        self._without_parent: dict[Key, int] = {}
        self._log = logger(__name__)
        workers = context.workers_for(QUEUES, WORKERS)
        self.reconciler = Reconciler("volcano.queues", self.reconcile, context.clock, workers)
        groups.add_index(_IN, lambda group: (_queue_of(group),))
        queues.add_index(_BELOW, lambda queue: (queue.spec.parent,))
        groups.subscribe(self._group_changed)
        queues.subscribe(self._queue_changed)
        self._commands.follow(self.reconciler.enqueue)
        for queue in BUILT_IN_QUEUES:
            self.reconciler.enqueue(queue.metadata.key)

    def _group_changed(self, change: Change[PodGroup]) -> None:
        for group in (change.old, change.new):
            if group is not None:
                self.reconciler.enqueue(Key("", _queue_of(group)))

    def _queue_changed(self, change: Change[Queue]) -> None:
        self.reconciler.enqueue(change.key)
        for below in self._queues.by_index(_BELOW, change.key.name):
            self.reconciler.enqueue(below.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        queue = self._queues.get(key)
        if queue is None:
            self._expectations.forget(key)
            self._without_parent.pop(key, None)
            await self._make_if_built_in(key)
            return await self._commands.discard_orphans(key)
        until = self._expectations.pending_until(key, versions(QUEUES, (queue,)))
        if until is not None:
            return until
        command = next(iter(await self._commands.to(key, queue.metadata.uid)), None)
        phases = Counter(group.status.phase for group in self._groups.by_index(_IN, key.name))
        parent = self._queues.get(Key("", queue.spec.parent)) if queue.spec.parent else None
        plan = decide(queue, parent, phases, "" if command is None else command.action)
        if self._without_parent.get(key) == queue.metadata.generation:
            plan = replace(plan, parent="")
        if (
            command is None
            and _only_counts(queue, plan)
            and (due := self._debounce.defer_until(key)) is not None
        ):
            return due
        self._debounce.clear(key)
        await self._carry_out(queue, plan)
        if command is not None:
            await self._commands.consume((command,))
            self.reconciler.enqueue(key)  # for the next command, if there is one
        return None

    async def _make_if_built_in(self, key: Key) -> None:
        for queue in BUILT_IN_QUEUES:
            if queue.metadata.key == key:
                try:
                    await self._client.create(QUEUES, queue)
                except AlreadyExists:
                    return  # somebody else made it a moment ago
                self._log.info("queue made", queue=key)

    async def _carry_out(self, queue: Queue, plan: QueuePlan) -> None:
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
                # The definition wants it to be there.  Nothing takes nothing from what the scheduler wrote.
                status = {"allocated": {}, **status}
            patches.append(
                Patch(QUEUES, metadata.key, metadata.resource_version, {"status": status}, "status")
            )
        if patches:
            answers = await send(self._client, patches)
            if plan.parent and answers[0].spec.parent != plan.parent:
                self._without_parent[metadata.key] = metadata.generation
            if answers[-1].metadata.resource_version != metadata.resource_version:
                self._expectations.expect(metadata.key, patches)
        regarding = reference_to(QUEUES, queue)
        for event in plan.events:
            self._events.event(regarding, event.type, event.reason, event.message)
            self._log.info("queue", queue=metadata.key, did=event.reason, note=event.message)


def _only_counts(queue: Queue, plan: QueuePlan) -> bool:
    acts = plan.annotations or plan.parent or plan.events
    return plan.status != queue.status and plan.status.state == queue.status.state and not acts


def _queue_of(group: PodGroup) -> str:
    return group.spec.queue or DEFAULT_QUEUE
