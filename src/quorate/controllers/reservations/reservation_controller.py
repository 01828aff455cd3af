"""The controller of Reservations: writes their status, and evicts at the beginning of a window.

A window with ``atStart: Evict`` announces the evictions by events when it begins, and evicts after the notice
what still uses the amounts or the nodes that it keeps.
"""

from typing import Any

from quorate.api.kueue import Workload
from quorate.api.meta import Key, at_epoch
from quorate.api.quorate import Reservation
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import FEW_WORKERS, RESERVATION_RETRY_S
from quorate.controllers.reservations.reservation_status import decide_reservation
from quorate.kube.errors import ApiError, ServerError
from quorate.kube.informer import Change
from quorate.kube.resources import RESERVATIONS, WORKLOADS, Resource, reference_to
from quorate.kube.writes import send, status_patch
from quorate.queueing.conditions import RESERVED_WINDOW
from quorate.queueing.lifecycle.transition import Event, evict
from quorate.queueing.scheduling.window_evictions import evicts_at, find_conflicts, workloads_to_evict
from quorate.queueing.state import State
from quorate.queueing.windows.window import Window


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
        moment = f"{at_epoch(evict_at):%Y-%m-%d %H:%M:%S} UTC"
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
