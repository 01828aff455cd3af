"""The condition ``quorate.dev/Waiting``: the typed reason of a wait, in the writes of Kueue's conditions."""

import pytest

from quorate.api.configuration.feature_gates import DEFAULT_GATES
from quorate.api.kueue import Workload
from quorate.api.meta import Condition, Key, ObjectMeta, Uid, at_epoch, find_condition, with_condition
from quorate.queueing import conditions as c
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.decisions import Hold
from quorate.queueing.lifecycle.statuses import evict_status, finish_status, hold_status
from quorate.queueing.pending.ordering import affects_scheduling
from quorate.queueing.typed_reasons import waiting_condition
from tests.queueing.world import World

SHORT = r.QuotaShort("main", "default", "cpu", needed=2000, available=1000, maximum=4000)
SHORT_TEXT = "pod set main: cpu of flavor default: needs 2, 1 free, short by 1, at most 4"
LESS_SHORT = r.QuotaShort("main", "default", "cpu", needed=2000, available=1500, maximum=4000)
TAINT = r.TaintUntolerated("main", "spot", "gpu", "yes", "NoSchedule")


@pytest.mark.parametrize(
    ("reasons", "code", "message"),
    [
        pytest.param((SHORT,), "QuotaShort", SHORT_TEXT, id="numbers"),
        pytest.param(
            (TAINT, SHORT),
            "QuotaShort",
            f"pod set main: untolerated taint {{gpu yes NoSchedule}} in flavor spot; {SHORT_TEXT}",
            id="the reason that resolves first decides",
        ),
        pytest.param(
            (r.PlacementRefused("main", "no TAS flavor assigned"),),
            "PlacementRefused",
            "pod set main: no TAS flavor assigned",
            id="a request that is invalid has no numbers",
        ),
        pytest.param(
            (SHORT, r.QueueInactive("ClusterQueue", "a")),
            "QueueInactive",
            f"{SHORT_TEXT}; ClusterQueue a is inactive",
            id="a reason of the whole workload comes first",
        ),
    ],
)
def test_the_condition_has_the_code_and_the_numbers(
    reasons: tuple[r.InadmissibleReason, ...], code: str, message: str
) -> None:
    (condition,) = waiting_condition(reasons, 10.0, 1)
    assert (condition.type, condition.status, condition.reason) == (c.WAITING, "True", code)
    assert condition.message == message


def test_no_reasons_no_condition() -> None:
    assert waiting_condition((), 10.0, 1) == ()


def a_hold(*reasons: r.InadmissibleReason) -> Hold:
    return Hold(
        key=Key("ns", "w"), uid=Uid("u"), resource_version="1", condition_reason="Pending", reasons=reasons,
        requests=(),
    )  # fmt: skip


def waiting(workload: Workload) -> Condition | None:
    return find_condition(workload.status.conditions, c.WAITING)


def held(workload: Workload, now: float, *reasons: r.InadmissibleReason) -> Workload:
    status = hold_status(workload, a_hold(*reasons), now, DEFAULT_GATES)
    assert status is not None
    return Workload(metadata=workload.metadata, spec=workload.spec, status=status)


def test_the_time_is_that_of_the_code() -> None:
    first = held(Workload(metadata=ObjectMeta(name="w", namespace="ns")), 10.0, SHORT)
    same_code = held(first, 20.0, LESS_SHORT)
    other_code = held(same_code, 30.0, TAINT)
    found = [waiting(each) for each in (first, same_code, other_code)]
    assert [each.last_transition_time for each in found if each is not None] == [
        at_epoch(10.0), at_epoch(10.0), at_epoch(30.0),
    ]  # fmt: skip
    assert found[1] is not None
    assert "1500m free" in found[1].message


def test_it_costs_no_write_of_its_own() -> None:
    """Kueue's message of the second outcome is the same, so nothing is written."""
    first = held(Workload(metadata=ObjectMeta(name="w", namespace="ns")), 10.0, SHORT)
    more_needed = r.QuotaShort("main", "default", "cpu", needed=3000, available=2000, maximum=4000)
    assert hold_status(first, a_hold(more_needed), 20.0, DEFAULT_GATES) is None


def test_it_ends_with_the_wait() -> None:
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"a": {"quota": [{"default": {"cpu": 4}}]}},
            "workloads": [
                {"name": "busy", "queue": "a", "requests": {"cpu": 4}, "admitted": "default"},
                {"name": "next", "queue": "a", "requests": {"cpu": 2}, "created": 2},
            ],
        }
    )
    world.run("cycle")
    assert waiting(world.workloads["next"]) is not None
    world.run({"finish": ["busy"]})
    world.run("cycle")
    assert c.has_quota_reservation(world.workloads["next"])
    assert waiting(world.workloads["next"]) is None

    pending = held(Workload(metadata=ObjectMeta(name="w", namespace="ns")), 10.0, SHORT)
    evicted = evict_status(pending, "Deactivated", "by a user", 20.0, counted_as=("Deactivated", ""))
    finished = finish_status(pending, "Succeeded", "", 20.0)
    assert finished is not None
    for status in (evicted, finished):
        assert find_condition(status.conditions, c.WAITING) is None


def test_it_ends_when_another_program_has_reserved_the_quota() -> None:
    reserved = c.new_condition(c.QUOTA_RESERVED, "True", "QuotaReserved", "by another program", 20.0, 1)
    pending = held(Workload(metadata=ObjectMeta(name="w", namespace="ns")), 10.0, SHORT)
    stored = with_condition(pending.status.conditions, reserved)
    ready = c.new_condition(c.PODS_READY, "False", "WaitForStart", "", 30.0, 1)
    assert find_condition(stored, c.WAITING) is not None
    assert [each.type for each in c.with_conditions(stored, ready)] == [
        c.QUOTA_RESERVED,
        c.ADMITTED,
        c.PODS_READY,
    ]


def test_requeued_says_that_devices_cannot_be_counted_as_long_as_they_cannot() -> None:
    """As in Kueue; the condition, which its controllers may have left, delays nothing."""
    new = Workload(metadata=ObjectMeta(name="w", namespace="ns"))
    uncounted = held(new, 10.0, r.DevicesUncounted(("a finding",)))
    requeued = find_condition(uncounted.status.conditions, c.REQUEUED)
    assert requeued is not None
    assert (requeued.status, requeued.reason, requeued.message) == ("False", "Inadmissible", "a finding")
    assert not c.is_backing_off(uncounted, 10.0)
    assert not affects_scheduling(new, uncounted)
    assert find_condition(held(uncounted, 20.0, SHORT).status.conditions, c.REQUEUED) is None
