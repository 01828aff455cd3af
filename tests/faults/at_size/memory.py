"""Many short jobs while watches are cut at intervals: the memory of the controllers must reach a plateau."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from quorate.api.batch import Job
from quorate.api.kueue import Workload
from quorate.api.meta import Key, at_epoch, is_true
from quorate.install.crds import gang_definitions, queueing_definitions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import JOBS, WORKLOADS, Resource
from tests.e2e.world import NAMESPACE, api_server_with
from tests.faults.at_size import load
from tests.faults.at_size.controllers import MIB, Controllers, Running
from tests.faults.at_size.outcome import Outcome, Show
from tests.faults.plan import Plan
from tests.faults.proxy import Proxy

Json = dict[str, Any]
STALL_S: Final = 180.0
MOST_UNFINISHED: Final = 100
SAMPLES: Final = 20  # of the memory, evenly over the jobs


@dataclass(frozen=True)
class Scale:
    jobs: int = 20_000
    cut_every_s: float = 30.0
    growth_in_percent: int = 5  # the most by which the memory may grow from the third to the last quarter


async def run(scale: Scale, seed: int, show: Show) -> Outcome:
    rng = random.Random(f"memory {seed}")
    definitions = (*queueing_definitions(), *gang_definitions())
    async with api_server_with(definitions) as (cluster, _), Client(cluster, rng) as client:
        silent = Plan(seed, rate=0.0)
        with TemporaryDirectory() as directory:
            async with Proxy(cluster, silent, STALL_S) as proxy:
                token = cluster.credentials.authorization().removeprefix("Bearer ")
                controllers = Controllers(Path(directory), proxy.endpoint().url, token, {})
                return await _Run(scale, client, proxy, controllers).run(show)


class _Run:
    def __init__(self, scale: Scale, client: Client, proxy: Proxy, controllers: Controllers) -> None:
        self._scale = scale
        self._client = client
        self._proxy = proxy
        self._controllers = controllers
        self._users = ShortJobs(client)
        self._samples: list[tuple[int, int]] = []  # finished jobs, resident bytes
        self._cuts = 0

    async def run(self, show: Show) -> Outcome:
        clock = asyncio.get_running_loop().time
        began = clock()
        await load.create_objects(self._client)
        async with self._controllers.running() as running, self._users.running():
            tasks = [asyncio.create_task(part) for part in (self._submit(), self._cut_watches())]
            try:
                await self._sample(running, tasks, show)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return self._outcome(clock() - began)

    async def _submit(self) -> None:
        queues = tuple(load.QUEUES)
        for number in range(self._scale.jobs):
            while number - self._users.ended >= MOST_UNFINISHED:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            await self._client.create(JOBS, short_job(number, queues[number % len(queues)]), NAMESPACE)

    async def _cut_watches(self) -> None:
        while True:
            await asyncio.sleep(self._scale.cut_every_s)
            self._proxy.cut_watches()
            self._cuts += 1

    async def _sample(self, running: Running, tasks: list[asyncio.Task[None]], show: Show) -> None:
        clock = asyncio.get_running_loop().time
        known, deadline = 0, clock() + STALL_S
        every = max(1, self._scale.jobs // SAMPLES)
        while (ended := self._users.ended) < self._scale.jobs:
            running.must_run()
            for task in (*tasks, *self._users.tasks):
                if task.done():
                    task.result()
            if ended >= every * len(self._samples):
                self._samples.append((ended, running.resident_bytes))
            if ended > known:
                known, deadline = ended, clock() + STALL_S
            assert clock() < deadline, f"no job ended for {STALL_S:g} s, {ended} have"
            show(ended)
            await asyncio.sleep(0.05)
        self._samples.append((ended, running.resident_bytes))
        show(ended)

    def _outcome(self, duration_s: float) -> Outcome:
        outcome = Outcome("memory", findings=self._controllers.findings())
        half = len(self._samples) // 2
        third, last = self._samples[half : half + half // 2], self._samples[half + half // 2 :]
        before, after = (max(size for _, size in part) for part in (third, last))
        if after * 100 > before * (100 + self._scale.growth_in_percent):
            outcome.findings.append(
                f"the memory grows: {before / MIB:.0f} MiB at most in the third quarter of the jobs, "
                f"{after / MIB:.0f} MiB in the last"
            )
        outcome.measures |= {
            "jobs": f"{self._scale.jobs:,}",
            "times that all watches were cut": str(self._cuts),
            "duration": f"{duration_s:.0f} s",
            "MiB after so many jobs": ", ".join(
                f"{size / MIB:.0f} ({jobs:,})" for jobs, size in self._samples
            ),
        }
        return outcome


class ShortJobs:
    """The job controller and the user of short jobs: a started job completes at once, then it is deleted.

    No pods run, so that the API server spends its time on the requests of the controllers.
    """

    def __init__(self, client: Client) -> None:
        self.ended = 0  # jobs that are deleted together with their workloads
        self.tasks: list[asyncio.Task[None]] = []
        self._client = client
        self._clock = WallClock()
        self._jobs = Informer(client, JOBS)
        self._workloads = Informer(client, WORKLOADS)
        self._jobs.subscribe(self._job_changed)
        self._workloads.subscribe(self._workload_changed)
        self._due: asyncio.Queue[Job | Workload] = asyncio.Queue()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        parts = [self._jobs.run(), self._workloads.run(), *(self._write_all() for _ in range(8))]
        self.tasks = [asyncio.create_task(part) for part in parts]
        try:
            yield
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def _job_changed(self, change: Change[Job]) -> None:
        job = change.new
        if job is not None and not job.spec.suspend and not is_true(job.status.conditions, "Complete"):
            self._due.put_nowait(job)

    def _workload_changed(self, change: Change[Workload]) -> None:
        workload = change.new
        if workload is None:
            self.ended += 1
        elif is_true(workload.status.conditions, "Finished") and (
            change.old is None or not is_true(change.old.status.conditions, "Finished")
        ):
            self._due.put_nowait(workload)

    async def _write_all(self) -> None:
        while True:
            match await self._due.get():
                case Job() as job:
                    await self._complete(job)
                case Workload() as workload:
                    await self._delete(workload)

    async def _complete(self, job: Job) -> None:
        now = at_epoch(self._clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {
                "type": type_,
                "status": "True",
                "reason": "CompletionsReached",
                "message": "",
                "lastProbeTime": now,
                "lastTransitionTime": now,
            }
            for type_ in ("SuccessCriteriaMet", "Complete")
        ]
        status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
        try:
            await self._client.patch(JOBS, job.metadata.key, {"status": status}, subresource="status")
        except (Conflict, NotFound):
            return

    async def _delete(self, workload: Workload) -> None:
        owner = workload.metadata.job_owner
        assert owner is not None
        targets: tuple[tuple[Resource[Any], Key], ...] = (
            (JOBS, Key(NAMESPACE, owner.name)),
            (WORKLOADS, workload.metadata.key),
        )
        for resource, key in targets:
            try:
                await self._client.delete(resource, key, propagation="Background")
            except NotFound:
                continue


def short_job(number: int, queue: str) -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": load.name_of(number), "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
