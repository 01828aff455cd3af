"""A workload that becomes unreadable while its job runs keeps its quota, and its job goes on."""

from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.meta import Key
from quorate.kube.errors import Invalid
from quorate.kube.events import UNREADABLE
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, PODS, WORKLOADS, untyped
from quorate.local.nodes import NodePool
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

RAW = untyped(WORKLOADS.group, WORKLOADS.version, WORKLOADS.plural, WORKLOADS.kind, True)
DEFINITIONS = untyped(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
CONFIGURATION = Configuration(audit_every_s=0.3, integrations=Integrations(frameworks=("batch/job", "pod")))


async def drop_schema(world: World) -> None:
    key = Key("", "workloads.kueue.x-k8s.io")
    versions = (await world.client.get(DEFINITIONS, key))["spec"]["versions"]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for version in versions:
        version["schema"] = {"openAPIV3Schema": anything}
        version.pop("selectableFields", None)
    await world.client.patch(DEFINITIONS, key, {"spec": {"versions": versions}})


async def damage(world: World, workload: str, patch: dict[str, Any]) -> None:
    async def accepted() -> bool:
        try:
            await world.client.patch(RAW, Key(NAMESPACE, workload), patch)
        except Invalid:
            return False  # the new definition is not in effect yet
        return True

    await world.until("the API server stores the workload", accepted)


async def reserving(world: World) -> int:
    return (await world.client.get(CLUSTER_QUEUES, Key("", "research"))).status.reserving_workloads


async def until_reported(world: World, workload: str) -> None:
    async def find() -> bool:
        return any(
            event.reason == UNREADABLE and event.regarding is not None and event.regarding.name == workload
            for event in (await world.client.list(EVENTS)).items
        )

    await world.until(f"{workload} has an event", find)


async def until_shown(world: World, workload: str, *, shown: bool) -> None:
    async def find() -> bool:
        status = (await world.client.get(RAW, Key(NAMESPACE, workload)))["status"]
        of_type = {each["type"]: each["status"] for each in status["conditions"]}
        assert of_type["QuotaReserved"] == "True"
        return (of_type.get("quorate.dev/Unreadable") == "True") is shown

    await world.until(f"the status of {workload}", find)


async def must_wait(world: World, job: str) -> None:
    condition = await world.until_condition(job, "QuotaReserved", "False")
    assert condition is not None
    assert (await world.get_job(job)).spec.suspend


@pytest.mark.parametrize(
    "policy", [pytest.param("Never", id="no preemption"), pytest.param("LowerPriority", id="preemption")]
)
def test_its_quota_is_not_given_twice_and_its_job_is_not_stopped(policy: str) -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2", preemption={"withinClusterQueue": policy})
        await world.job("running", pods=2, runs="forever")
        await world.until_admitted("running")
        found = await world.workload("running")
        assert found is not None
        name = found.metadata.name

        await drop_schema(world)
        await damage(world, name, {"spec": {"podSets": "none", "priority": -5}})
        await until_reported(world, name)
        await until_shown(world, name, shown=True)
        await world.job("second", runs="forever")
        await must_wait(world, "second")
        assert await reserving(world) == 1

        await world.stop_queueing()
        await world.start_queueing(CONFIGURATION)  # now only the stored object says what is reserved
        await world.job("third", runs="forever")
        await must_wait(world, "third")
        assert not (await world.get_job("running")).spec.suspend

        async def audited() -> bool:
            return (
                world.replica.recorder.registry.get_sample_value(
                    "quorate_audits_total", {"result": "same", "replica_role": "standalone"}
                )
                is not None
            )

        await world.until("an audit", audited)
        assert world.replica.rebuilt_at is None

        await world.client.delete(WORKLOADS, Key(NAMESPACE, name))
        await world.client.patch(RAW, Key(NAMESPACE, name), {"metadata": {"finalizers": None}})
        await world.until_admitted("second")  # the deletion releases the quota

    run_story(story, CONFIGURATION)


def test_a_group_of_pods_goes_on_while_its_workload_cannot_be_read() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        for name in ("pod-0", "pod-1"):
            await world.client.create(PODS, a_pod(name), NAMESPACE)

        async def running() -> bool:
            pods = (await world.client.list(PODS, NAMESPACE)).items
            return [pod.status.phase for pod in pods] == ["Running"] * 2

        await world.until("both pods run", running)
        (workload,) = (await world.client.list(WORKLOADS)).items
        await drop_schema(world)
        await damage(world, workload.metadata.name, {"spec": {"podSets": "none"}})
        await until_reported(world, workload.metadata.name)
        await world.stop_queueing()
        await world.start_queueing(CONFIGURATION)
        await world.job("second", runs="forever")
        await must_wait(world, "second")
        assert await running()
        (event,) = [each for each in (await world.client.list(EVENTS)).items if each.reason == UNREADABLE]
        assert event.regarding is not None
        assert event.regarding.name == workload.metadata.name

    run_story(story, CONFIGURATION, NodePool(1, cpu="8"))


def a_pod(name: str) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/queue-name": "queue", "kueue.x-k8s.io/pod-group-name": "group"}
    annotations = {
        "kueue.x-k8s.io/pod-group-total-count": "2",
        "simulate.quorate.dev/duration": "1h",
        "simulate.quorate.dev/start-delay": "20ms",
    }
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    return {
        "metadata": {
            "name": name,
            "labels": {**labels, "kueue.x-k8s.io/managed": "true"},
            "annotations": annotations,
            "finalizers": ["kueue.x-k8s.io/managed"],
        },
        "spec": {"restartPolicy": "Never", "containers": [container], "schedulingGates": gates},
    }


def test_a_workload_that_is_corrected_loses_the_condition() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        await world.job("running", runs="forever")
        await world.until_admitted("running")
        found = await world.workload("running")
        assert found is not None
        name, priority = found.metadata.name, found.spec.priority
        await drop_schema(world)
        await damage(world, name, {"spec": {"priority": "high"}})
        await until_shown(world, name, shown=True)
        await world.client.patch(RAW, Key(NAMESPACE, name), {"spec": {"priority": priority}})
        await until_shown(world, name, shown=False)
        assert not (await world.get_job("running")).spec.suspend

    run_story(story, CONFIGURATION)
