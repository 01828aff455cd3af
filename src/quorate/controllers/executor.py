"""Execution of plans: sends the writes of a decision and records its events.

A controller reads everything it needs, computes a ``Plan`` with a pure function and hands the plan over.
For each key the executor remembers what no API object stores:

- which versions its writes replaced, so that nothing is decided on a copy older than our own write;
- since when deferrable writes are deferred;
- which keys wait for an object that does not exist yet.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from quorate.api.events import ObjectReference
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import PLAN_DEFER_S
from quorate.kube.clock import Clock
from quorate.kube.controller.expectations import Expectations, Version
from quorate.kube.errors import Invalid, RequestFailed
from quorate.kube.informer import Informer
from quorate.kube.log import logger
from quorate.kube.resources import WORKLOADS, Resource
from quorate.kube.writes import Create, Patch, Write, send, send_concurrently
from quorate.queueing.lifecycle.transition import Event


class Debounce:
    """Defers the work on each key once, for ``delay_s`` on the steady clock."""

    def __init__(self, clock: Clock, delay_s: float) -> None:
        self._clock = clock
        self._steady = clock.steady
        self._delay_s = delay_s
        self._until: dict[Key, float] = {}  # steady time; only keys with deferred work

    def defer_until(self, key: Key) -> float | None:
        """Return until when (epoch seconds) to defer work on ``key``; None: the delay is over."""
        now = self._steady.now()
        left_s = self._until.setdefault(key, now + self._delay_s) - now
        return self._clock.now() + left_s if left_s > 0 else None

    def clear(self, key: Key) -> None:
        """End the deferral of ``key``: its work is done or no longer needed."""
        self._until.pop(key, None)


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An event and the object it is about."""

    regarding: ObjectReference
    event: Event


def normal_event(regarding: ObjectReference, reason: str, message: str) -> ObjectEvent:
    return ObjectEvent(regarding, Event("Normal", reason, message))


def warning_event(regarding: ObjectReference, reason: str, message: str) -> ObjectEvent:
    return ObjectEvent(regarding, Event("Warning", reason, message))


def name_conflict(
    about: ObjectReference, writes: Iterable[Write], workloads: Informer[Workload], owners: Collection[Uid]
) -> ObjectEvent | None:
    """Return an event about a Workload that cannot be created: a Workload of another owner has its name.

    ``owners`` are the owners of the Workload to create. Return None if no Workload with the name is cached:
    the existing Workload may then belong to the owners.
    """
    for write in writes:
        if isinstance(write, Create) and write.resource == WORKLOADS:
            stored = workloads.get(Key(write.namespace, write.body.metadata.name))
            if stored is not None and not any(
                owner.uid in owners for owner in stored.metadata.owner_references
            ):
                text = (
                    f'A Workload named "{stored.metadata.name}" already exists and belongs to another object'
                )
                return warning_event(about, "WorkloadNameConflict", text)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The writes for one key and the events to record; the default has none."""

    concurrent: tuple[tuple[Write, ...], ...] = ()  # sequences sent concurrently, before ``writes``
    writes: tuple[Write, ...] = ()  # sent in order
    events: tuple[ObjectEvent, ...] = ()  # recorded once all writes have succeeded
    missing_dependency: str = ""  # what must exist before the rest can be decided
    deferrable: bool = False  # the writes may wait a moment: more to write may follow soon
    wake_at: float | None = None  # when to reconcile again if nothing changes before, epoch seconds

    @property
    def all_writes(self) -> tuple[Write, ...]:
        return (*(write for sequence in self.concurrent for write in sequence), *self.writes)

    def then(self, more: Self) -> Self:
        """Return ``more`` with the writes and events of this plan before its own."""
        return replace(
            more,
            concurrent=(*self.concurrent, *more.concurrent),
            writes=(*self.writes, *more.writes),
            events=(*self.events, *more.events),
            missing_dependency=self.missing_dependency or more.missing_dependency,
        )


class PlanExecutor:
    """Executes the plans of one reconciler; its keys are those of objects of ``resource``.

    ``enqueue`` reconciles a key again.  The time that ``execute`` returns is for the reconciler.
    """

    def __init__(
        self, context: ControllerContext, resource: Resource[Any], enqueue: Callable[[Key], None]
    ) -> None:
        self._client = context.client
        self._recorder = context.events
        self._resource = resource
        self._enqueue = enqueue
        self._expectations = Expectations(context.clock)
        self._debounce = Debounce(context.clock, PLAN_DEFER_S)
        self._missing_dependency: set[Key] = set()
        self._log = logger(__name__).bind(kind=resource.kind)

    def retry_on(self, *informers: Informer[Any]) -> None:
        """Reconcile keys with a missing dependency whenever an object of these kinds changes."""
        for informer in informers:
            informer.subscribe(lambda _: self.dependency_changed())

    def dependency_changed(self) -> None:
        """Reconcile the keys with a missing dependency."""
        for key in sorted(self._missing_dependency):
            self._enqueue(key)

    def pending_until(self, key: Key, seen: Iterable[Version]) -> float | None:
        """Return until when (epoch seconds) to wait for our own write; None: decide now."""
        return self._expectations.pending_until(key, seen)

    def is_stale(self, key: Key, seen: Iterable[Version]) -> bool:
        """Return True if one of ``seen`` may be outdated and must be read from the API server."""
        return self._expectations.is_stale(key, seen)

    async def execute(
        self, key: Key, plan: Plan, on_written: Callable[[list[Any]], None] | None = None
    ) -> float | None:
        """Send the writes of ``plan``, record its events and return when to reconcile again.

        ``on_written`` is called with the objects that ``plan.writes`` produced.  The first write that fails
        ends the execution: its error propagates, and no event is recorded.
        """
        if plan.missing_dependency:
            self._missing_dependency.add(key)
        else:
            self._missing_dependency.discard(key)
        if plan.deferrable and (due := self._debounce.defer_until(key)) is not None:
            return due
        self._debounce.clear(key)
        if plan.all_writes:
            produced = await self._send(key, plan)
            if on_written is not None:
                on_written(produced)
        self.record(key, plan.events, unique=not plan.all_writes)
        return plan.wake_at

    async def _send(self, key: Key, plan: Plan) -> list[Any]:
        try:
            await send_concurrently(self._client, plan.concurrent)
            produced = await send(self._client, plan.writes)
        except Invalid:
            raise  # certainly not stored
        except RequestFailed:
            self._expectations.doubt(key, plan.all_writes)
            raise
        # The watch delivers nothing for a patch that changed nothing and so kept the version.
        unchanged = {obj.metadata.resource_version for obj in produced}
        self._expectations.expect(
            key,
            (
                write
                for write in plan.all_writes
                if not (isinstance(write, Patch) and write.resource_version in unchanged)
            ),
        )
        return produced

    def record(self, key: Key, events: tuple[ObjectEvent, ...], *, unique: bool) -> None:
        """Record ``events``; ``unique``: they describe a state, and are not recorded twice in a row."""
        by_object: dict[ObjectReference, list[Event]] = {}
        for record in events:
            by_object.setdefault(record.regarding, []).append(record.event)
        for regarding, texts in by_object.items():
            if self._recorder.report(regarding, texts, unique=unique):
                for event in texts:
                    self._log.info(
                        "event", key=key, object=regarding.name, reason=event.reason, detail=event.message
                    )

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a key without objects."""
        self._missing_dependency.discard(key)
        self._debounce.clear(key)
        self._expectations.forget(key)
        self._recorder.forget(self._resource, key)
