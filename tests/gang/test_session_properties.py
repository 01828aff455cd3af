"""Properties of sessions over generated worlds."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.volcano import UNSCHEDULABLE
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import EVICTABLE_STATUSES, TaskStatus
from quorate.gang.session.session import Session
from quorate.gang.session.victims import choose_victims, has_possible_victims, in_victim_order
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import Choice
from tests.gang.generated_worlds import ONE_TIER, confs, picture, worlds
from tests.gang.session_invariants import SessionStart, comparable, violations
from tests.gang.vectors import settings_of
from tests.gang.world import World
from tests.search import examples

Json = dict[str, Any]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,  # many generated examples of rules that other tests measure
]

few = examples(40)
profiles = st.sampled_from(("compat", "design"))


def world_of(given_: Json, conf: Json, profile: str, *, restarting: bool = False) -> World:
    return World(given_, settings_of(conf, profile), restarting=restarting)


@few
@given(worlds(), confs, profiles)
def test_every_session_keeps_the_invariants(given_: Json, conf: Json, profile: str) -> None:
    """No partial gang, no overcommitted node, no eviction without effect, and no partially evicted gang."""
    world = world_of(given_, conf, profile)
    for operations in ([], [("start", "all"), ("reap", "all")], [("reap", "all"), ("start", "all")]):
        for name, argument in operations:
            world.do(name, argument)
        before = SessionStart(world)
        assert violations(world, before, world.session()) == []


@few
@given(worlds(), confs, profiles)
def test_a_session_leaves_only_its_decisions_in_the_model(given_: Json, conf: Json, profile: str) -> None:
    """Once the objects have the decisions, the model equals one built from them."""
    world = world_of(given_, conf, profile)
    for _ in range(2):
        world.session()
        assert picture(world.model) == picture(world.fresh_model())
        world.do("reap", "all")


@few
@given(worlds(), confs, profiles, st.randoms(use_true_random=False))
def test_the_order_of_objects_does_not_matter(given_: Json, conf: Json, profile: str, random: Random) -> None:
    shuffled = dict(given_)
    for kind in ("nodes", "queues", "podGroups", "pods"):
        shuffled[kind] = random.sample(given_[kind], len(given_[kind]))
    assert comparable(world_of(shuffled, conf, profile).session()) == comparable(
        world_of(given_, conf, profile).session()
    )


@few
@given(worlds(), confs, profiles)
def test_a_new_leader_makes_the_same_decisions(given_: Json, conf: Json, profile: str) -> None:
    old = world_of(given_, conf, profile)
    new = world_of(given_, conf, profile, restarting=True)
    for _ in range(3):
        assert comparable(old.session()) == comparable(new.session())
        for world in (old, new):
            world.do("start", "all")
            world.do("reap", "all")


@few
@given(worlds(), confs, profiles, st.lists(st.integers(0, 3), max_size=12), st.randoms(use_true_random=False))
def test_a_discarded_statement_changes_nothing(
    given_: Json, conf: Json, profile: str, kinds: Sequence[int], random: Random
) -> None:
    session = world_of(given_, conf, profile).open_session()
    before = picture(session.model), order_keys(session)
    with session.statement() as statement:
        for kind in kinds:
            tasks = [task for gang in session.gangs for task in gang.tasks.values() if not task.gated]
            if not tasks:
                break
            task = random.choice(tasks)
            choice = session.node_finder.best(task.shape)
            if kind == 0 and task.status in EVICTABLE_STATUSES:
                statement.evict(task)
            elif kind == 1 and task.status in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED):
                statement.unpipeline(task)
            elif task.status is TaskStatus.PENDING and isinstance(choice, Choice):
                (statement.allocate if kind == 2 else statement.pipeline)(task, choice.node)
    assert (picture(session.model), order_keys(session)) == before


def order_keys(session: Session) -> Json:
    """Return the sort keys that follow from the sums of plugins."""
    return {
        "queues": {name: session.queue_order_key(queue) for name, queue in sorted(session.queues.items())},
        "gangs": {str(gang.key): session.job_order_key(gang) for gang in session.gangs},
    }


@few
@given(worlds(), confs, profiles)
def test_gangs_without_possible_victims_have_no_victims(given_: Json, conf: Json, profile: str) -> None:
    session = world_of(given_, conf, profile).open_session()
    running = [task for gang in session.gangs for task in gang.with_status(*EVICTABLE_STATUSES)]
    for claimant in session.gangs:
        candidates = in_victim_order(session, running, session.queue_of(claimant))
        for task in claimant.schedulable.values():
            for victim in choose_victims(session, "preempt", task, candidates):
                assert has_possible_victims(session, "preempt", claimant, session.gang_of(victim))
            for victim in choose_victims(session, "reclaim", task, candidates):
                assert has_possible_victims(session, "reclaim", claimant, session.gang_of(victim))


@few
@given(worlds(), confs, profiles, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=3))
def test_lost_devices_do_not_matter_to_gangs_that_request_none(
    given_: Json, conf: Json, profile: str, devices: list[tuple[int, int]]
) -> None:
    """Pods of another scheduler use more devices of some nodes than are left, or only places for pods."""
    nodes, npu = given_["nodes"], "example.com/npu"
    users = [
        {"name": f"user-{node['name']}", "count": used, "node": node["name"], "phase": "Running"}
        for node, (_, used) in zip(nodes, devices, strict=False)
        if used
    ]
    users = [{**user, "schedulerName": "default-scheduler"} for user in users]
    lossy_nodes = [{**node, "scalars": {npu: left}} for node, (left, _) in zip(nodes, devices, strict=False)]
    lossy_users = [{**user, "scalars": {npu: 1}} for user in users]
    lossy = world_of({**given_, "nodes": lossy_nodes, "pods": [*given_["pods"], *lossy_users]}, conf, profile)
    without = world_of({**given_, "pods": [*given_["pods"], *users]}, conf, profile)
    for _ in range(3):
        assert comparable(lossy.session()) == comparable(without.session())
        for world in (lossy, without):
            world.do("start", "all")
            world.do("reap", "all")


@few
@given(worlds(), profiles)
def test_no_gang_waits_for_free_resources(given_: Json, profile: str) -> None:
    """An admitted gang of equal members that was not placed does not fit what is free after the session."""
    conf = {
        "actions": "allocate, backfill",
        "tiers": [["priority", "gang", "conformance"], ["predicates", "nodeorder"]],
    }
    world = world_of(given_, conf, profile)
    if world.session().pipelined:
        return  # what is held for them is free again when the session has ended
    for gang in world.fresh_model().gangs.values():
        if gang.is_pending or gang.task_counts.best_effort or len(gang.shapes) != 1 or gang.role_minima:
            continue
        counts = gang.task_counts
        if profile == "design" and counts.by_status[TaskStatus.RELEASING] and not counts.ready:
            continue  # its new members wait until it is admitted anew, which is when these are gone
        if gang.task_counts.valid < gang.min_member:
            continue
        missing = max(1, gang.min_member - gang.task_counts.ready)
        assert free_places(world, gang) < missing, f"{gang.key} waits for {missing}"


def free_places(world: World, gang: Gang) -> int:
    """Return how many more members fit, placed one by one in a session of their own."""
    session = world.open_session()
    members = list(session.model.gangs[gang.key].schedulable.values())
    with session.statement() as statement:
        for task in members:
            choice = session.node_finder.best(task.shape)
            if isinstance(choice, Choice):
                is_idle = choice.capacity is Capacity.IDLE
                (statement.allocate if is_idle else statement.pipeline)(task, choice.node)
        return len(statement.moves)


@few
@given(worlds(), st.sets(st.sampled_from(["g0", "g1", "g2"])))
def test_a_group_that_waits_says_why(given_: Json, without_queue: set[str]) -> None:
    """A group that was and stays pending has the reason in its status, also without its queue."""
    groups = [
        group | {"queue": "gone"} if group["name"] in without_queue else group
        for group in given_["podGroups"]
    ]
    conf = {"actions": "enqueue, allocate, backfill", "tiers": [ONE_TIER]}
    world = world_of(given_ | {"podGroups": groups}, conf, "design")
    for _ in range(2):
        before = waiting_groups(world)
        world.session()
        waiting = before & waiting_groups(world)
        assert {key for key in waiting if not world.condition(key, UNSCHEDULABLE)} == set()
        world.do("reap", "all")


def waiting_groups(world: World) -> set[str]:
    return {str(key) for key, group in world.groups.items() if group.status.phase in ("", "Pending")}
