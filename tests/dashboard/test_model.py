"""The model over HTTP: it follows a cluster, and sees what the controllers write within a moment."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from quorate.api.configuration import default_configuration
from quorate.api.meta import Key
from quorate.dashboard.history.history import open_history, recording
from quorate.dashboard.model.model import DashboardModel, run_model
from quorate.dashboard.queries import ADMINISTRATOR, NO_ESTIMATES, WorkloadQuery
from quorate.dashboard.schema import WorkloadDetail, WorkloadRow
from quorate.dashboard.views import overview, workload_detail, workload_views
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import JOBS, WORKLOADS
from quorate.local.nodes import NodePool
from tests.dashboard.objects import tenant
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

ALL = WorkloadQuery(sort="name")


def rows(model: DashboardModel) -> dict[str, WorkloadRow]:
    """Return the rows of an administrator by the name of the job."""
    return {
        each.job_name: each
        for each in workload_views.workloads(model.data, ADMINISTRATOR, ALL, NO_ESTIMATES).items
    }


def ready(model: DashboardModel) -> Callable[[], Awaitable[bool]]:
    async def find() -> bool:
        return model.ready.is_set()

    return find


def states(model: DashboardModel, want: dict[str, str]) -> Callable[[], Awaitable[bool]]:
    async def find() -> bool:
        return want.items() <= {name: row.state for name, row in rows(model).items()}.items()

    return find


def reasons(model: DashboardModel, want: dict[str, str]) -> Callable[[], Awaitable[bool]]:
    async def find() -> bool:
        return want.items() <= {name: row.code for name, row in rows(model).items()}.items()

    return find


def test_the_model_follows_jobs_from_the_queue_to_their_end() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1")
        clock, configuration = WallClock(), default_configuration()
        async with (
            Client(world.client.config, random.Random(1)) as client,
            run_model(client, clock, configuration) as model,
        ):
            await world.until("the model is ready", ready(model))
            await world.job("first", runs="1h")
            await world.until("first runs", states(model, {"first": "Running"}))
            await world.job("second", runs="100ms")
            await world.until("second waits", reasons(model, {"second": "QuotaShort"}))
            row = rows(model)["second"]
            assert (row.cluster_queue, row.position, row.job_kind) == ("research", 0, "Job")
            assert row.reason.endswith("insufficient unused quota for cpu in flavor default, 1 more needed")
            seen = overview.overview(model.data, ADMINISTRATOR, clock.now())
            assert (seen.counts.pending, seen.counts.states["Running"]) == (1, 1)
            assert [(each.code, each.workloads) for each in seen.reasons] == [("QuotaShort", 1)]
            assert seen.nodes is not None
            assert (seen.nodes.nodes, seen.nodes.used["cpu"].value) == (2, 1)
            assert workload_views.workloads(model.data, tenant("elsewhere"), ALL, NO_ESTIMATES).total == 0
            await world.client.delete(JOBS, Key(NAMESPACE, "first"), propagation="Background")
            await world.until("second ends", states(model, {"second": "Finished"}))

    run_story(story, default_configuration(), NodePool(count=2, cpu="4"))


def test_a_running_workload_has_its_pods_its_events_and_its_life(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        clock = WallClock()
        async with (
            Client(world.client.config, random.Random(1)) as client,
            open_history(tmp_path / "history.db", clock) as history,
            run_model(client, clock, default_configuration(), history.follow) as model,
            recording(history, model, clock),
        ):
            await world.until("the model is ready", ready(model))
            await world.job("train", pods=2, runs="1h")
            await world.until("train runs", states(model, {"train": "Running"}))
            key = Key(NAMESPACE, rows(model)["train"].name)

            async def detail() -> WorkloadDetail:
                listed = model.data.workloads.by_key[key]
                recorded = await history.of_object(model.data, ADMINISTRATOR, listed.workload.metadata.uid)
                return await workload_detail.workload(
                    model.data, ADMINISTRATOR, listed, client, recorded, NO_ESTIMATES
                )

            found = await detail()
            steps = [each.step for each in found.milestones]
            assert steps[:4] == ["Created", "Queued", "QuotaReserved", "Admitted"]
            assert "PodsCreated" in steps
            assert [(each.phase, each.reason) for each in found.pods] == [("Running", "")] * 2
            assert {each.node for each in found.pods} <= {"node-1", "node-2"}
            assert [(each.name, each.admitted_pods, each.flavors) for each in found.pod_sets] == [
                ("main", 2, {"cpu": "default"})
            ]
            assert found.explanation is not None
            assert found.explanation.state == "Running"

            async def has_events() -> bool:
                reasons = {each.reason for each in (await detail()).events}
                return {"QuotaReserved", "Admitted"} <= reasons

            await world.until("its events", has_events)
            await world.client.patch(WORKLOADS, key, {"spec": {"active": False}})
            await world.until("train is stopped", states(model, {"train": "Deactivated"}))

            async def is_deactivated() -> bool:
                return "Deactivated" in [each.step for each in (await detail()).milestones]

            await world.until("the eviction is shown", is_deactivated)
            assert [each.step for each in history.losses(model.data, ADMINISTRATOR, "research", 9)] == [
                "Deactivated"
            ]

    run_story(story, default_configuration(), NodePool(count=2, cpu="4"))
