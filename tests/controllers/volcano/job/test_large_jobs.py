"""The work for a job is proportional to its size, bounded, and beside the event loop if it is large."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import FrameType
from typing import Any

import msgspec
import pytest

from quorate.api.limits import LARGE_BYTES
from quorate.api.meta import at_epoch
from quorate.api.volcano.job import Job, with_defaults
from quorate.controllers.limits import JOB_WRITES_IN_FLIGHT, MAX_HOSTS, POD_BYTES
from quorate.controllers.volcano.job.assume_cache import AssumeCache
from quorate.controllers.volcano.job.job_pod_group import build_pod_group
from quorate.controllers.volcano.job.job_status import job_size
from quorate.controllers.volcano.job.job_sync import NewPod
from quorate.controllers.volcano.job.lifecycle_policies import requested_action
from quorate.controllers.volcano.job.plugins import plugins_of
from quorate.controllers.volcano.job.plugins.interface import hosts_of
from quorate.controllers.volcano.job.pod_builder import build_pods
from quorate.controllers.volcano.job.pod_creator import PodCreator
from quorate.controllers.volcano.job.pod_manifest import PodManifest, PodTooLarge
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.computations import Computations
from quorate.kube.resources import PLACEABLE_PODS
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.recorder import Recorder
from tests.controllers.volcano.job.notation import NOW, a_job, job_pods
from tests.local.clusters import api_server


def job_with(*, tasks: int = 1, replicas: int = 1, containers: int = 1, volumes: int = 0, **spec: Any) -> Job:
    pod = {
        "containers": [
            {"name": f"c{n}", "image": "trainer", "resources": {"requests": {"cpu": f"{n}m"}}}
            for n in range(containers)
        ]
    }
    body = [{"name": f"t{n}", "replicas": replicas, "template": {"spec": pod}} for n in range(tasks)]
    return with_defaults(a_job(body, volumes=[{"mountPath": f"/mnt/{n}"} for n in range(volumes)], **spec))


def pods_of(job: Job, count: int = 1, most_bytes: int = 2**40) -> list[PodManifest | PodTooLarge]:
    return build_pods(job, [NewPod("t0", index) for index in range(count)], plugins_of(job)[0], most_bytes)


def calls_of(function: Callable[[], object]) -> int:
    """Return how many calls of functions, in Python and C, a function takes."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    function()  # fills the caches
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


PLUGINS: dict[str, list[str]] = {"env": [], "svc": [], "ssh": [], "pytorch": ["--master=t0", "--worker=t1"]}


@pytest.mark.parametrize(
    ("jobs", "work"),
    [
        pytest.param(
            [job_with(containers=n, volumes=n) for n in (50, 100)],
            pods_of, id="pods of volumes and containers",
        ),
        pytest.param(
            [job_with(tasks=n, containers=n // 10, plugins=PLUGINS) for n in (50, 100)],
            pods_of, id="pods of plugins, tasks and containers",
        ),
        pytest.param(
            [job_with(replicas=n, plugins=PLUGINS) for n in (50, 100)],
            lambda job: pods_of(job, job.spec.tasks[0].replicas), id="pods of replicas",
        ),
        pytest.param(
            [job_with(tasks=n) for n in (50, 100)],
            lambda job: build_pods(
                job, [NewPod(task.name, 0) for task in job.spec.tasks], plugins_of(job)[0], 2**40
            ),
            id="pods of tasks",
        ),
        pytest.param(
            [job_with(containers=n) for n in (50, 100)],
            lambda job: build_pod_group(job, {}), id="pod group of containers",
        ),
    ],
)  # fmt: skip
def test_a_job_of_twice_the_size_takes_twice_the_work(jobs: list[Job], work: Callable[[Job], object]) -> None:
    one, other = (calls_of(lambda job=job: work(job)) for job in jobs)  # type: ignore[misc]
    assert other <= 2.1 * one


def test_twice_the_policies_and_twice_the_pods_take_twice_the_work() -> None:
    def request_action(number: int) -> None:
        policies = [{"exitCode": 1000 + code, "action": "AbortJob"} for code in range(number)]
        job = with_defaults(a_job(f"worker={number}", phase="Running", policies=policies))
        pods = job_pods(f"worker: {' '.join(['failed=1'] * number)}")
        assert requested_action(job, pods, (), None, NOW) == (None, None)

    assert calls_of(partial(request_action, 100)) <= 2.2 * calls_of(partial(request_action, 50))


def test_each_container_gets_all_mounts_at_once() -> None:
    writes: list[str] = []

    class Container(dict[str, Any]):
        def __setitem__(self, field: str, value: Any) -> None:
            writes.append(field)
            super().__setitem__(field, value)

    pod = PodManifest({"spec": {"containers": [Container(), Container()]}}, 0)
    names = [{"name": str(number)} for number in range(500)]
    pod.add_volumes(names, names, init=False)
    assert writes == ["volumeMounts", "volumeMounts"]
    assert pod.spec["volumes"] == pod.spec["containers"][1]["volumeMounts"] == names


def test_pods_of_a_task_share_what_is_equal() -> None:
    first, second = pods_of(job_with(volumes=2, replicas=2, plugins={"env": []}), 2)
    assert isinstance(first, PodManifest)
    assert isinstance(second, PodManifest)
    assert first.spec["volumes"] is second.spec["volumes"]
    (one,), (other,) = first.spec["containers"], second.spec["containers"]
    assert one["volumeMounts"] is other["volumeMounts"]
    assert [each["value"] for each in (*one["env"], *other["env"])] == ["0", "0", "1", "1"]


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(job_with(containers=2000, volumes=2000), id="volumes in all containers"),
        pytest.param(job_with(tasks=500, containers=200, plugins={"svc": []}), id="variables of all tasks"),
        pytest.param(
            job_with(replicas=50_000, containers=10, plugins={"tensorflow": ["--worker=t0"]}),
            id="hosts of all replicas",
        ),
    ],
)
def test_a_pod_that_no_server_accepts_is_not_built(job: Job) -> None:
    (pod,) = pods_of(job, 3)
    assert isinstance(pod, PodTooLarge)
    assert str(pod) == (
        f"spec.tasks[t0]: a pod with the volumes and plugins of the job would have more than {POD_BYTES} "
        "bytes, the most that an API server reads (use fewer containers, volumes or tasks)"
    )


