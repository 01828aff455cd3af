"""JobSets in native pod groups: their own controller, and the programs of Kubernetes, which are killed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.meta import Key
from quorate.api.native_groups import GangPolicy
from quorate.kube.resources import CLUSTER_QUEUES, Json
from quorate.kube.rest.credentials import Token
from quorate.local.nodes import NodePool
from tests.clients.operators import not_built_reason, running
from tests.e2e.job_sets import QUEUE_LABEL, SET, SET_NAME, create_job_set, pod_template
from tests.e2e.real_server import kubeconfig_of
from tests.e2e.stock_kubernetes import (
    create_group,
    install_policy,
    native_groups,
    restart_all,
    run_stock_kubernetes,
)
from tests.e2e.test_native_groups_on_kubernetes import until_placed, workload_count
from tests.e2e.test_native_pod_groups import set_quota
from tests.e2e.test_pods import FOREVER, pods_of
from tests.e2e.topologies import RACK, create_host, create_topology
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

OPERATOR = "jobset"
FRAMEWORKS = Integrations(frameworks=("batch/job", "pod", SET_NAME))
QUEUED = Configuration(integrations=FRAMEWORKS)
TWO_NODES = NodePool(2, cpu="4")
GROUP = "ring"
MEMBER: Json = {"schedulingGroup": {"podGroupName": GROUP}}
FOUR: Json = {"gang": {"minCount": 4}}


@pytest.fixture(autouse=True)
def minor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the stories on Kubernetes, and return its minor version."""
    if problem := not_built_reason(OPERATOR):
        pytest.skip(problem)
    return run_stock_kubernetes(request.config, monkeypatch, with_controllers=True)


@asynccontextmanager
async def controller(story: World, directory: Path) -> AsyncIterator[None]:
    """Run the controller of JobSets beside the cluster of a story."""
    cluster = story.client.config
    assert isinstance(cluster.credentials, Token), "the administrator has a token"
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_bytes(codec.encode(kubeconfig_of(cluster.server, cluster.credentials.token)))
    with ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, running(OPERATOR, kubeconfig))
        yield


def run(
    directory: Path,
    story: Callable[[World], Awaitable[None]],
    configuration: Configuration = QUEUED,
    fleet: NodePool | None = TWO_NODES,
) -> None:
    """Run ``story`` with three cpus of quota."""

    async def beside(world: World) -> None:
        async with controller(world, directory):
            await world.queues("3")
            await world.start_queueing(configuration)
            await story(world)

    run_story(beside, fleet=fleet)


async def assert_in_group(story: World, name: str) -> None:
    members = [member.spec.scheduling_group for member in (await pods_of(story)).values()]
    assert [member.pod_group_name for member in members if member] == [name] * 4
    assert await workload_count(story) == 1


@pytest.mark.parametrize("pod_labels", [{}, QUEUE_LABEL], ids=["label of the set", "and of the pods"])
def test_a_job_set_in_a_group_is_counted_once(pod_labels: Json, tmp_path: Path) -> None:
    async def story(story: World) -> None:
        await create_group(story.client, GROUP, FOUR)
        await create_job_set(story, pod_template("5s", pod_labels, **MEMBER), QUEUE_LABEL)
        waiting = await story.until_condition("train", "QuotaReserved", status="False")
        assert [pod_set.count for pod_set in waiting.spec.pod_sets] == [4]
        await restart_all(story, QUEUED)
        assert await pods_of(story) == {}
        await set_quota(story, "4")
        await until_placed(story, 4)
        await assert_in_group(story, GROUP)
        await restart_all(story, QUEUED)
        await story.until_finished("train")

    run(tmp_path, story)


def test_a_job_set_that_is_evicted_starts_again_in_its_group(tmp_path: Path) -> None:
    async def story(story: World) -> None:
        await create_group(story.client, GROUP, FOUR)
        await set_quota(story, "4")
        await create_job_set(story, pod_template(FOREVER, **MEMBER), QUEUE_LABEL)
        before = {member.metadata.uid for member in await until_placed(story, 4)}
        queue = Key("", "research")
        await story.client.patch(CLUSTER_QUEUES, queue, {"spec": {"stopPolicy": "HoldAndDrain"}})

        async def has_no_pods() -> bool:
            return not await pods_of(story)

        await story.until("its pods are gone", has_no_pods)
        assert (await story.client.get(SET, Key(NAMESPACE, "train"))).spec["suspend"]
        await restart_all(story, QUEUED)
        await story.client.patch(CLUSTER_QUEUES, queue, {"spec": {"stopPolicy": "None"}})
        assert before.isdisjoint(member.metadata.uid for member in await until_placed(story, 4))
        await assert_in_group(story, GROUP)

    run(tmp_path, story)


def test_the_groups_that_kubernetes_makes_for_the_jobs_of_a_set_are_not_counted(
    tmp_path: Path, minor: int
) -> None:
    """The Job controller of 1.36 makes a gang of each Job, that of 1.37 none of Jobs with an owner."""

    async def story(story: World) -> None:
        await set_quota(story, "4")
        await create_job_set(story, pod_template("3s"), QUEUE_LABEL)
        pods = await until_placed(story, 4)
        names = {
            member.spec.scheduling_group.pod_group_name for member in pods if member.spec.scheduling_group
        }
        assert names == {group.metadata.name for group in await native_groups(story.client)}
        assert len(names) == (2 if minor == 36 else 0)
        assert await workload_count(story) == 1
        await story.until_finished("train")

    run(tmp_path, story)


def test_a_job_set_starts_as_one_native_gang(tmp_path: Path) -> None:
    configuration = Configuration(integrations=FRAMEWORKS, native_gangs=True)

    async def story(story: World) -> None:
        await install_policy(story.client)
        await set_quota(story, "4")
        await create_job_set(story, pod_template("3s"), QUEUE_LABEL)
        await until_placed(story, 4)
        groups = await native_groups(story.client)
        (gang,) = [group for group in groups if group.spec.scheduling_policy.gang == GangPolicy(min_count=4)]
        await assert_in_group(story, gang.metadata.name)
        await story.until_finished("train")

    run(tmp_path, story, configuration)


def test_a_leader_and_its_workers_get_places_where_their_group_may_be(tmp_path: Path) -> None:
    """The leader alone would fill the small rack, and kube-scheduler wants one rack for all pods."""

    async def story(story: World) -> None:
        await create_topology(story, "100")
        for name, rack, cpu in (("a", "large", "4"), ("b", "large", "4"), ("c", "small", "1")):
            await create_host(story, name, rack, cpu)
        one_rack = {"topology": [{"key": RACK}]}
        await create_group(story.client, GROUP, {"gang": {"minCount": 5}}, schedulingConstraints=one_rack)
        labels = {"kueue.x-k8s.io/queue-name": "tas"}
        await create_job_set(story, pod_template(FOREVER, **MEMBER), labels, has_leader=True)
        assert {member.node_name for member in await until_placed(story, 5)} == {"a", "b"}

    run(tmp_path, story, fleet=None)
