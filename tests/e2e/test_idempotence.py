"""Restarted controllers write nothing to a settled cluster, for every kind."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import FRAMEWORKS, Integrations
from quorate.api.configuration.pods_ready import BlockAdmissionScope, RequeuingStrategy, WaitForPodsReady
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.field_path import look_up, parse_path
from quorate.api.meta import Key
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.controllers.limits import MAX_STATUS_INTERVAL_S, STATUS_PACE_S
from quorate.kube.clock import WallClock
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from quorate.kube.writes import status_patch
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import install_definitions
from quorate.queueing.pods_ready import TIMEOUT_ANNOTATION
from tests.e2e import shared_clusters
from tests.e2e import world as e2e_world
from tests.e2e.kinds import EXAMPLES, Example, Json
from tests.e2e.minimal_definitions import definition
from tests.e2e.test_pods import pod, until_pod
from tests.e2e.test_sets import DEPLOYMENTS, STATEFUL_SETS, a_set
from tests.e2e.world import NAMESPACE, World, running_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,  # long stories of code that other tests measure
]

FLEET = NodePool(2, cpu="16", memory="16Gi")
Story = Callable[[World], Awaitable[None]]
# Longer than any write is delayed to be combined with later ones.
QUIET_S = MAX_STATUS_INTERVAL_S[0] + STATUS_PACE_S
DECLARED = tuple(each for example in EXAMPLES for each in example.integrations.declared)


async def until_no_writes(world: World, for_s: float) -> None:
    """Return once the controllers have written nothing for ``for_s``."""

    async def quiet() -> bool:
        before = world.queueing_client.attempted.total()
        await asyncio.sleep(for_s)  # sleeps: that nothing is written shows only over a time
        return world.queueing_client.attempted.total() == before

    await world.until("the controllers write nothing", quiet)


async def statuses_are_current(world: World) -> bool:
    view = world.replica.view
    assert view is not None, "the controllers run"
    now = WallClock().now()
    cluster_queues, local_queues = await asyncio.gather(
        world.client.list(CLUSTER_QUEUES), world.client.list(LOCAL_QUEUES)
    )
    return not any(
        (
            *(
                status_patch(CLUSTER_QUEUES, queue, view.state.cluster_queue_status(queue.metadata.name, now))
                for queue in cluster_queues.items
            ),
            *(
                status_patch(LOCAL_QUEUES, queue, view.state.local_queue_status(queue.metadata.key, now))
                for queue in local_queues.items
            ),
        )
    )


async def writes_of_restarted_controllers(world: World, configuration: Configuration) -> dict[str, int]:
    """Restart the controllers in a settled cluster and return the writes that they attempt."""
    await until_no_writes(world, QUIET_S)
    # On a slow server the statuses of queues are delayed for longer.
    await world.until("the statuses of all queues are current", partial(statuses_are_current, world))
    await until_no_writes(world, STATUS_PACE_S)
    await world.stop_queueing()
    world.queueing_client.attempted.clear()
    await world.start_queueing(configuration, seed=2)
    # All objects are reconciled at the start, and their writes follow within a second.
    await until_no_writes(world, STATUS_PACE_S * 1.5)
    return dict(world.queueing_client.attempted)


async def until_waits(world: World, *jobs: str) -> None:
    for job in jobs:
        await world.until_condition(job, "QuotaReserved", "False")


async def shared_stopped_and_preempting_queues(world: World) -> None:
    await world.flavor()
    await world.flavor("dear", nodeLabels={"no": "such"})
    for name, value in (("low", 10), ("high", 100)):
        await world.create(WORKLOAD_PRIORITY_CLASSES, name, value=value)
    await world.create(COHORTS, "whole")
    await world.create(COHORTS, "some", spec={"parentName": "whole"})
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    for name in ("research", "lender"):
        await world.cluster_queue("4", name, cohortName="some", preemption=preemption)
        await world.local_queue(name, name)
    for name, policy in (("held", "Hold"), ("drained", "HoldAndDrain")):
        await world.cluster_queue("4", name, cohortName="whole")
        await world.local_queue(name, name)
        await world.job(f"in-{name}", queue=name, runs="forever")
        await world.until_admitted(f"in-{name}")
        await world.job(f"more-{name}", queue=name, cpu="9")
        await world.client.patch(CLUSTER_QUEUES, Key("", name), {"spec": {"stopPolicy": policy}})
    await world.cluster_queue("4", "incomplete", flavor="missing")
    await world.local_queue("incomplete", "incomplete")
    await world.local_queue("nowhere", "missing")
    await world.local_queue("stopped")
    await world.client.patch(LOCAL_QUEUES, Key(NAMESPACE, "stopped"), {"spec": {"stopPolicy": "Hold"}})
    least = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    low, high = ({"kueue.x-k8s.io/priority-class": name} for name in ("low", "high"))
    await world.job("first", queue="research", labels=low, pods=4, runs="forever")
    await world.until_admitted("first")
    await world.job("partial", queue="lender", pods=9, annotations=least, runs="forever")
    await world.until_admitted("partial")
    await world.job("preempts", queue="research", labels=high, pods=4, runs="forever")
    await world.until_admitted("preempts")
    await world.until_condition("first", "Evicted", reason="Preempted")
    for name in ("incomplete", "nowhere", "stopped", "missing"):
        await world.job(f"in-{name}", queue=name)
    await until_waits(world, "first", "in-drained", "in-incomplete", "in-nowhere")
    await world.job("off", queue="lender", cpu="99")
    off = await world.until_condition("off", "QuotaReserved", "False")
    await world.client.patch(WORKLOADS, off.metadata.key, {"spec": {"active": False}})
    await world.until_condition("off", "Evicted")


async def checks_in_each_state(world: World) -> None:
    states = ("Pending", "Ready", "Retry", "Rejected")

    async def answer(job: str, **entry: str) -> None:
        async def reserved() -> Any:
            workload = await world.workload(job)
            return workload if workload is not None and workload.status.admission is not None else None

        workload = await world.until(f"{job} has a reservation", reserved)
        named = {"name": "gate", "message": "said", "lastTransitionTime": "2026-01-01T00:00:00Z", **entry}
        status = {"status": {"admissionChecks": [named]}}
        await world.client.patch(WORKLOADS, workload.metadata.key, status, subresource="status")

    await world.create(ADMISSION_CHECKS, "gate", spec={"controllerName": "example.com/by-hand"})
    active = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"status": {"conditions": [active]}}
    await world.client.patch(ADMISSION_CHECKS, Key("", "gate"), status, subresource="status")
    await world.queues("16", admissionChecksStrategy={"admissionChecks": [{"name": "gate"}]})
    for state in states:
        await world.job(state.lower(), runs="forever")
        await answer(state.lower(), state=state)
    await world.until_admitted("ready")
    await world.until_condition("retry", "Evicted", "False")  # it was evicted, and Evicted is reset at once
    await world.until_condition("rejected", "Evicted")
    await world.cluster_queue("4", "unchecked", admissionChecksStrategy=_checks_strategy("missing"))


def _checks_strategy(check: str) -> Json:
    return {"admissionChecks": [{"name": check}]}


def waiting_for_pods(blocks: BlockAdmissionScope | None) -> Configuration:
    backs_off = RequeuingStrategy(timestamp="Eviction", backoff_base_s=3600.0, backoff_max_s=3600.0)
    return Configuration(
        wait_for_pods_ready=WaitForPodsReady(
            timeout_s=60.0, recovery_timeout_s=60.0, block_admission=blocks, requeuing_strategy=backs_off
        )
    )


async def starting_running_backed_off_and_finished_jobs(world: World) -> None:
    await world.queues("4")
    await world.job("runs", runs="forever")
    await world.until_condition("runs", "PodsReady")
    await world.job("stuck", starts="1h", annotations={TIMEOUT_ANNOTATION: "1s"})
    await world.until_condition("stuck", "Evicted", reason="PodsReadyTimeout")
    await world.until_condition("stuck", "QuotaReserved", "False")
    await world.job("done")
    await world.until_finished("done")
    await world.job("waits", cpu="9")
    await until_waits(world, "waits")


async def pods_groups_and_serving_kinds(world: World) -> None:
    await world.queues("6")
    await pod(world, "alone", runs="1h")
    for name in ("one", "two"):
        await pod(world, name, runs="1h", group="train", total=2)
        await pod(world, f"short-{name}", runs="50ms", group="short", total=2)
        await pod(world, f"large-{name}", cpu="9", group="large", total=2)
    await pod(world, "lonely", group="incomplete", total=2)
    await pod(world, "large", cpu="9")
    await pod(world, "never-gated", gated=False, runs="1h")
    for name in ("alone", "one", "two", "never-gated"):
        await until_pod(world, name, "runs", lambda it: it.status.phase == "Running")
    for name in ("short-one", "short-two"):
        await until_pod(world, name, "has no finalizer", lambda it: not it.metadata.finalizers)
    await world.client.create(DEPLOYMENTS, _named(a_set(2), "served"), NAMESPACE)

    async def ready() -> bool:
        found: Json = await world.client.get(DEPLOYMENTS, Key(NAMESPACE, "served"))
        return bool(found["status"].get("readyReplicas", 0) == 2)

    await world.until("the deployment is ready", ready)
    await world.client.create(STATEFUL_SETS, _named(a_set(2), "stateful"), NAMESPACE)
    await until_waits(world, "stateful")


def _named(body: Json, name: str) -> Json:
    """Return ``body`` with another name and selector."""
    labels = {"app": name}
    spec = body["spec"]
    template = {**spec["template"], "metadata": {**spec["template"]["metadata"], "labels": labels}}
    return {
        "metadata": {**body["metadata"], "name": name},
        "spec": {**spec, "selector": {"matchLabels": labels}, "template": template},
    }


async def waiting_running_stopped_and_finished_jobs_of_each_kind(world: World) -> None:
    resources = [resource for example in EXAMPLES for resource, _ in example.dependencies]
    resources += [example.resource for example in EXAMPLES if not example.is_built_in]
    await install_definitions(world.client, [definition(each) for each in resources])
    await world.flavor(nodeLabels={"zone": "a"})
    await world.cluster_queue("1000")
    await world.local_queue()
    await asyncio.gather(*(_jobs_in_each_state(world, example) for example in EXAMPLES))


async def _jobs_in_each_state(world: World, example: Example) -> None:
    """Create a waiting, a running, a stopped and a finished job of the kind."""
    kind = example.resource.kind.lower()
    # A separate queue: equal requests to the same queue share one pending decision.
    await world.cluster_queue("0", f"empty-{kind}")
    await world.local_queue(f"empty-{kind}", f"empty-{kind}")
    for resource, dependency in example.dependencies:
        namespace = NAMESPACE if resource.namespaced else ""
        await world.client.create(resource, {"metadata": {"name": "train"}, **dependency}, namespace)
    names: Sequence[str] = [f"{kind}-{state}" for state in ("waits", "runs", "stopped", "done")]
    for name in names:
        queue = f"empty-{kind}" if name.endswith("waits") else "queue"
        labels = {"kueue.x-k8s.io/queue-name": queue}
        body = {"metadata": {"name": name, "labels": labels}, "spec": example.spec}
        await world.client.create(example.resource, body, NAMESPACE)
    waits, runs, stopped, done = names
    await until_waits(world, waits)
    for name in (runs, stopped, done):
        await _until_runs(world, example, name)
        await _patch_status(world, example, name, example.runs)
        await world.until_condition(name, "PodsReady")
    workload = await world.until_condition(stopped, "Admitted")
    await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
    await world.until_condition(stopped, "Evicted")
    await _until_is(world, example, stopped, example.stopped_is)
    await _patch_status(world, example, stopped, example.stopped)
    await world.until_condition(stopped, "QuotaReserved", "False")
    if example.succeeded is not None:
        await _patch_status(world, example, done, example.succeeded)
        await world.until_condition(done, "Finished")


async def _until_runs(world: World, example: Example, name: str) -> None:
    await world.until_condition(name, "Admitted")
    await _until_is(world, example, name, example.running_is)


async def _until_is(world: World, example: Example, name: str, value: Any) -> None:
    async def find() -> bool:
        job: UnstructuredJob = await world.client.get(example.resource, Key(NAMESPACE, name))
        return bool(look_up(job.document, parse_path(example.suspend)) == value)

    await world.until(f"{example.resource.kind} {name} has {value} at {example.suspend}", find)


async def _patch_status(world: World, example: Example, name: str, status: Json) -> None:
    key = Key(NAMESPACE, name)
    job: UnstructuredJob = await world.client.get(example.resource, key)
    fresh = {**dict.fromkeys(job.status), **status}
    await world.client.patch(example.resource, key, {"status": fresh}, subresource="status")


JOBS_AND_PODS = Integrations(frameworks=("batch/job", "pod", "deployment", "statefulset"))
ALL_KINDS = Configuration(
    integrations=Integrations(frameworks=FRAMEWORKS, declared=DECLARED),
    wait_for_pods_ready=WaitForPodsReady(timeout_s=3600, recovery_timeout_s=3600, block_admission=None),
    resources=ResourceOptions(exclude_resource_prefixes=("memory",)),  # which Spark requests by itself
)
STORIES = (
    (shared_stopped_and_preempting_queues, Configuration()),
    (checks_in_each_state, Configuration()),
    (starting_running_backed_off_and_finished_jobs, waiting_for_pods(None)),
    (pods_groups_and_serving_kinds, Configuration(integrations=JOBS_AND_PODS)),
    (waiting_running_stopped_and_finished_jobs_of_each_kind, ALL_KINDS),
)
SCOPES = (
    (starting_running_backed_off_and_finished_jobs, waiting_for_pods("AllQueues")),
    (starting_running_backed_off_and_finished_jobs, waiting_for_pods("SameFlavors")),
)


@pytest.mark.parametrize(
    "stories", [pytest.param(STORIES, id="all"), pytest.param(SCOPES, id="scopes", marks=pytest.mark.long)]
)
def test_restarted_controllers_write_nothing(stories: Sequence[tuple[Story, Configuration]]) -> None:
    slots = asyncio.Semaphore(e2e_world.SERVERS_AT_ONCE)

    async def written(story: Story, configuration: Configuration) -> dict[str, int]:
        async with slots, running_cluster(FLEET) as world:
            await world.start_queueing(configuration)
            await story(world)
            return await writes_of_restarted_controllers(world, configuration)

    async def run_concurrently() -> list[dict[str, int]]:
        return await asyncio.gather(*(written(*each) for each in stories))

    found = shared_clusters.run(run_concurrently())
    assert {story.__name__: each for (story, _), each in zip(stories, found, strict=True) if each} == {}
