"""An API server that asks the webhooks, over HTTPS and by way of a Service."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.controllers.pods.queued_pod import PODS
from quorate.kube.errors import ApiError, Forbidden, ServerError
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, untyped
from tests.webhooks.cluster import Webhooked, webhooked

pytestmark = pytest.mark.slow

Json = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
OLDER_QUEUES = untyped("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", False)
NEWER_QUEUES = untyped("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", False)


def play(story: Callable[[Webhooked], Awaitable[None]], *frameworks: str) -> None:
    async def run() -> None:
        async with webhooked(*frameworks) as world:
            await story(world)

    asyncio.run(run())


def a_job(name: str, queue: str = "", **spec: Any) -> Json:
    container = {"name": "main", "image": "busybox"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {QUEUE: queue} if queue else {}
    return {
        "metadata": {"name": name, "namespace": "team", "labels": labels},
        "spec": {"template": template, **spec},
    }


def test_a_job_of_a_queue_is_stored_suspended_and_one_of_none_is_not() -> None:
    async def story(world: Webhooked) -> None:
        assert (await world.client.create(JOBS, a_job("ours", "q"))).spec.suspend
        assert not (await world.client.create(JOBS, a_job("theirs"))).spec.suspend

    play(story)


def test_a_job_of_no_queue_is_put_into_the_default_one() -> None:
    async def story(world: Webhooked) -> None:
        await world.client.create(
            LOCAL_QUEUES,
            {"metadata": {"name": "default", "namespace": "team"}, "spec": {"clusterQueue": "q"}},
        )

        # The webhooks hear of the queue by a watch, so the first jobs may come too early.
        for at in range(1000):
            made = await world.client.create(JOBS, a_job(f"j{at}"))
            if made.spec.suspend:
                assert made.metadata.labels[QUEUE] == "default"
                return
            await asyncio.sleep(0.01)
        raise AssertionError("no job was put into the default queue")

    play(story)


def a_queue(lending_limit: int) -> Json:
    quota = {"name": "cpu", "nominalQuota": 4, "lendingLimit": lending_limit}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    return {"metadata": {"name": "research"}, "spec": {"cohortName": "c", "resourceGroups": [group]}}


def test_a_queue_with_a_mistake_is_refused_in_words() -> None:
    async def story(world: Webhooked) -> None:
        with pytest.raises(Forbidden) as refusal:
            await world.client.create(CLUSTER_QUEUES, a_queue(5))
        where = "spec.resourceGroups[0].flavors[0].resources[0].lendingLimit"
        said = f"{where}: '5' is more than nominalQuota, at most 4"
        assert refusal.value.message == f'admission webhook "vclusterqueue.kb.io" denied the request: {said}'
        assert refusal.value.details is not None
        assert [(cause.field, cause.message) for cause in refusal.value.details.causes] == [(where, said)]

        made = await world.client.create(CLUSTER_QUEUES, a_queue(4))
        assert made.metadata.finalizers == ("kueue.x-k8s.io/resource-in-use",)
        with pytest.raises(Forbidden):
            await world.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": a_queue(5)["spec"]})

    play(story)


def test_a_client_of_the_older_version_reads_and_writes_its_own_fields() -> None:
    async def story(world: Webhooked) -> None:
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

    play(story)


def test_while_nobody_answers_unmanaged_work_goes_on_and_queued_work_waits() -> None:
    async def story(world: Webhooked) -> None:
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

    play(story)


def test_the_queue_of_a_running_job_cannot_change_nor_can_it_be_left() -> None:
    async def story(world: Webhooked) -> None:
        await world.client.create(JOBS, a_job("j", "q"))
        key = Key("team", "j")
        await world.client.patch(JOBS, key, {"spec": {"suspend": False}})
        for queue in ("other", None):
            with pytest.raises(ApiError) as refusal:
                await world.client.patch(JOBS, key, {"metadata": {"labels": {QUEUE: queue}}})
            assert "cannot change while the job is not suspended (it was q)" in refusal.value.message

    play(story)


def a_pod(name: str, queue: str = "") -> Json:
    labels = {QUEUE: queue} if queue else {}
    return {
        "metadata": {"name": name, "namespace": "team", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }


def test_a_pod_of_a_queue_is_stored_with_a_gate_and_others_do_not_depend_on_us() -> None:
    async def story(world: Webhooked) -> None:
        ours = await world.client.create(PODS, a_pod("ours", "q"))
        assert ours.gates == ("kueue.x-k8s.io/admission",)
        await world.stop()
        assert (await world.client.create(PODS, a_pod("theirs"))).gates == ()
        with pytest.raises(ServerError):
            await world.client.create(PODS, a_pod("more", "q"))

    play(story, "batch/job", "pod")
