"""Gangs take turns in the search for victims: a session is short, and no gang is left out."""

from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Key
from quorate.gang.cache.search_turns import SearchTurns
from quorate.gang.pending_reasons import AwaitsVictimSearch
from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]

MOST_WORK = 100


def searched_in_session(turns: SearchTurns, costs: dict[Key, int], asked: set[Key]) -> set[Key]:
    """Return the gangs that search in a session; those of ``asked`` ask, in the order of ``costs``."""
    turns.begin_session(costs)
    for gang, cost in costs.items():
        if gang in asked and turns.may_search(gang):
            turns.add(gang, cost)
    return set(turns.searched)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=12), st.integers(0, 3), st.randoms())
def test_each_gang_searches_once_in_so_many_sessions(costs: list[int], before: int, random: Any) -> None:
    gangs = {Key("ns", f"g{number:02}"): cost for number, cost in enumerate(costs)}
    turns = SearchTurns(MOST_WORK)
    for _ in range(before):  # of other gangs, or in another order, some of which ask for no search
        earlier = [*gangs, Key("ns", "gone")]
        random.shuffle(earlier)
        asked = {gang for gang in earlier if random.random() < 0.7}
        searched_in_session(turns, {gang: gangs.get(gang, 50) for gang in earlier}, asked)
    at_once = max(1, MOST_WORK // max(costs))
    found: set[Key] = set()
    for _ in range(ceil(len(gangs) / at_once)):
        found |= searched_in_session(turns, gangs, set(gangs))
    assert found == set(gangs)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=12))
def test_a_session_stops_once_its_searches_have_cost_enough(costs: list[int]) -> None:
    gangs = {Key("ns", f"g{number:02}"): cost for number, cost in enumerate(costs)}
    turns = SearchTurns(MOST_WORK)
    for _ in range(3):
        searched = [gangs[gang] for gang in searched_in_session(turns, gangs, set(gangs))]
        assert sum(searched) < MOST_WORK + max(searched)


def test_a_turn_that_passed_unused_blocks_no_other_gang() -> None:
    gangs = {Key("ns", f"g{number}"): MOST_WORK for number in range(3)}
    turns, (first, _, third) = SearchTurns(MOST_WORK), gangs
    assert searched_in_session(turns, gangs, set(gangs)) == {first}
    assert searched_in_session(turns, gangs, {third}) == set(), "it is the turn of the second"
    assert searched_in_session(turns, gangs, {third}) == {third}


def contended(hopeless: int) -> World:
    """Return a world where no evictions suffice for ``hopeless`` gangs, and some do for ``owed``.

    By amounts each of the two shapes of a hopeless gang fits the nodes, but not both.
    """
    pods = [{"name": f"low-{node}", "cpu": 4, "node": f"n{node}", "phase": "Running"} for node in range(3)]
    groups: list[Json] = [{"name": "low", "minMember": 1, "phase": "Running", "priorityClassName": "low"}]
    members = [{"group": "low", **pod} for pod in pods]
    for number in range(hopeless):
        name = f"h{number}"
        groups.append({"name": name, "minMember": 4, "priorityClassName": "high", "created": number})
        members += [{"name": f"{name}-{at}", "group": name, "cpu": 3 if at else 2} for at in range(4)]
    groups.append({"name": "owed", "minMember": 1, "priorityClassName": "mid", "created": hopeless})
    members.append({"name": "owed-0", "group": "owed", "cpu": 3})
    given: Json = {
        "priorityClasses": {"low": 1, "mid": 2, "high": 3},
        "nodes": [{"name": f"n{node}", "cpu": 4} for node in range(3)],
        "queues": [{"name": "q"}],
        "podGroups": [{"queue": "q", "phase": "Inqueue", **group} for group in groups],
        "pods": members,
    }
    conf = {
        "actions": "allocate, preempt",
        "tiers": [["priority", "gang", "conformance", "predicates", "nodeorder"]],
    }
    return World(given, settings_of(conf, "design"), restarting=False)


@pytest.mark.parametrize("hopeless", [1, 2, 5])
def test_the_outcome_is_that_of_unlimited_searches_once_each_gang_had_its_turn(hopeless: int) -> None:
    unlimited, limited = contended(hopeless), contended(hopeless)
    unlimited.session()
    assert unlimited.evictions, "pods are evicted for the gang that is owed nodes"
    limited.model.search_turns = SearchTurns(1)
    for session in range(hopeless + 1):
        assert not limited.evictions, f"decided before session {session}"
        outcome = limited.session()
        waiting = hopeless - session  # gangs without any search yet
        reasons = [each for each in outcome.pending_reasons.values() if isinstance(each, AwaitsVictimSearch)]
        assert [(each.searched, each.groups) for each in reasons] == [(1, hopeless + 1)] * waiting
        assert outcome.wake_at is not None
    assert (limited.evictions, limited.pipelined) == (unlimited.evictions, unlimited.pipelined)
    for _ in range(3 * (hopeless + 2)):  # the phases of groups change first
        limited.session()
        unlimited.session()
    for name in [f"h{number}" for number in range(hopeless)]:
        assert limited.message(name) == unlimited.message(name)
