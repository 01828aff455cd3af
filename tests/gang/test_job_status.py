"""The status of a pod group at the end of a session, written once."""

from typing import Any

import msgspec
import pytest

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.volcano import PodGroupCondition
from quorate.gang.job_status import RENEWAL_S, job_statuses
from quorate.gang.outcome import Counts, GangStatus
from quorate.gang.pending_reasons import Cause, GangUnschedulable, NotEnoughResources, PendingReason
from quorate.gang.session_opening import open_session
from quorate.gang.shortage import Shortage
from tests.gang import objects
from tests.gang.vectors import settings_of
from tests.gang.world import World

A = Key("default", "a")


def settings(profile: str, *plugins: str) -> SchedulerConfiguration:
    read = settings_of({"actions": "allocate", "tiers": [list(plugins)]}, profile)
    return msgspec.structs.replace(read, actions=())


def world(group: dict[str, Any], *pods: dict[str, Any]) -> World:
    given = {
        "nodes": [{"name": "n1", "cpu": 8}],
        "podGroups": [{"name": "a", **group}],
        "pods": [{"group": "a", "cpu": 1, **pod} for pod in pods],
    }
    return World(given, settings("design", "gang"), restarting=False)


def status_after(
    world: World,
    profile: str = "design",
    *,
    pending_reason: PendingReason | None = None,
    plugins: tuple[str, ...] = ("gang",),
) -> GangStatus | None:
    """Return the conditions of group a after a session with ``pending_reason``."""
    session = open_session(world.model, settings(profile, *plugins), world.now)
    if pending_reason is not None:
        session.pending_reasons[A] = pending_reason
    statuses = job_statuses(session)
    for status in statuses:
        world.model.assumed.set_status(status)
    assert len(statuses) <= 1
    return statuses[0] if statuses else None


def conditions_of(status: GangStatus | None) -> dict[str, tuple[str, str]]:
    assert status is not None
    return {condition.type: (condition.reason, condition.message) for condition in status.conditions}


PENDING = {"name": "p", "count": 2}
RUNNING = {"name": "r", "count": 2, "node": "n1", "phase": "Running"}
READY = ("tasks in gang are ready to be scheduled", "")
FULL = GangUnschedulable(2, 2, Cause("1 node is full"))


@pytest.mark.parametrize(
    ("group", "pods", "profile", "pending_reason", "want"),
    [
        pytest.param(
            {"phase": "Inqueue", "minMember": 2}, [PENDING], "design", FULL,
            {"Unschedulable": ("NotEnoughResources", "2 of 2 members found no node: 1 node is full")},
            id="no node was found",
        ),
        pytest.param(
            {"phase": "Inqueue", "minMember": 3}, [PENDING], "design", None,
            {"Unschedulable": ("NotEnoughTasks", "2 of 3 members exist")},
            id="members are missing",
        ),
        pytest.param(
            {"phase": "Inqueue", "minMember": 2, "minTaskMember": {"ps": 1, "worker": 1}},
            [{"name": "w", "count": 2, "role": "worker"}], "design", None,
            {"Unschedulable": ("NotEnoughPodsOfTask", "role ps: 0 of 1 members exist")},
            id="a role is missing",
        ),
        pytest.param(
            {"phase": "Inqueue", "minMember": 2}, [PENDING | {"gated": True}], "design", None,
            {"Unschedulable": (
                "NotEnoughResources", "2 of 2 members found no node: 2 have scheduling gates",
            )},
            id="not tried because the pods are gated",
        ),
        pytest.param(
            {"phase": "Running", "minMember": 2}, [RUNNING], "design", None, {"Scheduled": READY}, id="ready"
        ),
        pytest.param(
            {"phase": "Inqueue", "minMember": 3}, [PENDING], "compat", None,
            {"Unschedulable": (
                "NotEnoughResources",
                "3/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 3 minAvailable",
            )},
            id="profile compat has one reason",
        ),
        pytest.param(
            {"phase": "Inqueue", "minMember": 2}, [PENDING], "compat",
            GangUnschedulable(1, 2, Cause("0/1 nodes are available: 1 Insufficient cpu")),
            {"Unschedulable": (
                "NotEnoughResources",
                "1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; "
                "Pending: 1 Unschedulable, 1 Schedulable. "
                "Origin reason is 0/1 nodes are available: 1 Insufficient cpu",
            )},
            id="profile compat counts members that found a node",
        ),
    ],
)  # fmt: skip
def test_the_readiness_condition(
    group: dict[str, Any],
    pods: list[dict[str, Any]],
    profile: str,
    pending_reason: PendingReason | None,
    want: dict[str, tuple[str, str]],
) -> None:
    assert conditions_of(status_after(world(group, *pods), profile, pending_reason=pending_reason)) == want


def test_without_the_plugin_gang_readiness_is_not_reported() -> None:
    status = status_after(world({"phase": "Inqueue", "minMember": 3}, PENDING), plugins=("priority",))
    assert status is None


def test_the_readiness_of_groups_without_members_is_not_reported() -> None:
    assert status_after(world({"phase": "Inqueue", "minMember": 3})) is None


@pytest.mark.parametrize(("profile", "checked"), [("design", False), ("compat", True)])
def test_enqueue_reports_on_pending_groups_with_pods_in_design(profile: str, checked: bool) -> None:
    status = status_after(world({"phase": "Pending", "minMember": 3}, PENDING), profile)
    assert (status is not None) == checked


def test_pending_best_effort_members_count_in_compat_only() -> None:
    group, pods = {"phase": "Inqueue", "minMember": 2}, {"name": "be", "count": 2, "cpu": 0}
    assert conditions_of(status_after(world(group, pods), "compat")) == {"Scheduled": READY}
    assert "Unschedulable" in conditions_of(status_after(world(group, pods)))


