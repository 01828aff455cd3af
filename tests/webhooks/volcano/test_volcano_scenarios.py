"""An API server that calls the pod group webhooks over HTTPS and enforces quotas itself."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration.gang import PodGroupWebhooks
from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import default_scheduler_configuration, in_force
from quorate.api.volcano import Queue
from quorate.controllers.process import run_queueing
from quorate.kube.clock import WallClock
from quorate.kube.errors import ApiError, Forbidden, ServerError
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import CONFIG_MAPS, NAMESPACES, POD_GROUPS, PODS, QUEUES, RESOURCE_QUOTAS, untyped
from quorate.local.nodes import NodePool, run_nodes
from quorate.observe.replica import Replica
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import run_scheduler
from quorate.scheduler.scheduler import Options
from quorate.webhooks.volcano.volcano_routes import KUBE_SYSTEM
from tests.webhooks.cluster import OWN, WITHIN_S, WebhookCluster, webhook_cluster

pytestmark = pytest.mark.slow

Json = dict[str, Any]
JOBS = untyped("batch.volcano.sh", "v1alpha1", "jobs", "Job", True)
TEAM = "team"


def play(
    scenario: Callable[[WebhookCluster], Awaitable[None]],
    rules: PodGroupWebhooks = PodGroupWebhooks(),  # noqa: B008
) -> None:
    async def run() -> None:
        async with webhook_cluster(pod_groups=rules) as world:
            await world.client.create(QUEUES, {"metadata": {"name": "default"}})
            await scenario(world)

    asyncio.run(run())


async def a_quota(world: WebhookCluster, cpu: str) -> None:
    """Create a ResourceQuota with the status that the quota controller would write."""
    hard = {"cpu": cpu}
    await world.client.create(
        RESOURCE_QUOTAS, {"metadata": {"name": "rq", "namespace": TEAM}, "spec": {"hard": hard}}
    )
    status = {"hard": hard, "used": {"cpu": "0"}}
    await world.client.patch(RESOURCE_QUOTAS, Key(TEAM, "rq"), {"status": status}, subresource="status")


def a_group(name: str, cpu: str, **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"minMember": 1, "minResources": {"cpu": cpu}, **spec},
    }


def a_pod(name: str, cpu: str, group: str = "") -> Json:
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "namespace": TEAM, "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [container]},
    }


async def to_phase(world: WebhookCluster, group: str, phase: str) -> None:
    await world.client.patch(POD_GROUPS, Key(TEAM, group), {"status": {"phase": phase}})


async def refused_eventually(attempt: Callable[[int], Awaitable[Any]]) -> Forbidden:
    """Retry until an attempt is refused: the watches of the webhooks may lag."""
    async with asyncio.timeout(WITHIN_S):
        for at in count():
            try:
                await attempt(at)
            except Forbidden as refusal:
                return refusal
            await asyncio.sleep(0.01)
    raise AssertionError("never refused")


async def allowed_eventually(attempt: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                await attempt()
            except Forbidden:
                await asyncio.sleep(0.01)
            else:
                return


async def quota_is_cached(world: WebhookCluster) -> None:
    """Return once the webhooks have cached the quota."""

    async def probe(at: int) -> None:
        await world.client.create(POD_GROUPS, a_group(f"probe-{at}", "1000"))
        await world.client.delete(POD_GROUPS, Key(TEAM, f"probe-{at}"))

    await refused_eventually(probe)


def cause(refusal: Forbidden) -> str:
    (only,) = refusal.details.causes
    return only.reason


def test_a_group_above_the_quota_is_refused_with_the_limit() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await a_quota(world, "8")
        await quota_is_cached(world)
        with pytest.raises(Forbidden) as refusal:
            await world.client.create(POD_GROUPS, a_group("a", "9"))
        assert refusal.value.message == (
            'admission webhook "podgroupminresources.volcano.sh" denied the request: spec.minResources.cpu: '
            "'9' is more than quota rq ever allows, at most 8 of cpu (request less, or raise the quota)"
        )
        assert cause(refusal.value) == "MinResourcesExceedsQuota"

        await world.client.create(POD_GROUPS, a_group("a", "8"))
        await world.client.create(POD_GROUPS, a_group("b", "8"))  # it may be pending
        with pytest.raises(Forbidden):
            await world.client.patch(POD_GROUPS, Key(TEAM, "a"), {"spec": {"minResources": {"cpu": "9"}}})
        await world.client.patch(POD_GROUPS, Key(TEAM, "a"), {"spec": {"minResources": {"cpu": "7"}}})
        await to_phase(world, "a", "Inqueue")

    play(scenario)


def test_without_the_action_enqueue_groups_count_only_what_their_pods_use() -> None:
    """The scheduler then checks no group against quotas, so a group that is Inqueue reserves nothing."""

    async def scenario(world: WebhookCluster) -> None:
        await a_quota(world, "8")
        await quota_is_cached(world)
        await world.client.create(POD_GROUPS, a_group("a", "8"))
        await to_phase(world, "a", "Inqueue")
        refusal = await refused_eventually(lambda at: world.client.create(PODS, a_pod(f"probe-{at}", "1m")))
        assert cause(refusal) == "QuotaReserved"

        stored = {in_force.FILE: "actions: allocate, backfill"}
        await world.client.create(
            CONFIG_MAPS,
            {"metadata": {"name": in_force.NAME, "namespace": in_force.NAMESPACE}, "data": stored},
        )
        await allowed_eventually(lambda: world.client.create(PODS, a_pod("b", "1")))
        await world.client.create(POD_GROUPS, a_group("large", "9"))

    play(scenario)


def test_in_strict_mode_all_groups_together_stay_within_the_quota() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await a_quota(world, "8")
        await quota_is_cached(world)
        await world.client.create(POD_GROUPS, a_group("a", "5"))
        refusal = await refused_eventually(lambda at: world.client.create(POD_GROUPS, a_group(f"b{at}", "5")))
        assert cause(refusal) == "NamespaceQuotaExceeded"
        await to_phase(world, "a", "Completed")
        await allowed_eventually(lambda: world.client.create(POD_GROUPS, a_group("c", "3")))

    play(scenario, PodGroupWebhooks(min_resources="strict"))


def test_reserved_quota_is_for_pods_of_the_group() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await a_quota(world, "8")
        await world.client.create(POD_GROUPS, a_group("a", "6"))
        await world.client.create(PODS, a_pod("early", "1"))
        await quota_is_cached(world)
        await to_phase(world, "a", "Inqueue")
        refusal = await refused_eventually(
            lambda at: world.client.create(PODS, a_pod("web", "2"), dry_run=True)
        )
        assert cause(refusal) == "QuotaReserved"
        assert (
            "'2' of cpu is not free in quota rq, at most 1: of 8, 1 are used and 6 reserved"
            in refusal.message
        )
        await world.client.create(PODS, a_pod("small", "1"))

        # All quota is reserved, and the pods are created concurrently: no pod blocks another.
        members = [a_pod(f"a-{at}", "500m", "a") for at in range(12)]
        await asyncio.gather(*(world.client.create(PODS, member) for member in members))
        with pytest.raises(Forbidden, match=r"exceeded quota|not free in quota"):
            await world.client.create(PODS, a_pod("a-12", "500m", "a"))

    play(scenario)


def test_a_group_that_is_pending_again_releases_its_quota() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await a_quota(world, "8")
        await world.client.create(POD_GROUPS, a_group("a", "8"))
        await quota_is_cached(world)
        await to_phase(world, "a", "Inqueue")
        await refused_eventually(lambda at: world.client.create(PODS, a_pod("web", "1"), dry_run=True))
        await to_phase(world, "a", "Pending")
        await allowed_eventually(lambda: world.client.create(PODS, a_pod("web", "8")))

    play(scenario)


def test_pods_of_a_pending_group_may_be_refused() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await world.client.create(POD_GROUPS, a_group("a", "1"))
        refusal = await refused_eventually(
            lambda at: world.client.create(PODS, a_pod("a-0", "1", "a"), dry_run=True)
        )
        assert cause(refusal) == "PodGroupPending"
        await to_phase(world, "a", "Inqueue")
        await allowed_eventually(lambda: world.client.create(PODS, a_pod("a-0", "1", "a")))

    play(scenario, PodGroupWebhooks(reject_pods_of_pending_groups=True))


@asynccontextmanager
async def running_controllers(world: WebhookCluster) -> AsyncIterator[None]:
    """Create a node, and run the controllers and the scheduler."""
    client, clock, rng = world.client, WallClock(), random.Random(1)
    scheduling = DynamicConfiguration(default_scheduler_configuration())
    replica = Replica("standalone")
    parts = [
        asyncio.create_task(part)
        for part in (
            run_nodes(client, clock, [NodePool(1, cpu="4")], 1.0),
            run_queueing(client, clock, DynamicConfiguration(world.configuration), rng, replica),
            run_scheduler(client, clock, Options(), scheduling, SchedulerStatus(), None),
        )
    ]
    try:
        yield
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)


async def scheduled_pods(world: WebhookCluster, count: int) -> Sequence[Pod]:
    """Return the pods once ``count`` of them have a node."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            pods = (await world.client.list(PODS, TEAM)).items
            if sum(bool(pod.spec.node_name) for pod in pods) == count:
                return pods
            await asyncio.sleep(0.01)