def test_the_size_of_a_pod_is_known_without_encoding_it() -> None:
    (pod,) = pods_of(job_with(tasks=20, containers=20, volumes=20, plugins=PLUGINS))
    assert isinstance(pod, PodManifest)
    encoded = len(msgspec.json.encode(pod.body))
    assert 0.9 * encoded < pod.size < 1.1 * encoded


@pytest.mark.parametrize(("most_bytes", "want"), [(0, 1), (20_000, 2), (2**40, 5)])
def test_pods_are_built_up_to_a_number_of_bytes(most_bytes: int, want: int) -> None:
    job = job_with(containers=150, replicas=5)  # a pod of 10 kB
    assert 10_000 < len(job.spec.tasks[0].template) < 20_000
    assert len(pods_of(job, 5, most_bytes)) == want


@pytest.mark.parametrize(
    ("job", "pods", "is_large"),
    [
        pytest.param(job_with(), 10, False, id="small"),
        pytest.param(job_with(containers=1000), 0, True, id="many containers"),
        pytest.param(job_with(volumes=3000), 0, True, id="many volumes"),
        pytest.param(job_with(tasks=700), 0, True, id="many tasks"),
        pytest.param(job_with(replicas=600), 0, True, id="many replicas"),
        pytest.param(job_with(), 600, True, id="many pods"),
        pytest.param(job_with(policies=[{"event": "*", "exitCode": n} for n in range(4000)]), 0, True,
                     id="many policies"),
    ],
)  # fmt: skip
def test_a_job_is_large_by_whatever_takes_time(job: Job, pods: int, is_large: bool) -> None:
    assert (job_size(job, pods) >= LARGE_BYTES) == is_large


class ObservedComputations(Computations):
    """Computations that keep what ran beside the event loop and what ran in it."""

    def __init__(self) -> None:
        super().__init__()
        self.beside: set[str] = set()
        self.inside: set[str] = set()

    async def run(self, size: int, function: Callable[..., Any], *arguments: Any) -> Any:
        (self.inside if size < LARGE_BYTES else self.beside).add(function.__name__)
        return await super().run(size, function, *arguments)


@asynccontextmanager
async def a_creator(
    computations: Computations, requests: list[tuple[str, int]]
) -> AsyncIterator[tuple[PodCreator, Client]]:
    """Yield a creator on a server; ``requests`` for pods are added with their method and response code."""

    def on_response(verb: str, path: str, code: int, seconds: float) -> None:
        if path.endswith("/pods"):
            requests.append((verb, code))

    async with (
        api_server() as server,
        Client(
            RestConfig(server.url, credentials=Token(server.token)), random.Random(1), on_response=on_response
        ) as client,
    ):
        record = Recorder(lambda: "leader", CustomLabels()).record
        clock = WallClock()
        yield PodCreator(client, clock, computations, AssumeCache(clock), record), client


def stored(job: Job, generation: int = 1) -> Job:
    metadata = msgspec.structs.replace(job.metadata, generation=generation, creation_timestamp=at_epoch(NOW))
    return msgspec.structs.replace(job, metadata=metadata)


@pytest.mark.slow
def test_pods_of_a_large_job_are_built_beside_the_event_loop() -> None:
    computations = ObservedComputations()
    job = stored(job_with(containers=1000, replicas=2, plugins={"svc": []}))

    async def story() -> None:
        async with a_creator(computations, []) as (creator, client):
            pods = [NewPod("t0", index) for index in range(2)]
            assert await creator.create(job, pods, lambda: True) == (None, ())
            assert len((await client.list(PLACEABLE_PODS, "default")).items) == 2

    asyncio.run(story())
    assert computations.inside == set()
    assert computations.beside == {"plugins_of", "_needed_objects", "_pod_bodies"}


@pytest.mark.slow
def test_pods_that_the_server_refuses_by_size_are_retried_with_backoff_only() -> None:
    requests: list[tuple[str, int]] = []
    variable = {"name": "A", "value": "x" * 1_600_000}
    template = {"spec": {"containers": [{"name": "a", "image": "trainer", "env": [variable]}]}}
    job = with_defaults(a_job([{"name": "t0", "replicas": JOB_WRITES_IN_FLIGHT, "template": template}]))

    async def story() -> None:
        async with a_creator(Computations(), requests) as (creator, _):
            pods = [NewPod("t0", index) for index in range(JOB_WRITES_IN_FLIGHT)]
            retry_at, problems = await creator.create(stored(job), pods, lambda: True)
            assert problems == ("etcdserver: request is too large",)
            assert await creator.create(stored(job), pods, lambda: True) == (retry_at, problems)
            assert requests == [("POST", 500)]  # one pod fills a batch
            later, _ = await creator.create(stored(job, generation=2), pods, lambda: True)
            assert retry_at is not None
            assert later is not None
            assert later > retry_at
            assert len(requests) == 2

    asyncio.run(story())


def test_a_job_with_any_number_of_replicas_has_no_more_hosts_than_an_object_holds() -> None:
    job = job_with(replicas=2**31 - 1)
    assert len(hosts_of(job, job.spec.tasks[0])) == MAX_HOSTS
