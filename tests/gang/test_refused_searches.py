"""Searches for victims that found nothing are repeated when something changed that they read, and only then.

The law: with the memory of such searches each session decides as it does without.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.gang.cache.refused_searches import RefusedSearch, RefusedSearches
from quorate.gang.outcome import Outcome
from tests.gang.eviction_laws import TIERS, Case, hyper_nodes, queue_of
from tests.gang.generated_worlds import sometimes
from tests.gang.loop_search import CONFIGURATIONS
from tests.gang.vectors import settings_of
from tests.gang.world import World
from tests.search import examples

Json = dict[str, Any]
Event = tuple[str, Any]

COOLDOWN = "volcano.sh/cooldown-time"
NOTHING: Event = ("advance", 0)
EVENTS = (
    st.just(NOTHING),
    st.just(("start", "all")),
    st.just(("replace", None)),
    st.tuples(st.just("advance"), st.integers(1, 9)),
    st.builds(lambda weight: ("setQueue", {"name": "q0", "weight": weight}), st.integers(1, 3)),
    st.builds(lambda cpu: ("setQuota", {"name": "quota", "hard": {"requests.cpu": cpu}}), st.integers(1, 9)),
    st.builds(lambda cpu: ("addPods", [{"name": "bare", "cpu": cpu, "node": "n0"}]), st.integers(1, 3)),
)


class WithoutMemory(RefusedSearches):
    def find(self, state: object, search: object, now: float) -> None:
        return None


class Counting(RefusedSearches):
    """Counts the searches that ran and found nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.ran = 0

    def add(self, state: object, search: Any, refused: RefusedSearch) -> None:
        self.ran += 1
        super().add(state, search, refused)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Case, list[Event]]:
    """Draw a full cluster, where gangs wait that are more important or of another queue, and what happens.

    Nodes that are unschedulable, and pods that a plugin protects for a while, make searches find nothing.
    """
    names = ["n0", "n1"]
    nodes: list[Json] = [{"name": name, "cpu": 4, "unschedulable": draw(st.booleans())} for name in names]
    queues = [draw(queue_of(name, has_memory=False)) for name in ("q0", "q1")]
    groups: list[Json] = []
    pods: list[Json] = []
    is_protected, has_domains = sometimes(draw, 3), sometimes(draw, 3)
    for name in names:
        runs: Json = {"phase": "Running", "queue": draw(st.sampled_from(("q0", "q1"))), "created": 0}
        groups.append(runs | {"name": name, "minMember": draw(st.integers(0, 2)), "priorityClassName": "low"})
        pod: Json = {"group": name, "cpu": 2, "node": name, "phase": "Running", "started": 1000}
        if is_protected:
            pod["annotations"] = {COOLDOWN: f"{draw(st.integers(1, 9))}s"}
        pods += [pod | {"name": f"{name}-{member}", "priority": draw(st.integers(0, 1))} for member in "ab"]
    for name in ("w0", "w1")[: draw(st.integers(1, 2))]:
        waits: Json = {"queue": draw(st.sampled_from(("q0", "q1"))), "phase": "Inqueue", "created": 1}
        if has_domains and draw(st.booleans()):
            waits["networkTopology"] = {"highestTierAllowed": 1}
        priority = draw(st.sampled_from(("low", "high", "high")))
        minimum, cpu = draw(st.integers(1, 2)), draw(st.integers(1, 4))
        groups.append(waits | {"name": name, "minMember": minimum, "priorityClassName": priority})
        pods += [
            {"name": f"{name}-{member}", "group": name, "cpu": cpu, "priority": draw(st.integers(1, 2))}
            for member in range(draw(st.integers(minimum, 3)))
        ]
    tiers = [list(tier) for tier in draw(st.sampled_from(TIERS))]
    tiers[0] += ["cdp"] if is_protected else []
    given: Json = {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": nodes,
        "hyperNodes": draw(hyper_nodes(names)) if has_domains else [],
        "queues": queues,
        "podGroups": groups,
        "pods": pods,
    }
    if sometimes(draw, 3):
        tiers[-1].append("resourcequota")
        given["quotas"] = [{"name": "quota", "hard": {"requests.cpu": draw(st.integers(1, 9))}}]
    actions = draw(st.permutations(["allocate", "preempt", "reclaim", "backfill", "enqueue"]))
    conf = {"actions": ", ".join(actions), "tiers": tiers, "configurations": CONFIGURATIONS}
    changed_node = st.builds(
        lambda node, unschedulable: ("addNodes", [node | {"unschedulable": unschedulable}]),
        st.sampled_from(nodes),
        st.booleans(),
    )
    changed_group = st.builds(
        lambda group, name: ("addPodGroups", [group | {"priorityClassName": name}]),
        st.sampled_from(groups),
        st.sampled_from(("low", "high")),
    )
    events = draw(st.lists(st.one_of(changed_node, changed_group, *EVENTS), min_size=2, max_size=6))
    return Case(given, conf, draw(st.sampled_from(("compat", "design"))), one_by_one=False), events


