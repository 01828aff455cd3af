"""What is told of planned starts: the condition, how it survives a restart, and why it moves."""

import math
from typing import Final

import pytest
from hypothesis import given as given_by
from hypothesis import strategies as st

from quorate.api.kueue import Workload, WorkloadStatus
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Condition, Key, ObjectMeta, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.planning.announced_starts import (
    AnnouncedStart,
    Cause,
    Revision,
    as_read_in,
    kept,
    moved,
    planned_start_conditions,
    stored_announcement,
)
from quorate.queueing.planning.work_kinds import WorkKind
from tests.queueing.notation import Json
from tests.queueing.test_planned_starts import FIRST, LARGE, a_world, job, planned, queue, run_cycle
from tests.queueing.world import World

Times = st.one_of(st.integers(0, 2**32).map(float), st.just(math.inf))
CAUSES: Final = (
    Cause("BoundOverrun", "default/a-1 runs longer than expected"),
    Cause("StateChanged", "workloads, bounds or queues have changed"),
)


def told_by(promise: AnnouncedStart | None, workload: Workload | None = None) -> Workload:
    """Return a workload with the condition that tells a promise."""
    workload = Workload(metadata=ObjectMeta(name="w")) if workload is None else workload
    conditions = planned_start_conditions(workload, promise, 50)
    return Workload(metadata=workload.metadata, status=WorkloadStatus(conditions=conditions))


@given_by(Times, st.sampled_from(("Declared", "Learned", "Default")), st.integers(0, 10**6), st.lists(Times))
def test_a_new_process_reads_what_was_promised(
    at: float, origin: str, ended: int, later: list[float]
) -> None:
    promise = AnnouncedStart(at, origin, ended, 50, at)  # type: ignore[arg-type]
    for number, time in enumerate(later):
        promise = moved(promise, AnnouncedStart(time, "Declared", 3, 50, time), CAUSES[number % 2])
    stored = stored_announcement(told_by(promise))
    assert stored is not None
    assert (stored.at, stored.made_at, stored.revisions) == (promise.at, 50, promise.revisions)
    assert stored.message == promise.message


@pytest.mark.parametrize(
    ("at", "ended", "message"),
    [
        (110, 1, "starts at 1970-01-01T00:01:50Z at the latest (Declared), after 1 workload has ended"),
        (110, 2, "starts at 1970-01-01T00:01:50Z at the latest (Declared), after 2 workloads have ended"),
        (math.inf, 1, "no time is known: 1 workload that must end has no bound"),
        (math.inf, 2, "no time is known: of 2 workloads that must end some have no bound"),
    ],
)
def test_the_text_counts_the_workloads_that_end_before(at: float, ended: int, message: str) -> None:
    stored = stored_announcement(told_by(AnnouncedStart(at, "Declared", ended, 50, at)))
    assert stored is not None
    assert (stored.message, stored.ended) == (message, ended)


@pytest.mark.parametrize(
    "message",
    ["", "soon", "starts at 2026-99-99T99:99:99Z at the latest (Declared), after 3 workloads have ended"],
)
def test_words_of_other_writers_promise_no_time(message: str) -> None:
    condition = c.new_condition(c.PLANNED_START, "True", "Planned", message, 0)
    promise = stored_announcement(
        Workload(metadata=ObjectMeta(name="w"), status=WorkloadStatus(conditions=(condition,)))
    )
    assert promise is None or promise.at == math.inf


def test_only_what_a_user_would_notice_is_told() -> None:
    promise = AnnouncedStart(1000, "Declared", 3, 0, 1000)
    for at, told in ((941.0, 1000), (940.0, 1000), (939.0, 939)):
        assert kept(promise, AnnouncedStart(at, "Declared", 2, 50, at)).at == told