async def cannot_become_a_parent(world: WebhookCluster, queue: str) -> None:
    """Return once the queue cannot get child queues, because its status has allocated resources."""

    def create_child(at: int) -> Awaitable[Queue]:
        return world.client.create(
            QUEUES, {"metadata": {"name": f"child-{at}"}, "spec": {"parent": queue}}, dry_run=True
        )

    assert "has pods that hold resources" in str(await refused_eventually(create_child))


@pytest.mark.parametrize("served", [True, False], ids=["gated", "without webhooks"])
def test_a_gang_is_scheduled_whole_although_its_pods_were_created_early(served: bool) -> None:
    async def scenario(world: WebhookCluster) -> None:
        if not served:
            await world.stop()
        await world.client.create(POD_GROUPS, a_group("a", "3", minMember=3))
        for at in range(2):
            await world.client.create(PODS, a_pod(f"a-{at}", "1", "a"))
        early = (await world.client.list(PODS, TEAM)).items
        gates = ["scheduling.quorate.dev/pod-group"] if served else []
        assert [[gate.name for gate in pod.spec.scheduling_gates] for pod in early] == [gates] * 2
        await world.stop()
        await world.client.create(PODS, a_pod("a-2", "1", "a"))  # the webhooks are not served
        async with running_controllers(world):
            bound = await scheduled_pods(world, 3)
            if served:
                await world.serve()
                await cannot_become_a_parent(world, "default")
        assert [pod.spec.scheduling_gates for pod in bound] == [()] * 3

    play(scenario, PodGroupWebhooks(gate_pods_of_pending_groups=True))


