"""``python -m bench.admission.floor``: a controller that writes one admission for each workload, no more.

No controllers can cost the API server and the machine less: no events, no statuses of queues, no reasons, no
preemption, and a model of a few numbers.  An admission is the same status that Quorate writes, because the
cost of a write grows with the object.  Workloads are admitted by priority within the total quota of their
cohort.  It knows only the objects of the benchmark, which have one pod set of one flavor.
"""

import asyncio
import heapq
import random
from contextlib import suppress
from typing import Any, Final

import uvloop

from bench.admission.objects import CPUS
from quorate.api import codec
from quorate.api.kueue import ClusterQueue
from quorate.api.meta import Condition, Key, ObjectMeta, Struct, at_epoch, is_true
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import WallClock
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS, Resource
from quorate.kube.rest.config import load_rest_config
from quorate.processes.process_setup import run_until_signal, tune_garbage_collection

CONCURRENCY: Final = 100  # as that of the controllers
MERGE: Final = {"Content-Type": PatchKind.MERGE.value}


class _Spec(Struct):
    queue_name: str = ""
    priority: int = 0


class _Status(Struct):
    conditions: tuple[Condition, ...] = ()


class BenchWorkload(Struct):
    """The fields of a workload that this controller reads."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def cpus(self) -> int:
        return int(self.metadata.labels[CPUS])


BENCH_WORKLOADS: Final = Resource(
    WORKLOADS.group, WORKLOADS.version, WORKLOADS.plural, WORKLOADS.kind, True, BenchWorkload
)


class Cohort:
    """Queues of one cohort; the quota that is not reserved, in cpus."""

    def __init__(self) -> None:
        self.free = 0
        self.pending: list[tuple[int, int, Key]] = []  # a heap: negative priority, order of arrival


class Floor:
    """Each cluster queue has one local queue and one namespace, all of the same name."""

    def __init__(self, client: Client, tasks: asyncio.TaskGroup) -> None:
        self._client = client
        self._tasks = tasks  # of the writes
        self._clock = WallClock()
        self._queues = Informer(client, CLUSTER_QUEUES)
        self._workloads = Informer(client, BENCH_WORKLOADS)
        self._cohorts: dict[str, Cohort] = {}
        self._admitted: dict[Key, int] = {}  # the cpus of workloads that run
        self._arrivals = 0

    async def run(self) -> None:
        """Admit until cancelled."""
        self._queues.subscribe(self._queue_changed)
        self._workloads.subscribe(self._workload_changed)
        self._tasks.create_task(self._queues.run())
        await self._queues.synced.wait()
        self._tasks.create_task(self._workloads.run())

    def _queue_changed(self, change: Change[ClusterQueue]) -> None:
        queue = change.new
        if change.old is not None or queue is None:
            return
        cohort = self._cohorts.setdefault(queue.spec.cohort_name, Cohort())
        cohort.free += queue.spec.resource_groups[0].flavors[0].resources[0].nominal_quota.units
        text = "Can admit new workloads"
        active = self._condition("Active", "Ready", text, queue.metadata.generation)
        path = CLUSTER_QUEUES.path("", change.key.name, "status")
        self._tasks.create_task(self._patch(path, {"conditions": [active]}))

    def _workload_changed(self, change: Change[BenchWorkload]) -> None:
        key, workload = change.key, change.new
        queue = self._queues.get(Key("", key.namespace))
        if queue is None:
            return  # of another benchmark
        cohort = self._cohorts[queue.spec.cohort_name]
        if workload is None or is_true(workload.status.conditions, "Finished"):
            cohort.free += self._admitted.pop(key, 0)
        elif change.old is None and not is_true(workload.status.conditions, "Admitted"):
            self._arrivals += 1
            heapq.heappush(cohort.pending, (-workload.spec.priority, self._arrivals, key))
        self._admit(cohort)

    def _admit(self, cohort: Cohort) -> None:
        while cohort.pending:
            key = cohort.pending[0][-1]
            workload, queue = self._workloads.get(key), self._queues.get(Key("", key.namespace))
            if workload is not None and queue is not None:
                if workload.cpus > cohort.free:
                    return
                cohort.free -= workload.cpus
                self._admitted[key] = workload.cpus
                path = WORKLOADS.path(key.namespace, key.name, "status")
                self._tasks.create_task(self._patch(path, self._admission(workload, queue)))
            heapq.heappop(cohort.pending)

    def _admission(self, workload: BenchWorkload, queue: ClusterQueue) -> dict[str, Any]:
        flavor = queue.spec.resource_groups[0].flavors[0].name
        usage = {"cpu": str(workload.cpus)}
        assignment = {"name": "main", "count": 1, "flavors": {"cpu": flavor}, "resourceUsage": usage}
        name, generation = queue.metadata.name, workload.metadata.generation
        reserved = f"Quota reserved in ClusterQueue {name}"
        return {
            "admission": {"clusterQueue": name, "podSetAssignments": [assignment]},
            "conditions": [
                self._condition("QuotaReserved", "QuotaReserved", reserved, generation),
                self._condition("Admitted", "Admitted", "The workload is admitted", generation),
            ],
        }

    def _condition(self, type_: str, reason: str, message: str, generation: int) -> Condition:
        moment = at_epoch(self._clock.now())
        return Condition(
            type=type_,
            status="True",
            reason=reason,
            message=message,
            last_transition_time=moment,
            observed_generation=generation,
        )

    async def _patch(self, path: str, status: dict[str, Any]) -> None:
        query = {"fieldManager": "quorate"}
        await self._client.request(
            "PATCH", path, query=query, body=codec.encode({"status": status}), headers=MERGE
        )


async def _run() -> None:
    client = Client(await load_rest_config(), random.Random(), concurrency=CONCURRENCY)
    async with client, asyncio.TaskGroup() as tasks:
        await Floor(client, tasks).run()


if __name__ == "__main__":
    tune_garbage_collection()
    with suppress(asyncio.CancelledError):  # by a signal
        uvloop.run(run_until_signal(_run()))
