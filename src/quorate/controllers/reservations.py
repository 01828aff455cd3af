"""The controller of Reservations: writes their status, and evicts at the beginning of a window.

A window with ``atStart: Evict`` announces the evictions by events when it begins, and evicts after the notice
what still uses the amounts or the nodes that it keeps.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from quorate.api.kueue import Workload
from quorate.api.meta import Condition, ConditionStatus, Key, at_epoch, is_true, utc_text, with_condition
from quorate.api.quorate import ACTIVE, CONFLICTING, ENDED, SCHEDULED, Reservation, ReservationStatus
from quorate.api.quorate.occurrences import Interval, occurrences, spec_problem
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import FEW_WORKERS, RESERVATION_RETRY_S
from quorate.kube.errors import ApiError, ServerError
from quorate.kube.informer import Change
from quorate.kube.resources import RESERVATIONS, WORKLOADS, Resource, reference_to
from quorate.kube.writes import send, status_patch
from quorate.queueing.conditions import RESERVED_WINDOW, new_condition
from quorate.queueing.lifecycle.transition import Event, evict
from quorate.queueing.scheduling.window_evictions import evicts_at, find_conflicts, workloads_to_evict
from quorate.queueing.state import State
from quorate.queueing.windows import Window


class ReservationStep(NamedTuple):
    """The status to write, the events about it, and when it changes next (epoch seconds)."""

    status: ReservationStatus
    events: tuple[Event, ...]
    wake_at: float | None


def decide_reservation(reservation: Reservation, conflicts: Sequence[str], now: float) -> ReservationStep:
    """Return the next status of a Reservation; ``conflicts`` has a sentence for each conflict."""
    windows = occurrences(reservation.spec, now)
    current = windows[0] if windows else None
    is_active = current is not None and current.opens <= now
    old = reservation.status.conditions
    new = old
    for type_, status, reason, message in _conditions(reservation, current, conflicts, is_active=is_active):
        generation = reservation.metadata.generation
        new = with_condition(new, new_condition(type_, status, reason, message, now, generation))
    if current is None:
        start, end = reservation.status.start, reservation.status.end
        ended = ReservationStatus(start=start, end=end, conditions=new)
        return ReservationStep(ended, _events(old, new), None)
    shown = ReservationStatus(start=at_epoch(current.opens), end=at_epoch(current.closes), conditions=new)
    wake_at = current.closes if is_active else current.opens
    return ReservationStep(shown, _events(old, new), wake_at)


def _conditions(
    reservation: Reservation, current: Interval | None, conflicts: Sequence[str], *, is_active: bool
) -> Sequence[tuple[str, ConditionStatus, str, str]]:
    problem = spec_problem(reservation.spec)
    if problem is not None:
        return (
            (SCHEDULED, "False", "Invalid", problem),
            (ACTIVE, "False", "Invalid", problem),
            (CONFLICTING, "False", "Invalid", problem),
            (ENDED, "False", "Invalid", problem),
        )
    if current is None:
        text = "no window follows"
        return (
            (SCHEDULED, "False", "Ended", text),
            (ACTIVE, "False", "Ended", text),
            (CONFLICTING, "False", "Ended", text),
            (ENDED, "True", "Ended", text),
        )
    start, end = map(utc_text, current)
    text = f"from {start} to {end}"
    conflicting: tuple[str, ConditionStatus, str, str] = (CONFLICTING, "False", "NoConflict", "")
    if conflicts:
        conflicting = (CONFLICTING, "True", "Conflict", "; ".join(conflicts))
    return (
        (SCHEDULED, "True", "Scheduled", text),
        (ACTIVE, "True", "Started", text) if is_active else (ACTIVE, "False", "NotStarted", text),
        conflicting,
        (ENDED, "False", "NotEnded", ""),
    )


def _events(old: Sequence[Condition], new: Sequence[Condition]) -> tuple[Event, ...]:
    """Return the events of the conditions that became or ceased to be true."""
    events: list[Event] = []
    for condition in new:
        was = is_true(old, condition.type)
        holds = condition.status == "True"
        if condition.type == ACTIVE and holds != was:
            reason = "ReservationStarted" if holds else "ReservationEnded"
            events.append(Event("Normal", reason, condition.message))
        elif condition.type == CONFLICTING and holds and not was:
            events.append(Event("Warning", "ReservationConflicting", condition.message))
        elif condition.type == SCHEDULED and condition.reason == "Invalid" and not _has(old, condition):
            events.append(Event("Warning", "ReservationInvalid", condition.message))
    return tuple(events)


def _has(conditions: Sequence[Condition], wanted: Condition) -> bool:
    return any((one.type, one.reason) == (wanted.type, wanted.reason) for one in conditions)


class ReservationController:
    """Reconciles each Reservation when it changes, and when one of its windows begins or ends."""

    def __init__(self, context: ControllerContext, state: State) -> None:
        self._client = context.client
        self._clock = context.clock
        self._events = context.events
        self._ledger = state.ledger
        self._reservations = context.informers.reservations
        self.reconciler = context.reconciler("reservations", self.reconcile, self._reservations, FEW_WORKERS)
        self._reservations.subscribe(self._reservation_changed)
        context.informers.cluster_queues.subscribe(self._queue_changed)

    def _reservation_changed(self, change: Change[Reservation]) -> None:
        if change.new is None:
            self.reconciler.forget(change.key)
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self._enqueue_all()  # it may conflict with others

    def _queue_changed(self, change: Change[Any]) -> None:
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self._enqueue_all()

    def _enqueue_all(self) -> None:
        for reservation in self._reservations:
            self.reconciler.enqueue(reservation.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        reservation, window = self._reservations.get(key), self._ledger.windows.get(key.name)
        if reservation is None or window is None:
            return None
        now = self._clock.now()
        conflicts = find_conflicts(self._ledger, window, now)
        step = decide_reservation(reservation, conflicts, now)
        if conflicts and step.wake_at is not None and reservation.spec.nodes is not None:
            step = step._replace(wake_at=min(step.wake_at, now + RESERVATION_RETRY_S))  # nodes come and go
        await send(self._client, status_patch(RESERVATIONS, reservation, step.status))
        for event in step.events:
            self._record(RESERVATIONS, reservation, event)
        evict_at = evicts_at(window, now)
        if step.wake_at is None or evict_at is None:
            return step.wake_at
        if now < evict_at:
            if any(event.reason == "ReservationStarted" for event in step.events):
                self._announce(window, evict_at)
            return min(step.wake_at, evict_at)
        await self._evict(window, now)
        return min(step.wake_at, now + RESERVATION_RETRY_S)

    def _announce(self, window: Window, evict_at: float) -> None:
        moment = utc_text(evict_at)
        message = f"reservation {window.name} needs what it uses: it is evicted at {moment}"
        for workload in workloads_to_evict(self._ledger, window):
            self._record(WORKLOADS, workload, Event("Warning", "EvictionAnnounced", message))

    async def _evict(self, window: Window, now: float) -> None:
        message = f"reservation {window.name} needs what it uses"
        refusal: ApiError | None = None
        for workload in workloads_to_evict(self._ledger, window):
            eviction = evict(workload, RESERVED_WINDOW, message, now)
            try:
                await send(self._client, status_patch(WORKLOADS, workload, eviction.status))
            except ServerError:
                raise  # it is not about the workload
            except ApiError as error:  # of one workload, which holds up no other
                refusal = refusal or error
                continue
            for event in eviction.events:
                self._record(WORKLOADS, workload, event)
        if refusal is not None:
            raise refusal

    def _record(self, resource: Resource[Any], regarding: Reservation | Workload, event: Event) -> None:
        self._events.event(
            reference_to(resource, regarding.metadata), event.type, event.reason, event.message
        )
