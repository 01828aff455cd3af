"""The action ``enqueue`` admits no group for room that the window of a Reservation keeps from it."""

from typing import Any

import pytest
from hypothesis import event
from hypothesis import given as given_by
from hypothesis import strategies as st

from quorate.gang.pending_reasons import ReservedWindow
from quorate.gang.session_run import run_session
from tests.gang.enqueue_worlds import group, pod, running
from tests.gang.objects import Json
from tests.gang.test_reserved_nodes import BOUND, CLOSES, NOW, OPENS, QUEUE, a_reservation
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of, name_of
from tests.search import examples

SHARES = ["gang", "overcommit", "proportion"], ["gang", "capacity"], ["gang", "sla"], ["gang"]
EXACT = {"overcommit": {"overcommit-factor": 1.0}}


def a_world(
    *groups: Json, plugins: list[str], profile: str = "design", nodes: int = 2, **given: Any
) -> World:
    """Return a world of nodes with 4 cpus each."""
    entries = [{"name": name, "arguments": EXACT.get(name, {})} for name in plugins]
    configured = settings_of({"actions": "enqueue", "tiers": [entries]}, profile)
    of_nodes = [{"name": f"n{number}", "cpu": 4} for number in range(1, nodes + 1)]
    return World({"nodes": of_nodes, "podGroups": groups, "now": NOW, **given}, configured, restarting=False)


def admitted(world: World, now: float = NOW) -> set[str]:
    return {name_of(each.gang) for each in run_session(world.model, world.settings, now).admitted}


def owned_by(**owners: Any) -> Json:
    return {"owners": owners}


@pytest.mark.parametrize("profile", ["design", "compat"])
@pytest.mark.parametrize("plugins", SHARES)
@pytest.mark.parametrize(
    ("spec", "of_group", "now", "starts"),
    [
        pytest.param({}, {}, NOW, False, id="without a bound it may run into the window"),
        pytest.param({}, {"labels": {BOUND: "100"}}, NOW, True, id="it ends when the window begins"),
        pytest.param({}, {"labels": {BOUND: "101"}}, NOW, False, id="it ends a second later"),
        pytest.param({}, {"labels": {BOUND: "1"}}, OPENS, False, id="the window has begun"),
        pytest.param({}, {}, CLOSES, True, id="the window has ended"),
        pytest.param(
            {}, {"minMember": 1, "minResources": {"cpu": 4}}, NOW, True, id="another node is enough"
        ),
        pytest.param({}, {"minResources": None}, NOW, True, id="it needs no room"),
        pytest.param(owned_by(namespaces=["default"]), {}, OPENS, True, id="its namespace owns it"),
        pytest.param(
            owned_by(localQueues=[{"namespace": "default", "name": "vip"}]),
            {"labels": {QUEUE: "vip"}},
            OPENS,
            True,
            id="its local queue owns it",
        ),
    ],
)
def test_a_group_without_pods_beside_a_window(
    profile: str, plugins: list[str], spec: Json, of_group: Json, now: float, starts: bool
) -> None:
    given = {"minMember": 2, "minResources": {"cpu": 6}, **of_group}
    world = a_world(group("a", **given), plugins=plugins, profile=profile)
    world.model.set_reservation(a_reservation(**(spec or {"purpose": "Maintenance"})))
    outcome = run_session(world.model, world.settings, now)
    assert bool(outcome.admitted) is starts
    if not starts:
        assert isinstance(outcome.pending_reasons[key_of("a")], ReservedWindow)


def test_what_is_admitted_takes_the_nodes_of_its_own_window_first() -> None:
    owner = group("owner", "4", namespace="owners", created=0)
    first, second = group("first", "4", created=1), group("second", "4", created=2)
    world = a_world(owner, first, second, plugins=["gang"], nodes=3)
    world.model.set_reservation(a_reservation(owners={"namespaces": ["owners"]}))
    assert admitted(world) == {"owners/owner", "first", "second"}
    world = a_world(first, second, plugins=["gang"], nodes=2)
    world.model.set_reservation(a_reservation(owners={"namespaces": ["owners"]}))
    assert admitted(world) == {"first"}