def test_a_ready_group_loses_unschedulable_in_design() -> None:
    for profile, left in (("design", {"Scheduled"}), ("compat", {"Scheduled", "Unschedulable"})):
        here = world({"phase": "Inqueue", "minMember": 2}, PENDING)
        status_after(here, profile, pending_reason=FULL)
        for pod in list(here.pods.values()):
            here.put_pods([objects.with_node(pod, "n1")])
        assert set(conditions_of(status_after(here, profile))) == left


def test_a_completed_group_is_not_unschedulable() -> None:
    members = [{"name": "s", "phase": "Succeeded"}, {"name": "f", "phase": "Failed"}]
    status = status_after(world({"phase": "Running", "minMember": 2}, *members))
    assert status is not None
    assert (status.phase, status.conditions) == ("Completed", ())
    assert status.counts == Counts(running=0, succeeded=1, failed=1)


def test_an_unchanged_status_is_written_once() -> None:
    here = world({"phase": "Inqueue", "minMember": 2}, PENDING)
    first = status_after(here, pending_reason=FULL)
    assert first is not None
    here.now += 60
    assert status_after(here, pending_reason=FULL) is None
    assert first.conditions[0].transition_id == "1970-01-01T00:16:40.000000Z"


def short(need: int, free: int, most: int) -> NotEnoughResources:
    return NotEnoughResources((Shortage("cpu", need, free, most),))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_change_of_free_amounts_does_not_change_the_condition(restarted: bool) -> None:
    here = world({"phase": "Pending", "minMember": 2})
    changed = status_after(here, pending_reason=short(4000, 1000, 8000))
    assert conditions_of(changed) == {
        "Unschedulable": ("NotEnoughResources", "cluster: cpu: need 4, have 1 now")
    }
    if restarted:
        here.model.gangs[A].reported.refusal = None
    assert status_after(here, pending_reason=short(4000, 3000, 9000)) is None
    assert status_after(here, pending_reason=short(5000, 3000, 9000)) is not None  # but what it needs is
    never = status_after(here, pending_reason=short(5000, 3000, 4000))  # and that it can never have it
    assert conditions_of(never)["Unschedulable"][1] == (
        "cluster: cpu: need 5, have 3 now and 4 at most, so it can never fit"
    )


@pytest.mark.parametrize("restarted", [False, True])
def test_the_amounts_in_a_condition_are_renewed_after_a_minute(restarted: bool) -> None:
    here = world({"phase": "Pending", "minMember": 2})
    first = status_after(here, pending_reason=short(4000, 1000, 8000))
    assert first is not None
    if restarted:
        here.model.gangs[A].reported.refusal = None
    for _ in range(2):  # a session may see the new amounts first, or again
        session = open_session(here.model, settings("design", "gang"), here.now)
        session.pending_reasons[A] = short(4000, 3000, 9000)
        assert job_statuses(session) == ()
        assert session.wake_at == here.now + RENEWAL_S

    here.now += RENEWAL_S + 1
    second = status_after(here, pending_reason=short(4000, 3000, 9000))
    assert second is not None
    (old,), (new,) = first.conditions, second.conditions
    assert (new.message, new.last_transition_time) == (
        "cluster: cpu: need 4, have 3 now", old.last_transition_time,
    )  # fmt: skip
    here.now += RENEWAL_S + 1
    assert status_after(here, pending_reason=short(4000, 3000, 9000)) is None


def test_a_change_of_node_counts_does_not_change_the_condition() -> None:
    here = world({"phase": "Inqueue", "minMember": 2}, PENDING)

    def changed(because: str) -> bool:
        return status_after(here, pending_reason=GangUnschedulable(2, 2, Cause(because))) is not None

    assert changed("0/5 nodes are available: 5 Insufficient cpu (need 2, 1 at most)")
    assert not changed("0/6 nodes are available: 6 Insufficient cpu (need 2, 500m at most)")
    assert changed("0/6 nodes are available: 5 Insufficient cpu (need 2, 1 at most), 1 node(s) were cordoned")
    assert changed("0/6 nodes are available: 6 Insufficient memory (need 2Gi, 1Gi at most)")


def test_the_transition_time_is_when_the_status_changed() -> None:
    here = world({"phase": "Pending", "minMember": 2})
    first = status_after(here, pending_reason=short(4000, 1000, 8000))
    here.now += 60
    second = status_after(here, pending_reason=short(5000, 1000, 8000))
    assert first is not None
    assert second is not None
    (old,), (new,) = first.conditions, second.conditions
    assert new.last_transition_time == old.last_transition_time
    assert old.transition_id != new.transition_id


def test_conditions_of_other_writers_stay() -> None:
    here = world({"phase": "Inqueue", "minMember": 2}, PENDING)
    mine = PodGroupCondition(type="Mine", status="True")
    group = here.groups[A]
    here.put_group(
        msgspec.structs.replace(group, status=msgspec.structs.replace(group.status, conditions=(mine,)))
    )
    status = status_after(here, pending_reason=FULL)
    assert status is not None
    assert status.conditions[0] is mine


def test_phase_running_resets_the_attempts() -> None:
    notes = {
        "scheduling.volcano.sh/inqueue-since": "1970-01-01T00:16:00Z",
        "scheduling.volcano.sh/requeue-attempts": "3",
    }
    status = status_after(world({"phase": "Inqueue", "minMember": 2, "annotations": notes}, RUNNING))
    assert status is not None
    record = status.admission
    assert (status.phase, record.attempts, record.inqueue_since, record.not_before) == (
        "Running",
        0,
        None,
        None,
    )