def test_a_promise_is_taken_back_once() -> None:
    workload = told_by(AnnouncedStart(1000, "Declared", 3, 0, 1000))
    taken_back = told_by(None, workload)
    assert planned_start_conditions(workload, None, 60)[0].reason == "NotPlanned"
    assert planned_start_conditions(taken_back, None, 60) == ()


def condition_of(world: World, name: str = "large") -> Condition | None:
    return find_condition(world.workloads[name].status.conditions, c.PLANNED_START)


def told(world: World, name: str = "large") -> tuple[str, str, str]:
    condition = condition_of(world, name)
    assert condition is not None, "nothing is told of a planned start"
    return condition.status, condition.reason, condition.message


AT_110 = "starts at 1970-01-01T00:01:50Z at the latest (Declared), after 1 workload has ended"


def test_the_condition_tells_the_planned_start_until_the_workload_has_quota() -> None:
    world = a_world(FIRST, LARGE)
    assert told(world) == ("True", "Planned", AT_110)
    assert condition_of(world, "first") is None
    world.run({"finish": ["first"]})
    run_cycle(world)
    assert told(world) == ("False", "Started", f"Previously: {AT_110}")


def test_it_is_taken_back_if_nothing_is_planned_any_more() -> None:
    world = a_world(FIRST, LARGE)
    world.run({"update": {"clusterQueues": {"q": queue(8, annotations={})}}})
    run_cycle(world)
    assert told(world) == ("False", "NotPlanned", "the start is not planned any more")


def test_cycles_in_which_nothing_changes_tell_nothing() -> None:
    world = a_world(FIRST, LARGE, job("later", 4, 2))
    for _ in range(3):
        assert run_cycle(world).announced == ()
        world.now += 1


@pytest.mark.parametrize(
    ("changes", "reason", "text"),
    [
        pytest.param(
            {"create": ["urgent"]},
            "HigherPriorityArrived",
            "default/urgent, which comes first, needs what was planned",
            id="a workload with a higher priority",
        ),
        pytest.param(
            {"update": {"clusterQueues": {"q": queue(10)}}},
            "QuotaCut",
            "quota of cpu in flavor default was cut",
            id="less quota",
        ),
    ],
)
def test_a_promise_moves_later_only_for_a_cause_that_it_names(changes: Json, reason: str, text: str) -> None:
    jobs = (
        job("first", 4, 0, 100),
        job("longer", 2, 0, 150),
        job("large", 10, 1, 60),
        job("urgent", 4, 2, 300, priority=5, create="later"),
    )
    world = a_world(*jobs, q=queue(12))
    promise = AT_110
    assert told(world) == ("True", "Planned", promise)
    world.now += 5
    world.run(changes)
    for _ in range(2):
        run_cycle(world)
    status, seen, message = told(world)
    assert (status, seen) == ("True", reason)
    assert message.endswith(f"; was 1970-01-01T00:01:50Z: {reason}: {text}")


def test_an_overrun_of_a_learned_bound_moves_a_promise() -> None:
    """The promise allows for four times the bound, and the plan for the bound."""
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"q": queue(8)},
            "workloads": (job("first", 4, 0), LARGE),
            "now": 10,
        }
    )
    world.state.set_learned_bounds({WorkKind(("default", "q")): 50.0})
    run_cycle(world)
    assert run_cycle(world).wake_at == 61
    assert (
        told(world)[2] == "starts at 1970-01-01T00:03:30Z at the latest (Learned), after 1 workload has ended"
    )
    assert planned(world) == ("large", 60)
    promised = told(world)
    for now, at in ((61.0, 110), (111.0, 210)):
        world.now = now
        run_cycle(world)
        assert planned(world) == ("large", at)
        assert told(world) == promised
    world.now = 211.0
    run_cycle(world)
    assert told(world) == (
        "True",
        "BoundOverrun",
        "starts at 1970-01-01T00:26:50Z at the latest (Learned), after 1 workload has ended; was "
        "1970-01-01T00:03:30Z: BoundOverrun: default/first runs longer than expected",
    )


