"""The witness on a live cluster: it names the pods that run outside of quota, with its installed roles."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client import generate_latest

from quorate.api.configuration import Configuration
from quorate.api.events import Event
from quorate.api.meta import Key
from quorate.install import witness as manifests
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.events import EventRecorder
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, JOBS
from quorate.local.nodes import NodePool
from quorate.witness.metrics import COMPONENT, WitnessEvents, WitnessMetrics
from quorate.witness.process import Options, run_witness
from quorate.witness.report import Report
from tests.e2e.service_accounts import as_account
from tests.e2e.world import NAMESPACE, WITHIN_S, World, run_story

pytestmark = pytest.mark.slow

SYSTEM = "kueue-system"
FLEET = NodePool(1, cpu="16")
GRACE_S = 0.1


@asynccontextmanager
async def watching(client: Client) -> AsyncIterator[WitnessMetrics]:
    """Run a witness, with its events and metrics; it has reported once.

    What was reserved before the end of the grace after its first report is excused.
    """
    clock = WallClock()
    metrics, recorder = WitnessMetrics(), EventRecorder(client, clock, COMPONENT)
    events, has_reported = WitnessEvents(recorder, clock), asyncio.Event()

    def on_report(report: Report) -> None:
        has_reported.set()
        metrics.reported(report)
        events.reported(report)

    resources = Configuration().resources
    running = asyncio.gather(
        run_witness(client, clock, Options(GRACE_S, 0.05), lambda: resources, on_report), recorder.run()
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            await has_reported.wait()
        yield metrics
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def shown(metrics: WitnessMetrics, *lines: str) -> Callable[[], Awaitable[bool]]:
    async def find() -> bool:
        exposed = generate_latest(metrics.registry).decode().splitlines()
        return all(line in exposed for line in lines)

    return find


def told(world: World, reason: str) -> Callable[[], Awaitable[Event | None]]:
    async def find() -> Event | None:
        events = (await world.client.list(EVENTS)).items
        return next((event for event in events if event.reason == reason), None)

    return find


def second_is_over(clock: WallClock) -> Callable[[], Awaitable[bool]]:
    """Return whether what happens now has a later time of whole seconds than the end of the grace."""
    begun = int(clock.now() + GRACE_S)

    async def find() -> bool:
        return int(clock.now()) > begun

    return find


CPU = 'flavor="default",kind="ClusterQueue",name="research",resource="cpu"'
CPU_EXCESS = 'flavor="default",kind="ClusterQueue",name="research",reason="OverLimit",resource="cpu"'
LASTING = 'quorate_witness_lasting_differences{reason="OverLimit"}'


@pytest.mark.provokes("OverLimit")
def test_pods_that_a_user_adds_to_an_admitted_job_are_named() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        async with (
            as_account(world.client, manifests.ACCOUNT, SYSTEM, manifests.roles(SYSTEM)) as client,
            watching(client) as metrics,
        ):
            await world.until("the second of the start is over", second_is_over(WallClock()))
            await world.job("parent", pods=2, runs="1h")
            await world.until_admitted("parent")
            await world.until("two cpus are used", shown(metrics, f"quorate_witness_used{{{CPU}}} 2.0"))
            parent = (await world.get_job("parent")).metadata
            owner = {
                "apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": parent.uid,
                "controller": True,
            }  # fmt: skip
            container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "3"}}}
            simulated = {"simulate.quorate.dev/duration": "1h"}
            template = {
                "metadata": {"annotations": simulated},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            }
            child = {
                "metadata": {"name": "child", "ownerReferences": [owner]},
                "spec": {"template": template},
            }
            await world.client.create(JOBS, child, NAMESPACE)
            event = await world.until("the event", told(world, "OverLimit"))
            about = event.regarding
            assert about is not None
            assert (about.kind, about.name) == ("ClusterQueue", "research")
            assert event.note.startswith(
                "running pods use 5 cpu of flavor default, 3 more than the limit of 2: default/"
            )
            assert "default/child-" in event.note
            excess = f"quorate_witness_excess{{{CPU_EXCESS}}} 3.0"
            await world.until("the metrics", shown(metrics, excess, f"{LASTING} 1.0"))
            await world.client.delete(JOBS, Key(NAMESPACE, "child"))
            await world.until("the difference ends", shown(metrics, f"{LASTING} 0.0"))
            assert client.forbidden == []

    run_story(story, Configuration(), FLEET)


def test_a_lowered_quota_has_its_own_reason() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        async with watching(world.client) as metrics:
            await world.job("job", pods=2, runs="1h")
            await world.until_admitted("job")
            await world.until("two cpus are used", shown(metrics, f"quorate_witness_used{{{CPU}}} 2.0"))
            quotas = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "1"}]}
            groups = [{"coveredResources": ["cpu"], "flavors": [quotas]}]
            lowered = {"spec": {"resourceGroups": groups}}
            await world.client.patch(CLUSTER_QUEUES, Key("", "research"), lowered)
            event = await world.until("the event", told(world, "LimitLowered"))
            assert event.type == "Normal"

    run_story(story, Configuration(), FLEET)
