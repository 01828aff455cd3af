"""The gang scheduler places no pods of others on the nodes of a window that they may run into."""

from datetime import UTC, datetime
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.quorate import Reservation
from quorate.gang.cache.reserved_nodes import WINDOWS
from quorate.gang.session_run import run_session
from tests.gang.test_faults import SETTINGS
from tests.gang.world import World

NOW = 1_767_225_600.0
OPENS, CLOSES = NOW + 100, NOW + 200
BOUND, QUEUE = "kueue.x-k8s.io/max-exec-time-seconds", "kueue.x-k8s.io/queue-name"


def a_reservation(**spec: Any) -> Reservation:
    """Return a reservation of node n1."""
    start, end = (datetime.fromtimestamp(moment, UTC).isoformat() for moment in (OPENS, CLOSES))
    fields = {"start": start, "end": end, "nodes": {"names": ["n1"]}, **spec}
    return codec.convert(Reservation, {"metadata": {"name": "night"}, "spec": fields})


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
