"""Runs of small worlds without outside events, to find eviction loops.

Bound pods start, evicted pods terminate after some time, and their controller creates a new pod at once,
which is pending again.  With the action ``enqueue`` it creates pods only for admitted groups, and deletes the
pods without a node of a group that is rolled back.  A *loop* is a sequence of sessions with evictions that
returns to an earlier state: sessions are functions of that state, so the loop has no end.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.gang.cache.model import Model
from quorate.gang.cache.task import TaskStatus
from quorate.gang.outcome import Outcome
from quorate.gang.session_opening import SessionPart, Stopwatch
from tests.gang.objects import created_again
from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]
State = tuple[tuple[str, str, str, str, bool], ...]

MAX_SESSIONS: Final = 60  # small worlds without a loop take less than half of them


class RunResult(NamedTuple):
    """The result of one run."""

    evictions: int
    loop: tuple[str, ...]  # the evictions of one round, with beneficiary; empty: no loop
    phases: dict[str, str]  # of the groups in the end
    running: dict[str, int]  # the number of running pods of each group in the end


# The world after a session and before, and the nodes that were allocated to unready gangs in the end.
Observer = Callable[[World, World, Outcome, Mapping[Key, str]], None]


class _AllocatedInTheEnd(Stopwatch):
    """The nodes of the tasks that are allocated at the end of a session over ``model``, and not bound."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.nodes: dict[Key, str] = {}

    def begin(self, part: SessionPart, name: str = "") -> None:
        if part == "closing":
            tasks = (task for gang in self._model.gangs.values() for task in gang.tasks.values())
            self.nodes = {task.key: task.node for task in tasks if task.status is TaskStatus.ALLOCATED}


def play(
    given: Mapping[str, Any],
    conf: Json,
    profile: str,
    *,
    one_by_one: bool,
    observer: Observer | None = None,
) -> RunResult:
    """Run sessions until a state repeats.

    ``one_by_one``: evicted pods terminate one per session, in the order of their names; else all at once.
    ``observer`` is called after each session.
    """
    world = World(given, settings_of(conf, profile), restarting=False)
    made = dict(world.pods)
    delays_pods = "enqueue" in conf["actions"]
    delayed = {key: pod for key, pod in world.pods.items() if delays_pods and not pod.node_name}
    world.remove_pods(delayed)
    seen: dict[State, int] = {}
    history: list[str] = []
    marks: list[int] = []  # the length of the history at each state
    for number in range(MAX_SESSIONS):
        state = _state(world)
        if state in seen:
            phases = {key.name: group.status.phase for key, group in world.groups.items()}
            running = {key.name: world.counts(key.name)["running"] for key in world.groups}
            return RunResult(len(history), tuple(history[marks[seen[state]] :]), phases, running)
        seen[state] = number
        marks.append(len(history))
        before = None if observer is None else world.copied()
        allocated = _AllocatedInTheEnd(world.model)
        outcome = world.session(allocated)
        if observer is not None and before is not None:
            observer(world, before, outcome, allocated.nodes)
        history += [
            f"{each.task.name} for {each.beneficiary.name} by {each.action}{' whole' if each.whole else ''}"
            for each in outcome.evictions
        ]
        gone = _terminate_evicted(world, one_by_one=one_by_one)
        if delays_pods:
            delayed |= {key: made[key] for key in gone}
        else:
            world.put_pods(created_again(made[key], number) for key in gone)
        world.do("start", "all")
        if delays_pods:
            _delete_rolled_back(world, delayed)
            _create_admitted(world, delayed, number)
            world.do("advance", 1)  # every back-off ends: it is shorter
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


def _terminate_evicted(world: World, *, one_by_one: bool) -> list[Key]:
    """Remove evicted pods and return their names."""
    leaving = sorted(key for key, pod in world.pods.items() if pod.metadata.deletion_timestamp is not None)
    gone = leaving[:1] if one_by_one else leaving
    world.remove_pods(gone)
    return gone


def _create_admitted(world: World, delayed: dict[Key, Pod], number: int) -> None:
    admitted = {key.name for key, group in world.groups.items() if group.status.phase not in ("", "Pending")}
    for key in [key for key, pod in delayed.items() if group_of(pod) in admitted]:
        world.put_pods([created_again(delayed.pop(key), number)])


def _delete_rolled_back(world: World, delayed: dict[Key, Pod]) -> None:
    pending = {key.name for key, group in world.groups.items() if group.status.phase in ("", "Pending")}
    for key, pod in list(world.pods.items()):
        if not pod.node_name and group_of(pod) in pending:
            delayed[key] = pod
            world.remove_pods([key])


def group_of(pod: Pod) -> str:
    return pod.metadata.annotations["scheduling.k8s.io/group-name"]
