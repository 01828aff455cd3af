"""What every controller needs besides its own informers, created once for each run."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.controllers.informers import Informers
from quorate.controllers.limits import EVENT_SHARE, EVENT_WORKERS
from quorate.controllers.metrics import Forget, Record
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.computations import Computations
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.events import EventRecorder
from quorate.kube.resources import Resource
from quorate.kube.selection import Watched

COMPONENT: Final = "quorate-controllers"  # the source of events


def event_recorder(client: Client, clock: Clock, *, distinct_messages: bool = False) -> EventRecorder:
    return EventRecorder(
        client,
        clock,
        COMPONENT,
        workers=EVENT_WORKERS,
        share=EVENT_SHARE,
        distinct_messages=distinct_messages,
    )


@dataclass(frozen=True, slots=True)
class ControllerContext:
    client: Client
    clock: Clock
    events: EventRecorder
    configuration: Configuration
    informers: Informers  # of the kinds that several controllers watch
    rng: random.Random
    record: Record
    forget: Forget
    computations: Computations = field(default_factory=Computations)  # of all controllers

    def reconciler(
        self,
        name: str,
        reconcile: Callable[[Key], Awaitable[float | None]],
        objects: Watched,
        workers: int,
        written: Resource[Any] | None = None,
    ) -> Reconciler:
        """Return a reconciler of ``objects``, about which its failures are reported.

        ``workers``: the default for the kind of ``objects``, or for ``written``.
        """
        concurrency = self.workers_for(written or objects.resource, workers)
        return Reconciler(name, reconcile, self.clock, concurrency, report=objects.reconcile_failed)

    def workers_for(self, resource: Resource[Any], default: int) -> int:
        """Return how many objects of a kind are reconciled concurrently."""
        return self.configuration.controllers.workers_for(resource.kind, resource.group, default)
