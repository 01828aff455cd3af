"""An API server that calls the webhooks over HTTPS through a Service."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.api.names.volcano import SUSPENDED
from quorate.kube.errors import ApiError, Forbidden, ServerError
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PLACEABLE_PODS, POD_GROUPS, untyped
from tests.webhooks.cluster import WebhookCluster, webhook_cluster

pytestmark = pytest.mark.slow

Json = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
OLDER_QUEUES = untyped("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", False)
NEWER_QUEUES = untyped("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", False)


def play(scenario: Callable[[WebhookCluster], Awaitable[None]], *frameworks: str) -> None:
    async def run() -> None:
        async with webhook_cluster(*frameworks) as world:
            await scenario(world)

    asyncio.run(run())


def a_job(name: str, queue: str = "", **spec: Any) -> Json:
    container = {"name": "main", "image": "busybox"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {QUEUE: queue} if queue else {}
    return {
        "metadata": {"name": name, "namespace": "team", "labels": labels},
        "spec": {"template": template, **spec},
    }


def test_only_a_job_with_a_queue_is_stored_suspended() -> None:
    async def scenario(world: WebhookCluster) -> None:
        assert (await world.client.create(JOBS, a_job("ours", "q"))).spec.suspend
        assert not (await world.client.create(JOBS, a_job("theirs"))).spec.suspend
        group = {
            "metadata": {"name": "g", "namespace": "team", "labels": {QUEUE: "q"}},
            "spec": {"minMember": 1},
        }
        made = await world.client.create(POD_GROUPS, group)
        assert made.metadata.annotations == {SUSPENDED: "true"}
        bare = {"metadata": {"name": "bare", "namespace": "team"}, "spec": {"minMember": 1}}
        assert not (await world.client.create(POD_GROUPS, bare)).metadata.annotations

        await world.stop()
        running = {"status": {"phase": "Running"}}
        assert (await world.client.patch(POD_GROUPS, made.metadata.key, running)).status.phase == "Running"
        with pytest.raises(ServerError):
            await world.client.patch(
                POD_GROUPS, made.metadata.key, {"metadata": {"labels": {QUEUE: "other"}}}
            )

    play(scenario, "batch/job", "batch.volcano.sh/job", "scheduling.volcano.sh/podgroup")


def test_a_job_without_a_queue_gets_the_default_queue() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await world.client.create(
            LOCAL_QUEUES,
            {"metadata": {"name": "default", "namespace": "team"}, "spec": {"clusterQueue": "q"}},
        )

        # The watch may deliver the queue to the webhooks after the first jobs.
        for at in range(1000):
            made = await world.client.create(JOBS, a_job(f"j{at}"))
            if made.spec.suspend:
                assert made.metadata.labels[QUEUE] == "default"
                return
            await asyncio.sleep(0.01)
        raise AssertionError("no job was put into the default queue")

    play(scenario)


def a_queue(lending_limit: int) -> Json:
    quota = {"name": "cpu", "nominalQuota": 4, "lendingLimit": lending_limit}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    return {"metadata": {"name": "research"}, "spec": {"cohortName": "c", "resourceGroups": [group]}}


def test_an_invalid_queue_is_refused_with_a_message() -> None:
    async def scenario(world: WebhookCluster) -> None:
        with pytest.raises(Forbidden) as refusal:
            await world.client.create(CLUSTER_QUEUES, a_queue(5))
        where = "spec.resourceGroups[0].flavors[0].resources[0].lendingLimit"
        finding = f"{where}: '5' is more than nominalQuota, at most 4"
        assert (
            refusal.value.message == f'admission webhook "vclusterqueue.kb.io" denied the request: {finding}'
        )
        assert refusal.value.details is not None
        assert [(cause.field, cause.message) for cause in refusal.value.details.causes] == [(where, finding)]

        made = await world.client.create(CLUSTER_QUEUES, a_queue(4))
        assert made.metadata.finalizers == ("kueue.x-k8s.io/resource-in-use",)
        with pytest.raises(Forbidden):
            await world.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": a_queue(5)["spec"]})

    play(scenario)


def test_a_v1beta1_client_reads_and_writes_v1beta1_fields() -> None:
    async def scenario(world: WebhookCluster) -> None:
        key = Key("", "research")
        spec = {"cohort": "c", "admissionChecks": ["a"], "namespaceSelector": {}}
        made = await world.client.create(OLDER_QUEUES, {"metadata": {"name": "research"}, "spec": spec})
        assert made["spec"]["cohort"] == "c"
        newer = await world.client.get(NEWER_QUEUES, key)
        assert newer["spec"]["cohortName"] == "c"
        checks = {"admissionChecks": [{"name": "a"}]}
        assert newer["spec"]["admissionChecksStrategy"] == checks
        await world.client.patch(NEWER_QUEUES, key, {"spec": {"cohortName": "d"}})
        (older,) = (await world.client.list(OLDER_QUEUES)).items
        assert (older["spec"]["cohort"], older["spec"]["admissionChecksStrategy"]) == ("d", checks)

    play(scenario)


def test_without_the_webhook_server_unmanaged_jobs_run_and_queued_jobs_are_refused() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await world.client.create(JOBS, a_job("before", "q"))
        await world.stop()
        assert not (await world.client.create(JOBS, a_job("theirs"))).spec.suspend
        await world.client.patch(JOBS, Key("team", "theirs"), {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(ServerError) as refusal:
            await world.client.create(JOBS, a_job("ours", "q"))
        assert 'failed calling webhook "mjob.kb.io"' in refusal.value.message
        await world.client.delete(JOBS, Key("team", "before"))

        await world.serve()
        assert (await world.client.create(JOBS, a_job("ours", "q"))).spec.suspend

    play(scenario)


def test_the_queue_of_a_running_job_cannot_change_or_be_removed() -> None:
    async def scenario(world: WebhookCluster) -> None:
        await world.client.create(JOBS, a_job("j", "q"))
        key = Key("team", "j")
        await world.client.patch(JOBS, key, {"spec": {"suspend": False}})
        for queue in ("other", None):
            with pytest.raises(ApiError) as refusal:
                await world.client.patch(JOBS, key, {"metadata": {"labels": {QUEUE: queue}}})
            assert "cannot change while the job is not suspended (it was q)" in refusal.value.message

    play(scenario)


def a_pod(name: str, queue: str = "") -> Json:
    labels = {QUEUE: queue} if queue else {}
    return {
        "metadata": {"name": name, "namespace": "team", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }


def test_only_a_pod_with_a_queue_is_stored_with_a_gate() -> None:
    async def scenario(world: WebhookCluster) -> None:
        ours = await world.client.create(PLACEABLE_PODS, a_pod("ours", "q"))
        assert ours.gates == ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
        await world.stop()
        assert (await world.client.create(PLACEABLE_PODS, a_pod("theirs"))).gates == ()
        with pytest.raises(ServerError):
            await world.client.create(PLACEABLE_PODS, a_pod("more", "q"))

    play(scenario, "batch/job", "pod")
