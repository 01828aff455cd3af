"""The states of Volcano queues (open, closing, closed) and of their child queues, and their controller.

Source: Volcano's queue controller (v1.15).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import msgspec

from quorate.api.meta import Key
from quorate.api.volcano import (
    BUILT_IN_QUEUES,
    CLOSED,
    CLOSING,
    COMPLETED,
    INQUEUE,
    OPEN,
    PENDING,
    ROOT_QUEUE,
    RUNNING,
    UNKNOWN,
    PodGroup,
    Queue,
    QueueStatus,
)
from quorate.api.volcano.job import Command
from quorate.controllers.context import ControllerContext
from quorate.controllers.executor import ObjectEvent, Plan, PlanExecutor
from quorate.controllers.limits import FEW_WORKERS
from quorate.controllers.volcano.command_bus import CommandBus
from quorate.kube.controller.expectations import versions
from quorate.kube.errors import AlreadyExists
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import merge_patch
from quorate.kube.resources import QUEUES, reference_to
from quorate.kube.writes import Patch
from quorate.queueing.lifecycle.transition import Event

QueueAction = Literal["sync", "open", "close"]
ACTIONS: Final[Mapping[str, QueueAction]] = {"OpenQueue": "open", "CloseQueue": "close"}  # of commands
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"  # an annotation of queues, "true" or "false"


class RootQueueCannotClose(Exception):
    """The root queue cannot be closed: no queue below it could be open."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue

    def __str__(self) -> str:
        return f"queue {self.queue}: cannot be closed (close its child queues)"


def next_state(queue: str, state: str, action: QueueAction, pod_groups: int) -> str:
    """Return the state of ``queue`` after ``action``, given the number of pod groups in it.

    Raises ``RootQueueCannotClose``.
    """
    match action:
        case "open":
            return OPEN
        case "close":
            if queue == ROOT_QUEUE:
                raise RootQueueCannotClose(queue)
            return CLOSING if pod_groups else CLOSED
        case "sync":
            return _synced_state(state, pod_groups)


def _synced_state(state: str, pod_groups: int) -> str:
    if state in ("", OPEN):
        return OPEN
    if state in (CLOSING, CLOSED):
        return CLOSING if pod_groups else CLOSED
    return UNKNOWN


@dataclass(frozen=True, slots=True)
class QueuePlan:
    status: QueueStatus
    annotations: Mapping[str, str] = field(default_factory=dict)  # to set
    parent: str = ""  # to set; empty: it does not change
    events: tuple[Event, ...] = ()


def decide(queue: Queue, parent: Queue | None, phases: Mapping[str, int], command: str = "") -> QueuePlan:
    """Return the plan for a queue, given its pod groups by phase and a command's action.

    All queues below a closed queue are closed and marked with the closed-by-parent annotation; marked queues
    open again with their parent.  A queue that a command closes loses the mark and stays closed.  A queue
    that a command opens while its parent is closed is marked instead.
    """
    action, marks = _action(queue, parent, command)
    name, state = queue.metadata.name, queue.status.state
    events: tuple[Event, ...] = ()
    try:
        after = next_state(name, state, action, sum(phases.values()))
    except RootQueueCannotClose as refusal:
        after, events = state or OPEN, (Event("Warning", "CloseQueue", str(refusal)),)
    if command == "OpenQueue" and action != "open":
        text = f"queue {name} opens when its parent queue {queue.spec.parent} does (open that one first)"
        events = (Event("Warning", "OpenQueue", text),)
    elif action != "sync" and after != state:
        reason = "OpenQueue" if action == "open" else "CloseQueue"
        events = (Event("Normal", reason, f"queue {name} is {after}"),)
    status = msgspec.structs.replace(
        queue.status,
        state=after,
        pending=phases.get(PENDING, 0) + phases.get("", 0),
        inqueue=phases.get(INQUEUE, 0),
        running=phases.get(RUNNING, 0),
        unknown=phases.get(UNKNOWN, 0),
        completed=phases.get(COMPLETED, 0),
    )
    stored = queue.metadata.annotations
    changed = {key: value for key, value in marks.items() if stored.get(key, "false") != value}
    has_no_parent = not queue.spec.parent and name != ROOT_QUEUE
    return QueuePlan(status, changed, ROOT_QUEUE if has_no_parent else "", events)


def _action(queue: Queue, parent: Queue | None, command: str) -> tuple[QueueAction, Mapping[str, str]]:
    """Return the action on the queue, and its closed-by-parent annotation afterwards."""
    action = ACTIONS.get(command, "sync")
    parent_closed = parent is not None and parent.status.state in (CLOSED, CLOSING)
    if parent_closed and action != "close" and queue.status.state in ("", OPEN):
        return "close", {CLOSED_BY_PARENT: "true"}
    if parent_closed and action == "open":
        return "sync", {CLOSED_BY_PARENT: "true"}
    if action != "sync":
        return action, {CLOSED_BY_PARENT: "false"}
    if parent is None:
        return "sync", {}
    marked = queue.metadata.annotations.get(CLOSED_BY_PARENT) == "true"
    if marked and parent.status.state == OPEN:
        return "open", {CLOSED_BY_PARENT: "false"}
    return "sync", {}


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
        groups.add_index(_BY_QUEUE, lambda group: (group.queue_name,))
        queues.add_index(_BY_PARENT, lambda queue: (queue.spec.parent,))
        groups.subscribe(self._group_changed)
        queues.subscribe(self._queue_changed)
        self._commands.subscribe(self.reconciler.enqueue)
        for name in BUILT_IN_QUEUES:
            self.reconciler.enqueue(Key("", name))

    def _group_changed(self, change: Change[PodGroup]) -> None:
        for group in change.versions:
            self.reconciler.enqueue(Key("", group.queue_name))

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
