"""Jobs request topologies of their workloads; an invalid request leads to an event, and can be corrected."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration import default_configuration
from quorate.api.core import SchedulingGate
from quorate.api.meta import Key
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.controllers.jobframework.podset_info import PodSetInfo
from quorate.controllers.jobs.batch import BatchJob
from quorate.kube.resources import EVENTS, JOBS, PODS
from tests.e2e import shared_clusters
from tests.e2e.world import NAMESPACE, World, run_story, running_cluster

pytestmark = pytest.mark.slow

REQUIRED = "kueue.x-k8s.io/podset-required-topology"
INDEX = "batch.kubernetes.io/job-completion-index"


def test_a_workload_requests_the_topology_of_its_job() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("plain")
        await world.until_admitted("plain")
        assert await requested(world, "plain") == {"podIndexLabel": INDEX}

        await create_in(world, "placed", "rack")
        await world.until_condition("placed", "QuotaReserved", "False", "WaitingForQuota")
        assert await requested(world, "placed") == {"podIndexLabel": INDEX, "required": "rack"}

        await create_in(world, "invalid", "not a label")

        async def reported() -> bool:
            found = (await world.client.list(EVENTS, NAMESPACE)).items
            return any(
                each.regarding is not None
                and each.regarding.name == "invalid"
                and "'not a label' is not the key" in each.note
                for each in found
                if each.reason == "ErrWorkloadCompose"
            )

        await world.until("the invalid request is reported", reported)
        assert await world.workload("invalid") is None
        change = {"spec": {"template": {"metadata": {"annotations": {REQUIRED: "rack"}}}}}
        await world.client.patch(JOBS, Key(NAMESPACE, "invalid"), change)
        await world.until_condition("invalid", "QuotaReserved", "False", "WaitingForQuota")

    run_story(story, default_configuration())


def test_pods_of_a_placed_job_wait_behind_the_gate_until_it_stops() -> None:
    """The server accepts the gate in the template of a suspended Job, and its removal after a stop."""

    async def story() -> None:
        async with running_cluster() as world:
            await world.job("train", queue="", suspend=True)
            kind, before = BatchJob(), await world.get_job("train")
            originals = kind.pod_sets(before)
            infos = [PodSetInfo(name="main", count=1, scheduling_gates=(TOPOLOGY_GATE,))]
            await send(world, kind.start(before, infos))

            async def gated() -> bool:
                pods = (await world.client.list(PODS, NAMESPACE)).items
                return [each.spec.scheduling_gates for each in pods] == [
                    (SchedulingGate(name=TOPOLOGY_GATE),)
                ]

            async def is_active() -> bool:
                return (await world.get_job("train")).status.active == 1

            async def has_stopped() -> bool:
                await send(world, kind.stop(await world.get_job("train"), originals).patches)
                return kind.is_suspended(await world.get_job("train"))

            await world.until("the pod is gated", gated)
            await world.until("the Job counts it", is_active)
            await world.until("the Job has stopped", has_stopped)
            assert kind.pod_sets(await world.get_job("train")) == originals

    shared_clusters.run(story())


async def send(world: World, patches: object) -> None:
    assert isinstance(patches, tuple)
    for patch in patches:
        await world.client.patch(patch.resource, patch.key, patch.body, subresource=patch.subresource)


async def create_in(world: World, name: str, level: str) -> None:
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}
    template = {"metadata": {"annotations": {REQUIRED: level}}, "spec": pods}
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    spec = {"suspend": True, "template": template}
    await world.client.create(JOBS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, NAMESPACE)


async def requested(world: World, job: str) -> Any:
    workload = await world.workload(job)
    assert workload is not None
    return codec.to_builtins(workload.spec.pod_sets[0].topology_request)