def test_no_text_names_a_workload_of_another_namespace() -> None:
    """Users read the conditions of the workloads of their namespace."""
    rules = queue(8, annotations={"backfill": "EASY", "on-overrun": "Evict"})
    theirs: Json = {"namespace": "other"}
    jobs = (job("other", 4, 0, 60), LARGE, job("short", 4, 2, create="later", **theirs))
    world = World({"flavors": ["default"], "clusterQueues": {"q": rules}, "workloads": jobs, "now": 10})
    world.state.set_learned_bounds({WorkKind(("other", "q")): 50.0})
    run_cycle(world)
    world.run({"create": ["short"]})
    run_cycle(world)
    world.run({"finish": ["other"]})
    world.now = 72.0
    run_cycle(world)
    evicted = find_condition(world.workloads["short"].status.conditions, c.EVICTED)
    assert evicted is not None
    assert evicted.message == (
        "It runs longer than expected, and a workload of another namespace waits for its planned start"
    )
    assert as_read_in("default", Key("default", "w")) == Key("default", "w")
    assert str(as_read_in("default", Key("other", "w"))) == "a workload of another namespace"


def test_a_new_process_keeps_a_promise_until_run_times_are_learned_again() -> None:
    world = a_world(job("first", 4, 0), LARGE)
    assert told(world)[2].startswith("no time is known")
    world.state.set_learned_bounds({WorkKind(("default", "q")): 50.0})
    run_cycle(world)
    learned = told(world)
    assert learned[2].startswith("starts at 1970-01-01T00:03:30Z at the latest (Learned)")
    restarted = World({"flavors": ["default"], "clusterQueues": {"q": queue(8)}, "workloads": (), "now": 20})
    restarted.put_queue_of({"queue": "q", "name": "any"})
    restarted.workloads = dict(world.workloads)
    for workload in world.workloads.values():
        restarted.state.put_workload(workload, restarted.now)
    run_cycle(restarted)
    assert told(restarted) == learned
    restarted.state.set_learned_bounds({WorkKind(("default", "q")): 50.0})
    run_cycle(restarted)
    assert told(restarted) == learned
    assert restarted.state.ledger.announced[Key("default", "large")].revisions == ()


def test_revisions_are_told_with_the_latest_first() -> None:
    promise = AnnouncedStart(
        10, "Declared", 1, 0, 10, (Revision(5, "StateChanged", "a"), Revision(7, "QuotaCut", "b"))
    )
    assert promise.reason == "QuotaCut"
    assert promise.message.endswith(
        "; was 1970-01-01T00:00:07Z: QuotaCut: b; was 1970-01-01T00:00:05Z: StateChanged: a"
    )


@pytest.mark.parametrize(
    ("first_created", "evicts"),
    [pytest.param(2, True, id="it passed"), pytest.param(0, False, id="it came first")],
)
def test_an_overrun_evicts_what_passed_the_planned_workload_if_the_queue_says_so(
    first_created: int, evicts: bool
) -> None:
    rules = queue(8, annotations={"backfill": "EASY", "on-overrun": "Evict"})
    jobs = (job("other", 4, 0, 60), LARGE, job("short", 4, first_created, create="later"))
    world = World({"flavors": ["default"], "clusterQueues": {"q": rules}, "workloads": jobs, "now": 10})
    world.state.set_learned_bounds({WorkKind(("default", "q")): 50.0})
    if not evicts:
        world.run({"create": ["short"]})
    run_cycle(world)
    world.run({"create": ["short"]} if evicts else {"cycle": 1})
    run_cycle(world)
    at = "00:01:10" if evicts else "00:03:30"  # what passes does not weaken a promise
    assert told(world)[2].startswith(f"starts at 1970-01-01T{at}Z at the latest (Learned)")
    world.run({"finish": ["other"]})
    world.now = 72.0
    run_cycle(world)
    evicted = find_condition(world.workloads["short"].status.conditions, c.EVICTED)
    assert (evicted is not None) is evicts
    if evicted is not None:
        assert (evicted.reason, evicted.message) == (
            "BoundOverrun",
            "It runs longer than expected, and default/large waits for its planned start",
        )
        assert told(world)[1] == "Planned"
        world.run({"evictionDone": ["short"]})
        run_cycle(world)
        assert told(world)[1] == "Started"
    else:
        world.now = 212.0
        run_cycle(world)
        assert told(world)[1] == "BoundOverrun"


