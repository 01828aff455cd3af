"""Rollback of admitted groups, with back-off and events."""

from typing import Any

import msgspec
import pytest

from tests.gang.enqueue_worlds import (
    INQUEUE,
    QUOTA,
    RESOURCES,
    Json,
    group,
    group_states,
    pod,
    rq,
    running,
    world,
)
from tests.gang.objects import pod_group, quota
from tests.gang.world import key_of


@pytest.mark.parametrize("restarting", [False, True])
def test_each_rollback_doubles_the_back_off_up_to_the_maximum(restarting: bool) -> None:
    here = world(
        {"podGroups": [group("a", "4")]}, restarting=restarting, requeue_backoff_max=25, inqueue_timeout="0"
    )
    waits = []
    for _ in range(4):
        here.session()
        assert group_states(here) == {"a": "Inqueue"}
        here.do("removeNodes", ["n1"])
        began = here.now
        outcome = here.session()
        assert group_states(here) == {"a": RESOURCES}
        here.do("addNodes", [{"name": "n1", "cpu": 4}])
        here.session()
        assert group_states(here) == {"a": RESOURCES}
        assert outcome.wake_at is not None
        here.now = outcome.wake_at
        waits.append(here.now - began)
    assert waits == [10, 20, 25, 25]


def test_running_resets_the_back_off() -> None:
    notes = {"scheduling.volcano.sh/requeue-attempts": "4"}
    here = world({"podGroups": [group("a", "1", annotations=notes, **INQUEUE)], "pods": [running("a")]})
    here.session()
    assert here.groups[key_of("a")].metadata.annotations == {}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("cpu", "want"), [("3", 10), ("4", 20)])
def test_a_changed_spec_resets_the_back_off(restarted: bool, cpu: str, want: int) -> None:
    """The scheduler observes the change, or a new one starts after it."""
    here = world({"podGroups": [group("a", "4", **INQUEUE)], "nodes": []})
    here.session()
    here.do("advance", 10)
    here.do("addNodes", [{"name": "n1", "cpu": 4}])
    here.session()
    assert group_states(here) == {"a": "Inqueue"}
    stored = here.groups[key_of("a")]
    opened = msgspec.structs.replace(stored, spec=pod_group(group("a", cpu)).spec)
    if restarted:
        here.groups[key_of("a")] = opened
        here.model = here.fresh_model()
    else:
        here.put_group(opened)
    here.do("removeNodes", ["n1"])
    assert here.session().wake_at == here.now + want


@pytest.mark.parametrize("restarting", [False, True])
def test_a_group_without_pods_in_time_is_rolled_back(restarting: bool) -> None:
    here = world({"podGroups": [group("a", "4", minMember=2)]}, restarting=restarting, inqueue_timeout="60s")
    outcome = here.session()
    assert outcome.wake_at == here.now + 60
    here.do("advance", 59)
    here.session()
    assert group_states(here) == {"a": "Inqueue"}
    here.do("advance", 1)
    here.session()
    assert group_states(here) == {"a": "InqueueTimeout"}


def test_a_timeout_of_zero_is_no_timeout() -> None:
    here = world({"podGroups": [group("a", "4", minMember=2)]}, inqueue_timeout="0")
    assert here.session().wake_at is None
    here.do("advance", 10**6)
    here.session()
    assert group_states(here) == {"a": "Inqueue"}


def test_the_timeout_of_a_group_without_admission_time_starts_now() -> None:
    here = world({"podGroups": [group("a", "1", minMember=2, **INQUEUE)]})
    assert here.session().wake_at == here.now + 300
    assert here.groups[key_of("a")].metadata.annotations["scheduling.volcano.sh/inqueue-since"]


SINCE = {"annotations": {"scheduling.volcano.sh/inqueue-since": "1970-01-01T00:00:00Z"}, **INQUEUE}


