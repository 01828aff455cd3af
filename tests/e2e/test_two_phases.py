"""Admission checks and foreign admission gates, over HTTP: quota first, then the checks."""

from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.meta import Key, find_condition
from quorate.kube.client import PatchKind
from quorate.kube.errors import NotFound
from quorate.kube.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, EVENTS, JOBS, PODS, WORKLOADS
from quorate.local.nodes import NodePool
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

PLAIN = Configuration()
NODES = NodePool(1, cpu="8", labels={"zone": "b"})
FINALIZER = "kueue.x-k8s.io/resource-in-use"


async def checked_queues(world: World, **rule: Any) -> None:
    """Create a queue with an admission check; the test sets its state."""
    await world.create(ADMISSION_CHECKS, "prov", spec={"controllerName": "example.com/by-hand"})
    ready = {
        "type": "Active", "status": "True", "reason": "Active", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    await world.client.patch(
        ADMISSION_CHECKS, Key("", "prov"), {"status": {"conditions": [ready]}}, subresource="status"
    )
    checks = {"admissionChecks": [{"name": "prov", **rule}]}
    await world.queues(cpu="4", admissionChecksStrategy=checks)


async def answer(world: World, job: str, state: str, message: str = "", **more: Any) -> None:
    """Set the state of the check as its controller does: one entry, for the newest version."""

    async def reserved() -> bool:
        workload = await world.workload(job)
        return workload is not None and workload.status.admission is not None

    await world.until("a reservation", reserved)
    workload = await world.workload(job)
    assert workload is not None
    entry = {
        "name": "prov", "state": state, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
        **more,
    }  # fmt: skip
    await world.client.patch(
        WORKLOADS, workload.metadata.key, {"status": {"admissionChecks": [entry]}}, subresource="status"
    )


async def event_note(world: World, kind: str, reason: str) -> str:
    async def find() -> str:
        listed = await world.client.list(EVENTS, NAMESPACE)
        notes = (
            each.note
            for each in listed.items
            if each.regarding is not None and (each.regarding.kind, each.reason) == (kind, reason)
        )
        return next(notes, "")

    return await world.until(f"an event {reason} about a {kind}", find)


def test_a_pending_check_delays_admission_and_a_ready_one_updates_the_pods() -> None:
    async def story(world: World) -> None:
        await checked_queues(world)
        await world.job("train")
        await answer(world, "train", "Pending", "nodes are on their way")
        assert await event_note(world, "Job", "UpdatedAdmissionCheck") == "prov: nodes are on their way"
        assert (await world.get_job("train")).spec.suspend

        update = {"name": "main", "nodeSelector": {"zone": "b"}, "annotations": {"example.com/by": "prov"}}
        await answer(world, "train", "Ready", podSetUpdates=[update])
        await world.until_finished("train")
        assert (await event_note(world, "Workload", "Admitted")).startswith(
            "Admitted by ClusterQueue research"
        )
        (pod,) = (await world.client.list(PODS, NAMESPACE)).items
        assert pod.spec.node_selector == {"zone": "b"}
        assert pod.metadata.annotations["example.com/by"] == "prov"

    run_story(story, PLAIN, NODES)


def test_a_check_update_that_conflicts_with_the_job_finishes_it_unstarted() -> None:
    async def story(world: World) -> None:
        await checked_queues(world)
        await world.job("train", nodeSelector={"zone": "a"})
        update = {"name": "main", "nodeSelector": {"zone": "b"}}
        await answer(world, "train", "Ready", podSetUpdates=[update])
        failed = await world.until_condition("train", "Finished", reason="FailedToStart")
        found = find_condition(failed.status.conditions, "Finished")
        assert found is not None
        assert "zone" in found.message
        assert (await world.get_job("train")).spec.suspend

    run_story(story, PLAIN, NODES)


def test_a_retry_check_evicts_a_running_workload() -> None:
    async def story(world: World) -> None:
        await checked_queues(world, onFlavors=["default"])
        await world.job("train", runs="1h")
        await answer(world, "train", "Ready")
        await world.until_admitted("train")
        await answer(world, "train", "Retry", "the nodes were lost")
        evicted = await world.until_condition("train", "Evicted", reason="AdmissionCheck")
        found = find_condition(evicted.status.conditions, "Evicted")
        assert found is not None
        assert found.message == ('Evicted due to AdmissionCheck in Retry state: "prov" (the nodes were lost)')
        back = await world.until_condition("train", "QuotaReserved")
        assert back.status.admission_checks[0].state == "Pending"
        assert back.status.admission_checks[0].retry_count == 1

    run_story(story, PLAIN, NODES)


def test_a_rejected_workload_is_deactivated_and_a_user_reactivates_it() -> None:
    async def story(world: World) -> None:
        await checked_queues(world)
        await world.job("train")
        await answer(world, "train", "Rejected", "no such nodes")
        rejected = await world.until_condition("train", "Evicted", reason="DeactivatedDueToAdmissionCheck")
        assert await event_note(world, "Workload", "AdmissionCheckRejected")
        await world.until_condition("train", "QuotaReserved", "False")
        assert not rejected.spec.active
        await world.client.patch(WORKLOADS, rejected.metadata.key, {"spec": {"active": True}})
        await answer(world, "train", "Ready")
        await world.until_finished("train")

    run_story(story, PLAIN, NODES)


def test_a_check_keeps_its_finalizer_while_a_cluster_queue_uses_it() -> None:
    async def story(world: World) -> None:
        await checked_queues(world)

        async def held() -> bool:
            check = await world.client.get(ADMISSION_CHECKS, Key("", "prov"))
            return FINALIZER in check.metadata.finalizers

        async def is_deleted() -> bool:
            try:
                await world.client.get(ADMISSION_CHECKS, Key("", "prov"))
            except NotFound:
                return True
            return False

        await world.until("the check has the finalizer", held)
        await world.client.delete(ADMISSION_CHECKS, Key("", "prov"))
        assert not await is_deleted()
        await world.client.patch(
            CLUSTER_QUEUES, Key("", "research"), {"spec": {"admissionChecksStrategy": None}}
        )
        await world.until("the check is deleted", is_deleted)

    run_story(story, PLAIN)


def test_a_workload_with_admission_gates_waits_until_they_are_removed() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("train", annotations={"kueue.x-k8s.io/admission-gated-by": "example.com/budget"})
        await world.until_condition(
            "train", "QuotaReserved", "False", "AdmissionGated", "Admission is gated by: example.com/budget"
        )
        assert "example.com/budget" in await event_note(world, "Workload", "AdmissionGated")
        remove_gate = [{"op": "remove", "path": "/metadata/annotations/kueue.x-k8s.io~1admission-gated-by"}]
        await world.client.patch(JOBS, Key(NAMESPACE, "train"), remove_gate, kind=PatchKind.JSON)
        await world.until_finished("train")
        assert await event_note(world, "Workload", "AdmissionGateCleared")

    run_story(story, PLAIN, NODES)
