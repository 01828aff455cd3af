"""Gangs on the stock scheduler: stories for ``--real`` with the programs of Kubernetes 1.36 or newer."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.api.native_groups import GangPolicy, find_scheduled
from quorate.controllers.native_groups import NativeGangsUnavailable
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, PLACEABLE_PODS
from quorate.local.nodes import NodePool
from tests.e2e import world
from tests.e2e.real_server import assets, control_plane, kube_scheduler
from tests.e2e.stock_kubernetes import install_policy, native_groups, run_stock_kubernetes
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

NATIVE = Configuration(native_gangs=True)
TWO_NODES = NodePool(2, cpu="4")


@pytest.fixture(autouse=True)
def servers_with_native_groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    run_stock_kubernetes(request.config, monkeypatch, with_controllers=False)


async def nodes_of(story: World, job: str) -> list[str]:
    """Return the nodes of the job's pods; empty for a pod without a node."""
    pods = (await story.client.list(PLACEABLE_PODS, NAMESPACE)).items
    return [pod.node_name for pod in pods if pod.metadata.labels.get("job-name") == job]


def test_two_jobs_that_do_not_fit_together_start_one_after_the_other() -> None:
    """Each takes six of eight cpus: without groups both could get some nodes and wait for ever."""

    async def story(story: World) -> None:
        await install_policy(story.client)
        await story.queues("100")
        await story.start_queueing(NATIVE)
        for job in ("a", "b"):
            await story.job(job, pods=3, cpu="2", runs="5s")
        await story.until_admitted("a", "b")

        async def one_runs_whole() -> bool:
            placed = {job: await nodes_of(story, job) for job in ("a", "b")}
            fewer, more = sorted(sum(map(bool, nodes)) for nodes in placed.values())
            assert fewer in (0, 3), f"parts of both gangs have nodes: {placed}"
            return (fewer, more) == (0, 3)

        await story.until("one of both runs, the other waits whole", one_runs_whole)
        groups = await native_groups(story.client)
        assert [group.spec.scheduling_policy.gang for group in groups] == [GangPolicy(min_count=3)] * 2
        await story.until_finished("a", "b")

    run_story(story, fleet=TWO_NODES)


def test_a_job_that_is_evicted_starts_again_with_its_group() -> None:
    async def story(story: World) -> None:
        await install_policy(story.client)
        await story.queues("100")
        await story.start_queueing(NATIVE)
        await story.job("a", pods=3, cpu="2", runs="60s")

        async def runs_whole() -> bool:
            return sum(map(bool, await nodes_of(story, "a"))) == 3

        await story.until("it runs", runs_whole)
        body = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await story.client.patch(CLUSTER_QUEUES, Key("", "research"), body)

        async def is_stopped() -> bool:
            job = await story.get_job("a")
            labels = bytes(job.spec.template)
            return (
                job.spec.suspend and not await nodes_of(story, "a") and b"quorate.dev/pod-group" not in labels
            )

        await story.until("it is stopped, and its template restored", is_stopped)
        await story.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": {"stopPolicy": "None"}})
        await story.until("it runs again", runs_whole)
        (group,) = await native_groups(story.client)
        scheduled = find_scheduled(group.status.conditions)
        assert scheduled is not None
        assert scheduled.status == "True"

    run_story(story, fleet=TWO_NODES)


def test_without_the_policy_the_job_waits_and_says_so() -> None:
    async def story(story: World) -> None:
        await story.queues("100")
        await story.start_queueing(NATIVE)
        await story.job("a", pods=3, cpu="1")

        async def is_told() -> bool:
            events = (await story.client.list(EVENTS, NAMESPACE)).items
            return any("native-gangs.yaml" in event.note for event in events)

        await story.until("an event names the manifest", is_told)
        assert (await story.get_job("a")).spec.suspend
        await install_policy(story.client)
        await story.until_finished("a")

    run_story(story, fleet=TWO_NODES)


def test_the_controllers_refuse_the_configuration_where_no_groups_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(world, "SERVER", lambda: control_plane(assets()))
    monkeypatch.setattr(world, "SCHEDULER", lambda cluster: kube_scheduler(assets(), cluster))

    async def story(story: World) -> None:
        await story.start_queueing(NATIVE)

    refusal = pytest.RaisesExc(NativeGangsUnavailable, match="gangs: native needs pod groups of Kubernetes")
    with pytest.RaisesGroup(refusal, flatten_subgroups=True):
        run_story(story)