@pytest.mark.parametrize(
    ("pods", "conditions", "want"),
    [
        pytest.param([pod("a"), pod("a", "a-1")], [], "Inqueue",
            id="all members exist and the group is schedulable"),
        pytest.param([pod("a")], [], "InqueueTimeout", id="one member is missing"),
        pytest.param([pod("a"), pod("a", "a-1", deleting=True)], [], "InqueueTimeout",
            id="one member is being deleted"),
        pytest.param(
            [pod("a"), pod("a", "a-1")], [{"type": "Unschedulable", "status": "True"}], "InqueueTimeout",
            id="they fit nowhere",
        ),
        pytest.param(
            [pod("a"), pod("a", "a-1")], [{"type": "Unschedulable", "status": "False"}], "Inqueue",
            id="they fit now",
        ),
        pytest.param([pod("a", nominated="n1")], [], "Inqueue", id="pods are evicted for one member"),
        pytest.param([pod("a", cpu="5", nominated="n1")], [], "InqueueTimeout",
            id="the evictions do not suffice"),
        pytest.param([pod("a", nominated="n9")], [], "InqueueTimeout", id="the nominated node is gone"),
        pytest.param([pod("a"), running("a", name="a-1")], [], "Unknown", id="one member runs"),
        pytest.param([pod("a"), pod("a", "a-1", phase="Failed")], [], "Inqueue", id="one member has failed"),
        pytest.param(
            [pod("a"), pod("a", "a-1", node="n1", deleting=True)], [], "Inqueue",
            id="one member is releasing its node"
        ),
    ],
)  # fmt: skip
def test_which_groups_time_out(pods: list[Json], conditions: list[Json], want: str) -> None:
    here = world({"podGroups": [group("a", "2", minMember=2, **SINCE)], "pods": pods})
    if conditions:
        key = key_of("a")
        status = msgspec.convert(
            {"phase": "Inqueue", "conditions": conditions}, type(here.groups[key].status)
        )
        here.put_group(msgspec.structs.replace(here.groups[key], status=status))
    here.session()
    phase = here.phase("a")
    assert (phase if phase != "Pending" else group_states(here)["a"]) == want


def test_a_rollback_frees_the_reservation_at_once() -> None:
    here = world(
        {"podGroups": [group("a", "4", minMember=2, created=1, **SINCE), group("b", "4", created=2)]}
    )
    here.session()
    assert group_states(here) == {"a": "InqueueTimeout", "b": "Inqueue"}


def test_a_group_is_not_admitted_in_the_session_that_rolled_it_back() -> None:
    here = world({"podGroups": [group("a", "4", minMember=2, **SINCE)]}, requeue_backoff_base="0")
    here.session()
    assert group_states(here) == {"a": "InqueueTimeout"}
    here.session()
    assert group_states(here) == {"a": "Inqueue"}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (("setQueue", {"name": "default", "state": "Closed"}), "QueueNotOpen"),
        (("setQuota", {"name": "rq", "used": {"cpu": "3"}}), QUOTA),
        (("setQuota", {"name": "rq", "hard": {"cpu": "1"}}), QUOTA),
        (("removeNodes", ["n1"]), RESOURCES),
        (("addPods", [{"name": "web", "cpu": 3, "node": "n1", "phase": "Running"}]), RESOURCES),
        (("setQueue", {"name": "default", "maxPodGroups": 0}), "Inqueue"),
    ],
)
def test_a_lost_reservation_causes_a_rollback(change: tuple[str, Any], want: str) -> None:
    here = world(
        {"quotas": [rq({"cpu": 4})], "podGroups": [group("a", "2")], "queues": [{"name": "default"}]}
    )
    here.session()
    assert group_states(here) == {"a": "Inqueue"}
    here.do(*change)
    here.session()
    assert group_states(here) == {"a": want}


