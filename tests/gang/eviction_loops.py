"""Runs of small worlds without outside events, to find eviction loops.

Bound pods start, evicted pods terminate after some time, and their controller creates a new pod at once,
which is pending again.  A *loop* is a sequence of sessions with evictions that returns to an earlier state:
sessions are functions of that state, so the loop has no end.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from quorate.api.core.scheduling import Pod
from quorate.api.meta import Key, Uid
from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]
State = tuple[tuple[str, str, str, str, bool], ...]

MAX_SESSIONS: Final = 60  # small worlds without a loop take less than half of them


class RunResult(NamedTuple):
    """The result of one run."""

    evictions: int
    loop: tuple[str, ...]  # the evictions of one round, with beneficiary; empty: no loop


def play(given: Mapping[str, Any], conf: Json, profile: str, *, one_by_one: bool) -> RunResult:
    """Run sessions until a state repeats.

    ``one_by_one``: evicted pods terminate one per session, in the order of their names; else all at once.
    """
    world = World(given, settings_of(conf, profile), restarting=False)
    made = dict(world.pods)
    seen: dict[State, int] = {}
    history: list[str] = []
    marks: list[int] = []  # the length of the history at each state
    for number in range(MAX_SESSIONS):
        state = _state(world)
        if state in seen:
            return RunResult(len(history), tuple(history[marks[seen[state]] :]))
        seen[state] = number
        marks.append(len(history))
        outcome = world.session()
        history += [
            f"{each.task.name} for {each.beneficiary.name} by {each.action}{' whole' if each.whole else ''}"
            for each in outcome.evictions
        ]
        _terminate_evicted(world, made, number, one_by_one=one_by_one)
        world.do("start", "all")
    raise AssertionError(f"{given} has no repeated state in {MAX_SESSIONS} sessions")


def _state(world: World) -> State:
    """Return all that the next session depends on."""
    pods = (
        (
            str(key),
            pod.node_name,
            pod.status.phase,
            pod.status.nominated_node_name,
            pod.metadata.deletion_timestamp is not None,
        )
        for key, pod in sorted(world.pods.items())
    )
    groups = ((str(key), group.status.phase, "", "", False) for key, group in sorted(world.groups.items()))
    return (*pods, *groups)


def _terminate_evicted(world: World, made: Mapping[Key, Pod], number: int, *, one_by_one: bool) -> None:
    leaving = sorted(key for key, pod in world.pods.items() if pod.metadata.deletion_timestamp is not None)
    gone = leaving[:1] if one_by_one else leaving
    world.remove_pods(gone)
    world.put_pods(_recreated(made[key], number) for key in gone)


def _recreated(pod: Pod, number: int) -> Pod:
    replace = msgspec.structs.replace
    return replace(
        pod,
        metadata=replace(pod.metadata, uid=Uid(f"{pod.metadata.uid} {number}"), deletion_timestamp=None),
        node_name="",
        status=replace(pod.status, phase="Pending", nominated_node_name=""),
    )
