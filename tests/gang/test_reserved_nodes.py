"""The gang scheduler places no pods of others on the nodes of a window that they may run into."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import event
from hypothesis import given as given_by
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.quorate import Reservation
from quorate.gang.cache.reserved_nodes import WINDOWS
from quorate.gang.pending_reasons import (
    FurtherMembersWait,
    GangUnschedulable,
    PendingReason,
    ReservedWindow,
)
from quorate.gang.session_run import run_session
from tests.gang import objects
from tests.gang.generated_worlds import worlds
from tests.gang.test_faults import SETTINGS
from tests.gang.vectors import settings_of
from tests.gang.world import World, name_of
from tests.search import examples

NOW = 1_767_225_600.0
OPENS, CLOSES = NOW + 100, NOW + 200
BOUND, QUEUE = "kueue.x-k8s.io/max-exec-time-seconds", "kueue.x-k8s.io/queue-name"


def a_reservation(name: str = "night", opens: float = OPENS, **spec: Any) -> Reservation:
    """Return a reservation of node n1."""
    start, end = (datetime.fromtimestamp(moment, UTC).isoformat() for moment in (opens, opens + 100))
    fields = {"start": start, "end": end, "nodes": {"names": ["n1"]}, **spec}
    return codec.convert(Reservation, {"metadata": {"name": name}, "spec": fields})


def a_world(**labels: str) -> World:
    """Return a world of two nodes with 4 cpus, and a gang of two pods with 3 cpus."""
    pods = [{"name": f"a-{number}", "group": "a", "cpu": 3, "labels": labels} for number in (0, 1)]
    given = {
        "nodes": [{"name": name, "cpu": 4} for name in ("n1", "n2")],
        "podGroups": [{"name": "a", "minMember": 2, "phase": "Inqueue"}],
        "pods": pods,
        "now": NOW,
    }
    return World(given, SETTINGS, restarting=False)


def nodes_of(world: World, now: float) -> list[str]:
    return sorted(bind.node for bind in run_session(world.model, SETTINGS, now).binds)


@pytest.mark.parametrize(
    ("spec", "labels", "now", "starts"),
    [
        pytest.param({"purpose": "Maintenance"}, {}, NOW, False, id="without a bound it may run into it"),
        pytest.param({"purpose": "Maintenance"}, {BOUND: "100"}, NOW, True, id="it ends when it begins"),
        pytest.param({"purpose": "Maintenance"}, {BOUND: "101"}, NOW, False, id="it ends a second later"),
        pytest.param({"purpose": "Maintenance"}, {BOUND: "1"}, OPENS, False, id="the window has begun"),
        pytest.param({"purpose": "Maintenance"}, {}, CLOSES, True, id="the window has ended"),
        pytest.param({"owners": {"namespaces": ["default"]}}, {}, OPENS, True, id="its namespace owns it"),
        pytest.param({"owners": {"namespaces": ["other"]}}, {}, OPENS, False, id="another namespace does"),
        pytest.param(
            {"owners": {"localQueues": [{"namespace": "default", "name": "vip"}]}},
            {QUEUE: "vip"},
            OPENS,
            True,
            id="its local queue owns it",
        ),
    ],
)
def test_a_gang_beside_a_window(
    spec: dict[str, Any], labels: dict[str, str], now: float, starts: bool
) -> None:
    world = a_world(**labels)
    world.model.set_reservation(a_reservation(**spec))
    assert nodes_of(world, now) == (["n1", "n2"] if starts else [])
    assert not world.model.cluster.room_of(WINDOWS).pods, "held in a turn only"


def test_a_session_is_due_when_a_window_begins_and_ends_and_what_waited_starts() -> None:
    world = a_world()
    world.model.set_reservation(a_reservation(purpose="Maintenance"))
    outcomes = [run_session(world.model, SETTINGS, now) for now in (NOW, OPENS)]
    assert [outcome.wake_at for outcome in outcomes] == [OPENS, CLOSES]
    assert nodes_of(world, CLOSES) == ["n1", "n2"]


def test_without_the_reservation_the_nodes_are_free() -> None:
    world = a_world()
    world.model.set_reservation(a_reservation(purpose="Maintenance"))
    assert nodes_of(world, OPENS) == []
    world.model.remove_reservation("night")
    assert nodes_of(world, OPENS) == ["n1", "n2"]


def reasons_of(world: World, now: float) -> dict[str, PendingReason]:
    return {name_of(key): why for key, why in run_session(world.model, SETTINGS, now).pending_reasons.items()}


def test_a_gang_that_a_window_keeps_from_its_nodes_is_told_so() -> None:
    world = a_world()
    world.model.set_reservation(a_reservation(purpose="Maintenance"))
    reason = reasons_of(world, NOW)["a"]
    assert reason == ReservedWindow("night", OPENS, CLOSES, nodes=1, missing=1, needed=2)
    assert str(reason) == (
        "reserved for night from 2026-01-01 00:01:40 to 2026-01-01 00:03:20 UTC: 1 node; "
        "1 of 2 members found no node beside it"
    )


def test_the_first_window_that_keeps_a_node_of_the_gang_is_named() -> None:
    world = a_world()
    late = CLOSES + 100
    for name, node, opens in (("later", "n1", late), ("elsewhere", "n3", OPENS), ("first", "n2", OPENS)):
        world.model.set_reservation(
            a_reservation(name, opens, purpose="Maintenance", nodes={"names": [node]})
        )
    reason = reasons_of(world, NOW)["a"]
    assert reason == ReservedWindow("first", OPENS, CLOSES, nodes=2, missing=2, needed=2)


def test_members_beyond_the_minimum_are_told_of_the_window() -> None:
    world = a_world()
    world.model.set_reservation(a_reservation(purpose="Maintenance"))
    world.put_group(objects.pod_group({"name": "a", "minMember": 1, "phase": "Inqueue"}))
    reason = reasons_of(world, NOW)["a"]
    assert isinstance(reason, FurtherMembersWait)
    assert (
        str(reason.cause) == "reserved for night from 2026-01-01 00:01:40 to 2026-01-01 00:03:20 UTC: 1 node"
    )


def test_a_gang_that_other_pods_keep_out_is_not_told_of_a_window() -> None:
    world = a_world()
    world.model.set_reservation(a_reservation(purpose="Maintenance"))
    for pod in objects.pods({"name": "web", "cpu": 2, "node": "n2", "phase": "Running"}, {}):
        world.put_pods([pod])
    reason = reasons_of(world, NOW)["a"]
    assert isinstance(reason, GangUnschedulable)


@examples(300)
@given_by(drawn=worlds(), kept=st.lists(st.sets(st.integers(0, 2), min_size=1), min_size=1, max_size=2))
def test_a_gang_is_told_of_a_window_if_and_only_if_it_would_start_without_it(
    drawn: dict[str, Any], kept: list[set[int]]
) -> None:
    """The next session without Reservations gives nodes to these gangs, and to no others."""
    tiers = [["priority", "gang"], ["predicates"]]
    admitting, configured = (
        settings_of({"actions": actions, "tiers": tiers}, "design")
        for actions in ("enqueue", "allocate, backfill")
    )
    world = World({**drawn, "now": NOW}, configured, restarting=False)
    run_session(world.model, admitting, NOW)
    for name, nodes in zip(("night", "day"), kept, strict=False):
        kept_nodes = {"names": [f"n{index}" for index in nodes]}
        world.model.set_reservation(a_reservation(name, purpose="Maintenance", nodes=kept_nodes))
    outcome = run_session(world.model, configured, NOW)
    told = {key for key, why in outcome.pending_reasons.items() if isinstance(why, ReservedWindow)}
    waiting = {key for key, gang in world.model.gangs.items() if gang.is_starving}
    for name in ("night", "day"):
        world.model.remove_reservation(name)
    after = run_session(world.model, configured, NOW)
    event(f"{len(told)} told")
    gang_of = {task.key: gang.key for gang in world.model.gangs.values() for task in gang.tasks.values()}
    placed = {bind.task for bind in after.binds} | (after.pipelined.keys() - outcome.pipelined.keys())
    assert told == waiting & {gang_of[key] for key in placed}