def test_a_group_that_lacks_room_anyway_has_its_other_reason() -> None:
    pods = [running("web", cpu="4")]
    world = a_world(group("web", phase="Running"), group("a", "8", minMember=2), plugins=["gang"], pods=pods)
    world.model.set_reservation(a_reservation(purpose="Maintenance", nodes={"names": ["n2"]}))
    reason = run_session(world.model, world.settings, NOW).pending_reasons[key_of("a")]
    assert not isinstance(reason, ReservedWindow)


def test_members_that_fit_only_on_a_reserved_node_wait() -> None:
    """The other nodes have four cpus together, but none has three for the member."""
    web = group("web", phase="Running", minMember=2)
    pods = [running("web", cpu="2", name=f"web-{name}", node=name) for name in ("n2", "n3")]
    world = a_world(web, group("a", "3"), plugins=["gang"], nodes=3, pods=[*pods, pod("a", cpu="3")])
    assert admitted(world) == {"a"}
    world = a_world(web, group("a", "3"), plugins=["gang"], nodes=3, pods=[*pods, pod("a", cpu="3")])
    world.model.set_reservation(a_reservation(purpose="Maintenance"))
    reason = run_session(world.model, world.settings, NOW).pending_reasons[key_of("a")]
    assert reason == ReservedWindow("night", OPENS, CLOSES, nodes=1, missing=1, needed=1)


def test_an_overdue_group_is_admitted_as_without_windows() -> None:
    late = group("a", "8", minMember=2, annotations={"volcano.sh/sla-waiting-time": "1s"})
    world = a_world(late, plugins=["gang", "sla"])
    world.model.set_reservation(a_reservation(purpose="Maintenance"))
    assert admitted(world) == {"a"}


Groups = st.lists(
    st.tuples(
        st.integers(1, 9),  # cpu
        st.sampled_from(("owners", "others")),
        st.none() | st.integers(50, 150),  # the bound
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("profile", ["design", "compat"])
@examples(100)
@given_by(drawn=Groups, nodes=st.integers(1, 4), kept=st.sets(st.integers(1, 4)), used=st.integers(0, 4))
def test_what_is_admitted_has_room_beside_the_window(
    profile: str, drawn: list[tuple[int, str, int | None]], nodes: int, kept: set[int], used: int
) -> None:
    """The groups that a window keeps out have enough on the other nodes, all together."""
    groups = [
        group(
            f"g{number}",
            str(cpu),
            namespace=namespace,
            created=number,
            labels={} if bound_s is None else {BOUND: str(bound_s)},
        )
        for number, (cpu, namespace, bound_s) in enumerate(drawn)
    ]
    pods = [running("web", cpu=str(used))] if used else []
    web = [group("web", phase="Running", created=0)] if used else []
    world = a_world(*web, *groups, plugins=["gang", "overcommit"], profile=profile, nodes=nodes, pods=pods)
    names = {"names": [f"n{number}" for number in kept]}
    world.model.set_reservation(a_reservation(owners={"namespaces": ["owners"]}, nodes=names))
    started = {name.rpartition("/")[2] for name in admitted(world)}
    is_kept_out = [
        namespace == "others" and not (bound_s is not None and bound_s <= OPENS - NOW)
        for _, namespace, bound_s in drawn
    ]
    free = sum(4 - (used if number == 1 else 0) for number in range(1, nodes + 1) if number not in kept)
    needed = sum(
        cpu for number, (cpu, *_) in enumerate(drawn) if is_kept_out[number] and f"g{number}" in started
    )
    event(f"{len(started)} of {len(drawn)} admitted")
    assert needed <= free
    total = 4 * nodes - used - sum(cpu for number, (cpu, *_) in enumerate(drawn) if f"g{number}" in started)
    for number, (cpu, *_) in enumerate(drawn):
        if f"g{number}" not in started and not is_kept_out[number]:
            assert cpu > total, "only what a window keeps out waits for it"
