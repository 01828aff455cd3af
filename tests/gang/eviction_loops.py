"""Small worlds of gangs left to themselves: do they come to rest?

From the beginning on nothing comes from outside.  Who is bound starts, who is evicted leaves at some time,
and whoever owns it makes it anew at once, so that it waits again.  A *loop* is a course of events that comes
back to where it was, with evictions in between: sessions are functions of what they see, so it has no end.
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

LONG: Final = 60  # sessions; no small world that comes to rest takes half of them


class Course(NamedTuple):
    """What became of one world."""

    evictions: int
    loop: tuple[str, ...]  # what was evicted for whom, from where it was to where it was again; empty: rest


def play(given: Mapping[str, Any], conf: Json, profile: str, *, one_by_one: bool) -> Course:
    """Run sessions until nothing happens any more, or all happens again.

    ``one_by_one``: pods that were evicted leave one a session, the first by name first; else all at once.
    """
    world = World(given, settings_of(conf, profile), restarting=False)
    made = dict(world.pods)
    seen: dict[State, int] = {}
    history: list[str] = []
    marks: list[int] = []  # how long the history was at each visit
    for number in range(LONG):
        state = _state(world)
        if state in seen:
            return Course(len(history), tuple(history[marks[seen[state]] :]))
        seen[state] = number
        marks.append(len(history))
        outcome = world.session()
        history += [
            f"{each.task.name} for {each.beneficiary.name} by {each.action}{' whole' if each.whole else ''}"
            for each in outcome.evictions
        ]
        _leave(world, made, number, one_by_one=one_by_one)
        world.do("start", "all")
    raise AssertionError(f"{given} has not come to rest, nor back, in {LONG} sessions")


def _state(world: World) -> State:
    """All that the next session depends on."""
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


def _leave(world: World, made: Mapping[Key, Pod], number: int, *, one_by_one: bool) -> None:
    leaving = sorted(key for key, pod in world.pods.items() if pod.metadata.deletion_timestamp is not None)
    gone = leaving[:1] if one_by_one else leaving
    world.remove_pods(gone)
    world.put_pods(_made_again(made[key], number) for key in gone)


def _made_again(pod: Pod, number: int) -> Pod:
    replace = msgspec.structs.replace
    return replace(
        pod,
        metadata=replace(pod.metadata, uid=Uid(f"{pod.metadata.uid} {number}"), deletion_timestamp=None),
        node_name="",
        status=replace(pod.status, phase="Pending", nominated_node_name=""),
    )
