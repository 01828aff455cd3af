"""The controller of Reservations: writes their status at the beginning and at the end of each window."""

from quorate.api.meta import Key
from quorate.api.quorate import Reservation
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import FEW_WORKERS
from quorate.controllers.reservations.reservation_status import decide_reservation
from quorate.kube.informer import Change
from quorate.kube.resources import RESERVATIONS, reference_to
from quorate.kube.writes import send, status_patch


class ReservationController:
    """Reconciles each Reservation when it changes, and when one of its windows begins or ends."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._events = context.events
        self._reservations = context.informers.reservations
        self.reconciler = context.reconciler("reservations", self.reconcile, self._reservations, FEW_WORKERS)
        self._reservations.subscribe(self._reservation_changed)

    def _reservation_changed(self, change: Change[Reservation]) -> None:
        if change.new is None:
            self.reconciler.forget(change.key)
        else:
            self.reconciler.enqueue(change.key)

    async def reconcile(self, key: Key) -> float | None:
        reservation = self._reservations.get(key)
        if reservation is None:
            return None
        step = decide_reservation(reservation, (), self._clock.now())
        await send(self._client, status_patch(RESERVATIONS, reservation, step.status))
        for event in step.events:
            self._events.event(
                reference_to(RESERVATIONS, reservation), event.type, event.reason, event.message
            )
        return step.wake_at