def test_without_the_webhook_server_everything_is_allowed_within_its_quota() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await a_quota(world, "8")
        await world.client.create(POD_GROUPS, a_group("a", "6"))
        await quota_is_cached(world)
        await to_phase(world, "a", "Inqueue")
        await world.stop()
        await world.client.create(POD_GROUPS, a_group("huge", "1000", queue="missing"))
        await world.client.create(PODS, a_pod("web", "8"))
        with pytest.raises(Forbidden, match="exceeded quota"):
            await world.client.create(PODS, a_pod("a-0", "1", "a"))
        await world.client.create(QUEUES, {"metadata": {"name": "q"}, "spec": {"parent": "missing"}})
        await world.client.delete(QUEUES, Key("", "default"))

    play(scenario)


def test_with_failure_policy_fail_exempt_requests_are_allowed() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await world.client.create(POD_GROUPS, a_group("a", "6"))
        await world.stop()
        with pytest.raises(ServerError):
            await world.client.create(PODS, a_pod("web", "1"))
        with pytest.raises(ServerError):
            await world.client.patch(POD_GROUPS, Key(TEAM, "a"), {"spec": {"minMember": 2}})
        await to_phase(world, "a", "Inqueue")
        daemon = a_pod("d", "1")
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
        daemon["metadata"]["ownerReferences"] = [owner]
        await world.client.create(PODS, daemon)
        for namespace in (KUBE_SYSTEM, OWN):
            system = a_pod("p", "1")
            system["metadata"]["namespace"] = namespace
            await world.client.create(PODS, system)

    play(scenario, PodGroupWebhooks(failure_policy="Fail"))


