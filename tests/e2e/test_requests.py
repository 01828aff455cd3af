"""What the pods of a job request once they exist is what was counted, over HTTP."""

from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.core.pod_resources import pod_requests
from quorate.api.meta import Key, find_condition
from quorate.api.quantity import Quantity
from quorate.controllers.jobframework.podset_info import read_template
from quorate.kube.resources import LIMIT_RANGES, PODS, RUNTIME_CLASSES, WORKLOADS
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
INITIAL = {"name": "initial", "image": "busybox", "resources": {"requests": {"cpu": "3"}}}


async def limit_range(world: World, **item: object) -> None:
    await world.create(LIMIT_RANGES, "limits", NAMESPACE, spec={"limits": [item]})


def a_container(**resources: object) -> list[dict[str, object]]:
    return [{"name": "main", "image": "busybox", "resources": resources}]


async def until_counted(world: World, job: str, cpu: str) -> None:
    """Wait until the job is admitted with ``cpu`` in all, which are also what its pods request together."""
    await world.until_admitted(job)
    workload = await world.workload(job)
    assert workload is not None
    assert workload.status.admission is not None
    (assigned,) = workload.status.admission.pod_set_assignments
    assert str(assigned.resource_usage["cpu"]) == cpu

    async def pods_request_it() -> bool:
        pods = [
            pod
            for pod in (await world.client.list(PODS, NAMESPACE)).items
            if pod.metadata.name.startswith(job)
        ]
        requested = sum((pod_requests(pod.spec)["cpu"].nanos for pod in pods), 0)
        return len(pods) == assigned.count and str(Quantity(requested)) == cpu

    await world.until(f"the pods of {job} request {cpu}", pods_request_it)


def test_a_limit_counts_before_the_default_of_a_limit_range() -> None:
    async def story(world: World) -> None:
        await limit_range(world, type="Container", defaultRequest={"cpu": "100m"}, default={"cpu": "4"})
        await world.queues(cpu="4")
        await world.job("capped", pods=4, runs="forever", containers=a_container(limits={"cpu": "2"}))
        await world.until_condition("capped", "QuotaReserved", status="False")
        await world.job("fits", pods=2, runs="forever", containers=a_container(limits={"cpu": "2"}))
        await until_counted(world, "fits", "4")
        assert await world.admitted() == {"fits"}

    run_story(story, Configuration())


def test_init_containers_sidecars_and_overhead_count_as_the_pods_request_them() -> None:
    async def story(world: World) -> None:
        await limit_range(world, type="Container", defaultRequest={"cpu": "500m"})
        overhead = {"podFixed": {"cpu": "250m"}}
        await world.create(RUNTIME_CLASSES, "sandbox", handler="h", overhead=overhead)
        await world.queues(cpu="8")
        sidecar = {"name": "proxy", "image": "busybox", "restartPolicy": "Always"}
        initial = {"name": "load", "image": "busybox", "resources": {"limits": {"cpu": "2"}}}
        await world.job(
            "whole",
            pods=2,
            runs="forever",
            runtimeClassName="sandbox",
            initContainers=[sidecar, initial],
            containers=a_container(requests={"cpu": "1"}),
        )
        # Each pod: the sidecar 500m, alongside 2 of the init container, and 250m of overhead.
        await until_counted(world, "whole", "5500m")
        await world.job("level", runs="forever", resources={"limits": {"cpu": "2"}}, containers=a_container())
        await until_counted(world, "level", "2")

    run_story(story, Configuration())


@pytest.mark.parametrize("is_deleted", [True, False])
@pytest.mark.parametrize(
    "item",
    [
        pytest.param({"type": "Container", "max": {"cpu": "1"}}, id="a maximum"),
        pytest.param({"type": "Pod", "min": {"cpu": "3"}}, id="a minimum of pods"),
        pytest.param({"type": "Pod", "max": {"cpu": "4"}}, id="a maximum of pods, which have no limit"),
    ],
)
def test_a_job_starts_once_its_limit_range_no_longer_forbids_it(
    item: dict[str, object], is_deleted: bool
) -> None:
    async def story(world: World) -> None:
        await limit_range(world, **item)
        await world.queues(cpu="8")
        await world.job("big", cpu="2", runs="forever")

        await world.until_condition("big", "QuotaReserved", status="False")
        if is_deleted:
            await world.client.delete(LIMIT_RANGES, Key(NAMESPACE, "limits"))
        else:
            relaxed = {
                "spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}, "default": {"cpu": "2"}}]}
            }
            await world.client.patch(LIMIT_RANGES, Key(NAMESPACE, "limits"), relaxed)
        await until_counted(world, "big", "2")

    run_story(story, Configuration())


@pytest.mark.parametrize(
    "pod_spec",
    [
        pytest.param({"resources": {"requests": {"cpu": "4"}}}, id="pod-level requests"),
        pytest.param({"initContainers": [INITIAL]}, id="an init container"),
        pytest.param({"runtimeClassName": "sandbox"}, id="a runtime class"),
    ],
)
def test_a_prebuilt_workload_without_requests_of_its_job_does_not_start_it(pod_spec: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        await world.create(RUNTIME_CLASSES, "sandbox", handler="h", overhead={"podFixed": {"cpu": "4"}})
        await world.queues(cpu="2")
        labels = {PREBUILT: "made"}
        await world.job("train", labels=labels, containers=a_container(requests={"cpu": "100m"}), **pod_spec)

        async def is_suspended() -> bool:
            return (await world.get_job("train")).spec.suspend

        await world.until("train waits for its workload", is_suspended)
        # The template as the server stores it, but for the field.
        template = read_template((await world.get_job("train")).spec.template)
        spec = {name: value for name, value in template["spec"].items() if name not in pod_spec}
        pod_sets = [{"name": "main", "count": 1, "template": {**template, "spec": spec}}]
        await world.create(WORKLOADS, "made", NAMESPACE, spec={"queueName": "queue", "podSets": pod_sets})

        async def is_out_of_sync() -> bool:
            workload = await world.client.get(WORKLOADS, Key(NAMESPACE, "made"))
            finished = find_condition(workload.status.conditions, "Finished")
            return finished is not None and finished.reason == "OutOfSync"

        await world.until("the workload is out of sync", is_out_of_sync)
        assert await is_suspended()

    run_story(story, Configuration())