PLACES: list[tuple[Json, Json]] = [  # what differs in the world, and the labels of node x
    ({"flavors": ["default"], "config": {"nodeFit": {"mode": "Require"}}}, {}),
    ({"flavors": ["default"], "config": {"nodeFit": {"mode": "Require"}}}, {HOSTNAME: "host-{}"}),
    *(
        (
            {"flavors": {"default": {"topologyName": "racks"}}, "topologies": {"racks": {"levels": levels}}},
            {HOSTNAME: "host-{}", "rack": "rack-{}"},
        )
        for levels in (["rack"], ["rack", HOSTNAME])
    ),
]
IDS = ["hosts", "hosts with other names", "racks only", "racks and hosts"]


def node_of_4(name: str, labels: Json) -> Json:
    labels = {label: value.format(name) for label, value in labels.items()}
    return {"labels": labels, "allocatable": {"cpu": 4, "pods": 10}}


def a_world_with_places(given: Json, labels: Json, *jobs: Json) -> World:
    """Return the world at second 10 with nodes a and b, of which each has four cpus and its own rack."""
    topology: Json = {"topology": {"required": "rack"}} if "topologies" in given else {}
    world = World(
        {
            **given,
            "nodes": {name: node_of_4(name, labels) for name in ("a", "b")},
            "clusterQueues": {"q": queue(20)},
            "workloads": [{**each, **topology} for each in jobs],
            "now": 10,
        }
    )
    for _ in range(2):
        run_cycle(world)
    return world


@pytest.mark.parametrize(("given", "labels"), PLACES, ids=IDS)
def test_what_moves_a_planned_start_on_nodes_that_stay_is_no_lost_node(given: Json, labels: Json) -> None:
    world = a_world_with_places(given, labels, job("first", 4, 0), job("other", 4, 0), job("large", 4, 1, 60))
    world.state.set_learned_bounds({WorkKind(("default", "q")): 50.0})
    for now, reason in ((11.0, "Planned"), (212.0, "BoundOverrun")):
        world.now = now
        run_cycle(world)
        assert told(world)[1] == reason


@pytest.mark.parametrize(("given", "labels"), PLACES, ids=IDS)
@pytest.mark.parametrize("is_removed", [True, False])
def test_a_lost_node_moves_a_planned_start(is_removed: bool, given: Json, labels: Json) -> None:
    """``large`` has places on the node of ``first``, which ends sooner than ``longer``."""
    jobs = (
        job("first", 4, 0, 100),
        job("longer", 4, 0, 150),
        job("large", 4, 1, 60),
    )
    world = a_world_with_places(given, labels, *jobs)
    assert told(world) == ("True", "Planned", AT_110)
    first = world.state.ledger.reservations[Key("default", "first")]
    (node,) = (place.values[-1][-1] for place in first.places.all)
    if is_removed:
        world.state.nodes.retry_flavors(world.state.nodes.remove_node(node))
    else:
        world.given["nodes"][node] |= {"ready": False}
        world.put_node(node)
    for _ in range(2):
        run_cycle(world)
    status, reason, message = told(world)
    assert (status, reason) == ("True", "NodeLost")
    assert message.startswith("starts at 1970-01-01T00:02:40Z at the latest (Declared)")
    assert message.endswith(f"; was 1970-01-01T00:01:50Z: NodeLost: node {node} was lost")