def decisions(case: Case, events: list[Event], memory: RefusedSearches) -> list[Outcome]:
    world = World(case.given, settings_of(case.conf, case.profile), restarting=False)
    world.model.refused_searches = memory
    found = [world.session()]
    for event in events:
        world.do(*event)
        found += [world.session(), world.session()]
    return found


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@examples(200)
@given(histories())
@pytest.mark.large
def test_a_session_decides_the_same_without_the_memory(history: tuple[Case, list[Event]]) -> None:
    case, events = history
    assert decisions(case, events, RefusedSearches()) == decisions(case, events, WithoutMemory())


def hopeless(annotations: Json) -> World:
    """Return a world where ``waits`` is too large for any node, and ``runs`` is less important."""
    group: Json = {"queue": "q", "minMember": 1}
    given: Json = {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [{"name": "n0", "cpu": 4}, {"name": "n1", "cpu": 4, "unschedulable": True}],
        "queues": [{"name": "q"}],
        "podGroups": [
            group | {"name": "runs", "priorityClassName": "low", "phase": "Running"},
            group | {"name": "waits", "priorityClassName": "high", "phase": "Inqueue"},
        ],
        "pods": [
            {"name": "a", "group": "runs", "cpu": 2, "node": "n0", "phase": "Running", "started": 1000}
            | {"annotations": annotations},
            {"name": "b", "group": "waits", "cpu": 4},
            {"name": "c", "cpu": 2, "node": "n0", "phase": "Running", "schedulerName": "another"},
        ],
    }
    tiers = [["priority", "gang", "conformance", "cdp", "predicates", "nodeorder"]]
    conf = {"actions": "allocate, preempt", "tiers": tiers}
    return World(given, settings_of(conf, "design"), restarting=False)


@pytest.mark.parametrize(
    ("annotations", "event", "searches"),
    [
        pytest.param({}, NOTHING, 0, id="nothing has changed"),
        pytest.param({}, ("advance", 3600), 0, id="time alone changes nothing"),
        pytest.param({COOLDOWN: "30s"}, ("advance", 31), 1, id="the protection of a pod ends"),
        pytest.param({}, ("addNodes", [{"name": "n2", "cpu": 1}]), 1, id="a node is added"),
        pytest.param({}, ("setQueue", {"name": "q", "weight": 2}), 1, id="a queue has another weight"),
        pytest.param({}, ("addPods", [{"name": "d", "cpu": 1, "node": "n1"}]), 1, id="a pod has a node"),
    ],
)
def test_a_search_is_repeated_after_a_change(annotations: Json, event: Event, searches: int) -> None:
    world = hopeless(annotations)
    counting = world.model.refused_searches = Counting()
    for _ in range(3):
        world.session()
    before = counting.ran
    assert before > 0, "the gang is searched for"
    world.do(*event)
    assert world.session().evictions == ()
    assert counting.ran - before == searches
