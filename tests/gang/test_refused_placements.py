"""Refusals that are kept in a session: the same decisions and reasons, with fewer trials."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.gang.actions.refused_placements import RefusedPlacements
from quorate.gang.cache.task import Task
from quorate.gang.outcome import Outcome
from quorate.gang.session.statement import Statement
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.node_finder import Choice, NodeFinder
from quorate.placement.shapes import Shape
from tests.gang.session_invariants import comparable
from tests.gang.vectors import settings_of
from tests.gang.world import World
from tests.search import examples

Json = dict[str, Any]

CONF = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [["priority", "gang", "conformance"], ["predicates", "proportion", "nodeorder"]],
}
NO_SHARES = {
    "actions": "allocate",
    "tiers": [["priority", "gang"], ["predicates", "nodeorder"]],
}
BEST = NodeFinder.best
SLA_CONF = {
    "actions": "allocate",
    "tiers": [["sla"], ["priority", "gang"], ["predicates", "capacity", "nodeorder"]],
    "configurations": {"allocate": {"predicateErrorCacheEnable": True}},
}


def gang(name: str, members: list[Json], min_member: int | None = None, **group: Any) -> Json:
    needed = len(members) if min_member is None else min_member
    return {
        "group": {"name": name, "queue": "q1", "minMember": needed, "phase": "Inqueue", **group},
        "pods": [{"name": f"{name}-{number}", "group": name, **pod} for number, pod in enumerate(members)],
    }


def world_of(
    nodes: list[int], gangs: list[Json], conf: Json = CONF, profile: str = "design", **queue: Any
) -> World:
    given_ = {
        "nodes": [{"name": f"n{number}", "cpu": cpu} for number, cpu in enumerate(nodes)],
        "queues": [{"name": "q1", "weight": 1, **queue}, {"name": "q2", "weight": 1}],
        "podGroups": [each["group"] for each in gangs],
        "pods": [pod for each in gangs for pod in each["pods"]],
    }
    return World(given_, settings_of(conf, profile), restarting=False)


def reasons(outcome: Outcome) -> dict[str, str]:
    return {key.name: str(reason) for key, reason in outcome.pending_reasons.items()}


@contextmanager
def counted_placements() -> Iterator[list[str]]:
    """Collect the node of each tentative allocation."""
    nodes: list[str] = []
    allocate = Statement.allocate

    def noting(statement: Statement, task: Task, node: str) -> None:
        nodes.append(node)
        allocate(statement, task, node)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Statement, "allocate", noting)
        yield nodes


def test_gangs_of_one_shape_are_tried_once() -> None:
    """Each has its own numbers in its reason, and a smaller gang after them is placed."""
    sizes = {"a": 4, "b": 9, "c": 5, "d": 4, "fits": 2}
    gangs = [
        gang(name, [{"cpu": 2}] * size, created=number) for number, (name, size) in enumerate(sizes.items())
    ]
    with counted_placements() as placements:
        outcome = world_of([4, 3], gangs, NO_SHARES).session()
    assert len(outcome.binds) == 2
    assert len(placements) == 3 + 2
    cause = "members found no node: 0/2 nodes are available: 2 Insufficient cpu (need 2, 4 at most)"
    assert reasons(outcome) == {
        "a": f"1 of 4 {cause}",
        "b": f"6 of 9 {cause}",
        "c": f"2 of 5 {cause}",
        "d": f"1 of 4 {cause}",
    }


def test_refused_gangs_of_one_shape_are_counted_and_not_tried_again() -> None:
    """The reasons are those of a trial: the members that fit have nodes in them."""
    gangs = [gang(f"g{number}", [{"cpu": 2 + number}] * 3, created=number) for number in range(3)]
    world = world_of([7, 4, 4], gangs, NO_SHARES)
    tried = reasons(world.session())
    assert tried == {
        "g1": "2 of 3 members found no node: 0/3 nodes are available: 3 Insufficient cpu (need 3, 7 at most)",
        "g2": "2 of 3 members found no node: 0/3 nodes are available: 3 Insufficient cpu (need 4, 7 at most)",
    }
    with counted_placements() as placements:
        counted = reasons(world.session())
    assert (counted, placements) == (tried, [])


def test_a_refused_gang_is_placed_on_exactly_the_nodes_that_it_needs() -> None:
    world = world_of([4], [gang("a", [{"cpu": 2}] * 5)], NO_SHARES)
    assert reasons(world.session())["a"].startswith("3 of 5 ")
    world.do("addNodes", [{"name": "n1", "cpu": 5}])
    assert reasons(world.session())["a"].startswith("1 of 5 ")
    world.do("addNodes", [{"name": "n2", "cpu": 2}])
    assert len(world.session().binds) == 5


def test_gangs_of_several_shapes_are_tried_once_for_each_list_of_shapes() -> None:
    members = [{"cpu": 2}, {"cpu": 1}, {"cpu": 3}]
    gangs = [gang(f"g{number}", members, created=number) for number in range(5)]
    with counted_placements() as placements:
        outcome = world_of([3], gangs).session()
    assert not outcome.binds
    assert len(placements) == 2
    assert len(set(reasons(outcome).values())) == 1


def test_a_refusal_ends_with_the_next_placement_that_stays() -> None:
    """The gangs after it have less room, and their reasons say so."""
    gangs = [
        gang("a", [{"cpu": 1}] * 5, created=0),
        gang("placed", [{"cpu": 2}], created=1),
        gang("b", [{"cpu": 1}] * 5, created=2),
    ]
    outcome = world_of([4], gangs).session()
    assert [bind.task.name for bind in outcome.binds] == ["placed-0"]
    assert {name: reason.split(" members")[0] for name, reason in reasons(outcome).items()} == {
        "a": "1 of 5",
        "b": "3 of 5",
    }


TWO_KINDS = [{"cpu": 2}, {"cpu": 1}]


@pytest.mark.parametrize(
    ("first", "second", "conf"),
    [
        pytest.param(
            gang("a", [{"cpu": 2}] * 3, queue="q1"),
            gang("b", [{"cpu": 2}] * 3, queue="q2", created=1),
            NO_SHARES,
            id="the capability of the queue",
        ),
        pytest.param(
            gang("a", TWO_KINDS * 2),
            gang("b", TWO_KINDS * 2, 3, created=1),
            NO_SHARES,
            id="minMember, several shapes",
        ),
        pytest.param(
            gang("a", [{"cpu": 2}] * 4),
            gang("b", [{"cpu": 2}] * 4, 2, created=1),
            NO_SHARES,
            id="minMember, one shape",
        ),
        pytest.param(
            gang("a", [{"cpu": 2, "role": "a"}, {"cpu": 2}, {"cpu": 1}], minTaskMember={"a": 2}),
            gang("b", [{"cpu": 2, "role": "a"}, {"cpu": 2}, {"cpu": 1}], 2, created=1),
            NO_SHARES,
            id="the minimum of a role",
        ),
        pytest.param(
            gang("a", [{"cpu": 2}, {"cpu": 2, "gated": True}]),
            gang("b", [{"cpu": 2}] * 2, created=1),
            NO_SHARES,
            id="members with scheduling gates",
        ),
    ],
)
def test_a_gang_that_differs_is_tried(first: Json, second: Json, conf: Json) -> None:
    """It fits, although the gang before it with the same members does not."""
    conf = {**conf, "tiers": [["priority", "gang"], ["predicates", "capacity", "nodeorder"]]}
    outcome = world_of([6], [first, second], conf, capability={"cpu": 5}).session()
    assert {bind.gang.name for bind in outcome.binds} == {"b"}


def test_an_overdue_gang_keeps_nodes_that_an_equal_gang_does_not() -> None:
    """A vote of another plugin than gang is part of what is compared."""
    overdue = gang("b", [{"cpu": 2}] * 3, created=1, annotations={"volcano.sh/sla-waiting-time": "1s"})
    sla = {"name": "sla", "switches": {"enableJobOrder": False}}
    conf = {"actions": "allocate", "tiers": [[sla], ["priority", "gang"], ["predicates", "nodeorder"]]}
    world = world_of([4], [gang("a", [{"cpu": 2}] * 3), overdue], conf)
    with counted_placements() as placements:
        outcome = world.session()
    assert len(placements) == 2 + 2
    assert list(reasons(outcome)) == ["a"]


@st.composite
def gangs_of_few_kinds(draw: st.DrawFn) -> list[Json]:
    pod = st.fixed_dictionaries(
        {"cpu": st.integers(0, 3), "role": st.sampled_from(("", "a", "b"))},
        optional={"nodeSelector": st.just({"zone": "x"}), "gated": st.just(True)},
    )
    lists = draw(st.lists(st.lists(pod, min_size=1, max_size=5), min_size=1, max_size=3))
    gated = st.sampled_from(({}, {"gated": True}))
    kinds = [pods if draw(st.booleans()) else [pods[0] | draw(gated) for _ in pods] for pods in lists]
    return [
        gang(
            f"g{number}",
            members := draw(st.sampled_from(kinds)),
            draw(st.integers(0, len(members) + 1)),
            queue=draw(st.sampled_from(("q1", "q2"))),
            created=draw(st.integers(0, 2)),
            minTaskMember=draw(st.sampled_from(({}, {"a": 1}, {"a": 1, "b": 1}))),
            annotations=draw(st.sampled_from(({}, {"volcano.sh/sla-waiting-time": "1s"}))),
        )
        for number in range(draw(st.integers(2, 8)))
    ]


def best_of_all_ranked(finder: NodeFinder, shape: Shape, nominated: str = "") -> Choice | Diagnosis:
    """Return the best node without kept refusals, groups of nodes, rankings and batches."""
    new = NodeFinder(finder.cluster, finder._constraints, finder._scoring)
    new.ranking(shape)  # without one, refusals would come first
    return BEST(new, shape, nominated)


@pytest.mark.slow
@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@examples(150)
@given(
    nodes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    gangs=gangs_of_few_kinds(),
    conf=st.sampled_from((CONF, NO_SHARES, SLA_CONF)),
    profile=st.sampled_from(("compat", "design")),
    capability=st.sampled_from(({}, {"capability": {"cpu": 3}})),
)
def test_decisions_and_reasons_do_not_depend_on_kept_refusals(
    nodes: list[int], gangs: list[Json], conf: Json, profile: str, capability: Json
) -> None:
    keeping = world_of(nodes, gangs, conf, profile, **capability)
    forgetting = world_of(nodes, gangs, conf, profile, **capability)
    for _ in range(3):
        kept = keeping.session()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RefusedPlacements, "of_shape", lambda self, gang: None)
            patch.setattr(RefusedPlacements, "of_tasks", lambda self, gang, tasks: None)
            patch.setattr(NodeFinder, "best", best_of_all_ranked)
            forgotten = forgetting.session()
        assert (comparable(kept), reasons(kept)) == (comparable(forgotten), reasons(forgotten))
        for world in (keeping, forgetting):
            world.do("start", "all")
            world.do("reap", "all")


def test_unequal_members_find_nodes_in_another_order() -> None:
    nodes = [
        {"name": f"n{index}", "cpu": 2, "memory": memory, "labels": {"zone": zone}}
        for index, (zone, memory) in enumerate((("x", 8), ("y", 4), ("y", 2)))
    ]
    zones = [{}, {}, {"nodeSelector": {"zone": "x"}}, {"nodeSelector": {"zone": "x"}}]
    given = {
        "nodes": nodes,
        "podGroups": [{"name": "g", "minMember": 4, "phase": "Inqueue"}],
        "pods": [
            {"name": f"g-{at}", "group": "g", "cpu": 1, "memory": 1, **zone} for at, zone in enumerate(zones)
        ],
    }
    conf = {"actions": "allocate", "tiers": [["priority", "gang", "predicates", "nodeorder"]]}
    here = World(given, settings_of(conf, "design"), restarting=False)
    here.session()
    assert {name for name, node in here.binds.items() if node == "n0"} == {"g-2", "g-3"}
    assert len(here.binds) == 4
