"""What every controller needs besides its own informers, created once for each run."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta, epoch
from quorate.controllers.informers import Informers
from quorate.controllers.limits import EVENT_WORKERS
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.computations import Computations
from quorate.kube.controller.reconcile import Reconcile, Reconciler
from quorate.kube.events import EventRecorder
from quorate.kube.resources import WORKLOADS, Resource
from quorate.kube.selection import Watched
from quorate.kube.writes import Create, Write

_NOTHING_ELSE: Final[Mapping[str, str]] = {}


class Record(Protocol):
    def __call__(
        self,
        name: str,
        labels: Mapping[str, str],
        seconds: float | None = None,
        about: Mapping[str, str] = _NOTHING_ELSE,
    ) -> None:
        """Record an observation of a metric, as ``observe.recorder.Recorder.record``."""


class Forget(Protocol):
    def __call__(self, labels: Mapping[str, str]) -> None:
        """Remove the values with these labels, as ``observe.recorder.Recorder.forget``."""


def record_workload_creations(
    record: Record, kind: str, job: ObjectMeta, writes: Iterable[Write], answers: Iterable[object]
) -> None:
    """Record the time between the creation of ``job`` and that of its workloads in ``writes``.

    Jobs that were updated since their creation are left out: the update may have made them queued.
    """
    if job.generation > 1 or job.creation_timestamp is None:
        return
    made = {
        write.body.metadata.name
        for write in writes
        if isinstance(write, Create) and write.resource is WORKLOADS
    }
    for answer in answers:
        if not isinstance(answer, Workload) or answer.metadata.name not in made:
            continue
        made.discard(answer.metadata.name)  # the same plan may patch it
        created = answer.metadata.creation_timestamp
        assert created is not None, f"workload {answer.metadata.key} was never stored"
        record(
            "kueue_workload_creation_latency_seconds",
            {"job_kind": kind},
            max(0.0, epoch(created) - epoch(job.creation_timestamp)),
            {"name": answer.spec.queue_name, "namespace": answer.metadata.namespace},
        )


def record_pod_creation(record: Record, job: ObjectMeta, pod: ObjectMeta) -> None:
    """Record the seconds from the creation of ``job``, a Volcano Job, to that of its pod ``pod``."""
    assert job.creation_timestamp is not None, f"job {job.key} was never stored"
    assert pod.creation_timestamp is not None, f"pod {pod.key} was never stored"
    waited_s = max(0.0, epoch(pod.creation_timestamp) - epoch(job.creation_timestamp))
    record("volcano_controller_job_to_pod_creation_latency_milliseconds", {}, waited_s)


COMPONENT: Final = "quorate-controllers"  # the source of events


def event_recorder(client: Client, clock: Clock, *, distinct_messages: bool = False) -> EventRecorder:
    return EventRecorder(client, clock, COMPONENT, workers=EVENT_WORKERS, distinct_messages=distinct_messages)


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
        reconcile: Reconcile,
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