def test_a_quota_charge_for_an_unobserved_member_causes_no_rollback() -> None:
    """The API server charges the quota before it stores the pod, so two watch events follow."""
    here = world(
        {"quotas": [rq({"cpu": 2})], "podGroups": [group("a", "2", created=1), group("b", "1", created=2)]}
    )

    def observe(used: int) -> None:
        here.model.set_quota(quota(rq({"cpu": 2}, {"cpu": used})), observed_at=here.now)

    here.session()
    for member in range(2):
        observe(member + 1)
        outcome = here.session()
        assert group_states(here) == {"a": "Inqueue", "b": QUOTA}
        assert outcome.wake_at == here.now + 1
        here.do("addPods", [pod("a", f"a-{member}")])
        here.session()
        assert group_states(here) == {"a": "Inqueue", "b": QUOTA}


def test_a_quota_charge_for_other_pods_causes_a_rollback_after_the_settling_time() -> None:
    here = world({"quotas": [rq({"cpu": 3})], "podGroups": [group("a", "2")]})
    here.session()
    for used in (1, 2):
        here.model.set_quota(quota(rq({"cpu": 3}, {"cpu": used})), observed_at=here.now)
        outcome = here.session()
        assert group_states(here) == {"a": "Inqueue"}
        here.now += 0.5
    assert outcome.wake_at == 1001
    here.now = 1001
    here.session()
    assert group_states(here) == {"a": "Inqueue"}, "the last charge is not confirmed yet"
    here.now = 1002
    here.session()
    assert group_states(here) == {"a": QUOTA}


def test_the_older_group_stays_admitted() -> None:
    groups = [
        group(name, "2", created=created, **INQUEUE) for name, created in (("b", 1), ("a", 2), ("c", 3))
    ]
    here = world({"podGroups": groups})
    here.session()
    assert group_states(here) == {"b": "Inqueue", "a": "Inqueue", "c": RESOURCES}


def test_a_group_created_anew_starts_afresh() -> None:
    here = world({"podGroups": [group("a", "4", minMember=2, **SINCE)]})
    here.session()
    here.do("deletePodGroups", ["a"])
    here.do("addPodGroups", [group("a", "4")])
    here.session()
    assert group_states(here) == {"a": "Inqueue"}


def test_a_group_that_is_being_deleted_has_no_claim_and_is_not_admitted() -> None:
    here = world({"podGroups": [group("a", "4", **INQUEUE), group("w", "0"), group("b", "4")]})
    for name in ("a", "w"):
        leaving = here.groups[key_of(name)]
        metadata = msgspec.structs.replace(
            leaving.metadata, deletion_timestamp=leaving.metadata.creation_timestamp
        )
        here.put_group(msgspec.structs.replace(leaving, metadata=metadata))
    here.session()
    assert group_states(here) == {"a": "Inqueue", "w": "Pending", "b": "Inqueue"}


# Events.


def test_events_are_repeated_after_an_interval() -> None:
    here = world(
        {"podGroups": [group("a", "4", minMember=2)]}, inqueue_timeout="10s", requeue_backoff_max="10s"
    )

    def events() -> list[tuple[str, str, str]]:
        recorded: list[tuple[str, str, str]] = [
            (each.type, each.reason, each.message) for each in here.session().events
        ]
        here.do("advance", 10)
        return recorded

    assert events() == [("Normal", "Inqueue", "admitted")]
    assert events() == [
        ("Warning", "RolledBack", "InqueueTimeout; next attempt not before 1970-01-01T00:17:00.000000Z")
    ]
    assert [events() for _ in range(28)] == [[]] * 28
    assert [reason for _, reason, _ in events()] == ["Inqueue"]


def test_no_status_is_written_for_an_unchanged_waiting_group() -> None:
    here = world({"podGroups": [group(name, "4") for name in "abcd"]})
    assert len(here.session().statuses) == 4
    here.do("advance", 100)
    outcome = here.session()
    assert (outcome.statuses, outcome.events) == ((), ())
    assert {key.name for key in outcome.pending_reasons} == {"b", "c", "d"}