def test_queues_are_defaulted_and_validated() -> None:
    async def scenario(world: WebhookCluster) -> None:
        created = await world.client.create(QUEUES, {"metadata": {"name": "org"}})
        assert (created.spec.weight, created.spec.reclaimable) == (1, True)
        await world.client.create(
            QUEUES, {"metadata": {"name": "team"}, "spec": {"parent": "org", "capability": {"cpu": "4"}}}
        )
        with pytest.raises(Forbidden, match="'3' is less than that of queue team below, at least 4"):
            await world.client.patch(QUEUES, Key("", "org"), {"spec": {"capability": {"cpu": "3"}}})
        with pytest.raises(Forbidden, match="'org' is the parent of team"):
            await world.client.delete(QUEUES, Key("", "org"))
        with pytest.raises(Forbidden) as refusal:
            await world.client.delete(QUEUES, Key("", "default"))
        assert cause(refusal.value) == "ProtectedQueue"
        await world.client.delete(QUEUES, Key("", "team"))
        await world.client.delete(QUEUES, Key("", "org"))

    play(scenario)


def test_a_pod_group_gets_the_queue_of_its_namespace() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await world.client.create(QUEUES, {"metadata": {"name": "research"}})
        annotations = {"scheduling.volcano.sh/queue-name": "research"}
        await world.client.create(NAMESPACES, {"metadata": {"name": "lab", "annotations": annotations}})
        group = {"metadata": {"name": "a", "namespace": "lab"}, "spec": {"minMember": 1}}
        assert (await world.client.create(POD_GROUPS, group)).spec.queue == "research"
        with pytest.raises(Forbidden) as refusal:
            await world.client.create(POD_GROUPS, a_group("b", "1", queue="x"))
        assert cause(refusal.value) == "QueueNotOpen"

    play(scenario)


def test_a_volcano_job_is_defaulted_and_only_its_replicas_may_change() -> None:
    async def scenario(world: WebhookCluster) -> None:
        template = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}
        job = {
            "metadata": {"name": "j", "namespace": TEAM},
            "spec": {
                "tasks": [{"replicas": 2, "template": template}],
                "plugins": {"mpi": ["--master=default0"]},
            },
        }
        created = await world.client.create(JOBS, job)
        spec = created["spec"]
        assert (spec["queue"], spec["minAvailable"], spec["tasks"][0]["name"]) == ("default", 2, "default0")
        assert sorted(spec["plugins"]) == ["mpi", "ssh", "svc"]

        grown = codec.decode(dict[str, Any], codec.encode(created))
        grown["spec"]["tasks"][0]["replicas"] = 5
        await world.client.patch(JOBS, Key(TEAM, "j"), {"spec": grown["spec"]})
        with pytest.raises(ApiError, match=r"spec\.queue: 'other' cannot change"):
            await world.client.patch(JOBS, Key(TEAM, "j"), {"spec": {"queue": "other"}})

    play(scenario)
