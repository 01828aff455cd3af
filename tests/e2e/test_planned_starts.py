"""A large job on a busy queue starts when it is planned, and small ones pass it only if they end before."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.queueing import NodeFit
from quorate.api.meta import Key, find_condition
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, PLACEABLE_NODES
from quorate.local.nodes import NodePool
from quorate.queueing.conditions import PLANNED_START, QUOTA_RESERVED
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

NODES = NodePool(1, cpu="32")  # quota decides
BACKFILL = {"metadata": {"annotations": {"quorate.dev/backfill": "EASY"}}}
RESERVED = "reserved for the start of an earlier workload, planned for"


def at_most(seconds: int) -> dict[str, str]:
    return {"kueue.x-k8s.io/max-exec-time-seconds": str(seconds)}


def test_a_large_job_is_not_passed_by_what_ends_after_its_planned_start() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="8")
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), BACKFILL)
        await world.job("first", cpu="4", runs="1h", labels=at_most(3600))
        await world.until_admitted("first")
        await world.job("large", cpu="8", runs="100ms", labels=at_most(60))
        await world.until_condition("large", "QuotaReserved", "False")
        await world.job("long", cpu="4", runs="100ms", labels=at_most(7200))
        await world.job("unbounded", cpu="4", runs="100ms")
        await world.job("short", cpu="4", runs="100ms", labels=at_most(600))
        await world.until_finished("short")  # it passes the others
        for name in ("long", "unbounded"):
            await until_reserved(world, name)
        await world.stop_queueing()
        await world.start_queueing(Configuration())  # which makes the same plan
        await world.job("later", cpu="4", runs="100ms", labels=at_most(7200))
        await until_reserved(world, "later")
        assert await world.admitted() == {"first"}
        await world.client.delete(JOBS, Key(NAMESPACE, "first"), propagation="Background")
        await world.until_finished("large", "long", "unbounded", "later")
        ends = {name: await finished_at(world, name) for name in ("large", "long", "unbounded", "later")}
        assert min(ends.values()) == ends["large"]

    run_story(story, Configuration(), NODES)


async def until_reserved(world: World, job: str) -> None:
    """Wait until the workload of ``job`` waits because of the plan of the large job."""

    async def waits() -> bool:
        workload = await world.workload(job)
        reserved = None if workload is None else find_condition(workload.status.conditions, QUOTA_RESERVED)
        return reserved is not None and RESERVED in reserved.message

    await world.until(f"{job} waits for the start of the large job", waits)


async def finished_at(world: World, job: str) -> float:
    workload = await world.until_condition(job, "Finished")
    return next(
        condition.last_transition_time.timestamp()
        for condition in workload.status.conditions
        if condition.type == "Finished" and condition.last_transition_time is not None
    )


def test_a_planned_start_survives_a_restart_and_a_cut_of_quota_moves_it() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="12")
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), BACKFILL)
        await world.job("first", cpu="4", runs="1h", labels=at_most(3600))
        await world.job("second", cpu="4", runs="1h", labels=at_most(7200))
        await world.until_admitted("first", "second")
        await world.job("large", cpu="8", runs="100ms", labels=at_most(60))
        announced = await until_announced(world, "large", "Planned")
        assert "(Declared), after 1 workload has ended" in announced
        await world.stop_queueing()
        await world.start_queueing(Configuration())
        await world.job("long", cpu="4", runs="100ms", labels=at_most(7200))
        await until_reserved(world, "long")
        assert await until_announced(world, "large", "Planned") == announced
        (group,) = (await world.client.get(CLUSTER_QUEUES, Key("", "research"))).spec.resource_groups
        quota = {"name": "cpu", "nominalQuota": "8"}
        flavors = [{"name": group.flavors[0].name, "resources": [quota]}]
        groups = [{"coveredResources": list(group.covered_resources), "flavors": flavors}]
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": {"resourceGroups": groups}})
        revised = await until_announced(world, "large", "QuotaCut")
        assert "after 2 workloads have ended; was 20" in revised
        assert revised.endswith("Z: QuotaCut: quota of cpu in flavor default was cut")
        await world.stop_queueing()
        await world.start_queueing(Configuration())
        for name in ("first", "second"):
            await world.client.delete(JOBS, Key(NAMESPACE, name), propagation="Background")
        await world.until_finished("large", "long")
        workload = await world.workload("large")
        assert workload is not None
        condition = find_condition(workload.status.conditions, PLANNED_START)
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "Started")

    run_story(story, Configuration(), NODES)


async def until_announced(world: World, job: str, reason: str) -> str:
    """Return what is announced of the planned start of ``job``, once that is for ``reason``."""
    workload = await world.until_condition(job, PLANNED_START, "True", reason)
    condition = find_condition(workload.status.conditions, PLANNED_START)
    assert condition is not None
    return condition.message


def test_a_lost_node_moves_a_planned_start() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="100")
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), BACKFILL)
        await world.job("first", cpu="4", runs="1h", labels=at_most(3600))
        await world.job("second", cpu="4", runs="1h", labels=at_most(7200))
        await world.until_admitted("first", "second")
        await world.job("large", cpu="4", runs="100ms", labels=at_most(60))
        announced = await until_announced(world, "large", "Planned")
        first = await world.workload("first")
        assert first is not None
        assert first.status.admission is not None
        (assigned,) = first.status.admission.pod_set_assignments
        assert assigned.topology_assignment is not None
        ((host,), _) = next(iter(assigned.topology_assignment.domains()))
        await world.client.patch(PLACEABLE_NODES, Key("", host), {"spec": {"unschedulable": True}})
        revised = await until_announced(world, "large", "NodeLost")
        assert revised.endswith(f"Z: NodeLost: node {host} was lost")
        assert revised[: len(announced)] != announced

    run_story(story, Configuration(node_fit=NodeFit(mode="Require")), NodePool(2, cpu="4"))
