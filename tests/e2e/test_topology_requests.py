"""Jobs request topologies of their workloads; an invalid request leads to an event, and can be corrected."""

from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.configuration import default_configuration
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.meta import Key
from quorate.kube.resources import EVENTS, JOBS
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

PLACING = msgspec.structs.replace(default_configuration(), topology_gates=TopologyGates())
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
INDEX = "batch.kubernetes.io/job-completion-index"


def test_a_workload_requests_the_topology_of_its_job() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("plain")
        await world.until_admitted("plain")
        assert await requested(world, "plain") == {"podIndexLabel": INDEX}

        await create_in(world, "placed", "rack")
        await world.until_condition("placed", "QuotaReserved", "False", "Pending")
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
        await world.until_condition("invalid", "QuotaReserved", "False", "Pending")

    run_story(story, PLACING)


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
