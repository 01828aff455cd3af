"""Searches for victims behind ``enqueue``: which ones are made, and that they leave nothing behind."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.api.core.volumes import CSINode, StorageClass
from quorate.api.meta import ObjectMeta
from quorate.gang.actions import eviction_plans
from quorate.gang.actions.enqueue import EnqueuePass
from quorate.gang.actions.eviction_plans import EvictionPlans
from quorate.gang.actions.preempt import preempt_for
from quorate.gang.cache.task import TaskStatus
from quorate.gang.reports import waiting_groups
from tests.gang.enqueue_worlds import RESOURCES, RUNNING, Json, group, group_states, running
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of

LOW, HIGH = {"priorityClassName": "low"}, {"priorityClassName": "high"}
CONF = {
    "actions": "enqueue, allocate, preempt, reclaim, backfill",
    "tiers": [["priority", "gang", "conformance", "proportion", "predicates", "nodeorder"]],
}


def full(*waiting: Json, **given: Any) -> World:
    """Return a world where a group of low priority has both cpus."""
    running_group = group("low", "2", minMember=2, created=0, **LOW, **RUNNING)
    return World(
        {
            "priorityClasses": {"high": 9, "low": 1},
            "nodes": [{"name": "n1", "cpu": 2}],
            "podGroups": [running_group, *waiting],
            "pods": [running("low", name=f"low-{index}") for index in range(2)],
            **given,
        },
        settings_of(CONF, "design"),
        restarting=False,
    )


def searches(here: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each search from now on adds the name of its group."""
    found: list[str] = []
    run = preempt_for

    def counted(session: Any, gang: Any) -> bool:
        found.append(gang.key.name)
        return run(session, gang)

    monkeypatch.setattr(eviction_plans, "_ACTIONS", {"preempt": counted})
    return found


def test_the_event_and_the_outcome_name_the_victims() -> None:
    here = full(group("high", "2", minMember=2, created=1, **HIGH))
    outcome = here.session()
    (admitted,) = outcome.admitted
    assert [victim.name for victim in admitted.victims] == ["low-1", "low-0"]
    (event,) = (each for each in outcome.events if each.reason == "Inqueue")
    assert event.message == "admitted; preempt is to evict 2 pods for it: low-1, low-0"


def test_a_search_leaves_nothing_behind() -> None:
    here = full(group("high", "2", minMember=2, created=1, **HIGH), group("other", "2", created=2, **HIGH))
    session = here.open_session()
    model = session.model
    before = {key: (dict(gang.tasks), gang.phase, gang.requests.pending) for key, gang in model.gangs.items()}
    used, shares = dict(model.cluster.total_used), session.queue_accounts["default"].allocated.copy()
    with EvictionPlans(session) as plans:
        enqueue = EnqueuePass(session, plans)
        enqueue.recheck_admitted()
        for gang in enqueue.waiting():
            enqueue.evaluate(gang)
        assert model.gangs[key_of("high")].phase == "Inqueue"
        assert model.gangs[key_of("low")].with_status(TaskStatus.RELEASING)
    after = {key: (dict(gang.tasks), gang.phase, gang.requests.pending) for key, gang in model.gangs.items()}
    admitted = before.pop(key_of("high"))
    assert after.pop(key_of("high")) == (admitted[0], "Inqueue", admitted[2])
    assert after == before
    assert (dict(model.cluster.total_used), session.queue_accounts["default"].allocated) == (used, shares)
    assert not model.gangs[key_of("low")].with_status(TaskStatus.RELEASING)


def test_equal_groups_have_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    here = full(*(group(f"g{index}", "3", created=index, **HIGH) for index in range(1, 5)))
    here.do("addNodes", [{"name": "n2", "cpu": 2}])
    found = searches(here, monkeypatch)
    here.session()
    assert found == ["g1"]  # a member of 3 cpus fits no node


def test_a_search_is_repeated_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    here = full(
        group("high", "3", created=1, **HIGH), nodes=[{"name": "n1", "cpu": 2}, {"name": "n2", "cpu": 1}]
    )
    here.session()  # writes the conditions
    found = searches(here, monkeypatch)
    here.session()
    here.session()
    assert len(found) == 1  # the written status was a change
    here.do("addNodes", [{"name": "n3", "cpu": 3}])
    here.session()
    assert (len(found), group_states(here)["high"]) == (1, "Inqueue")


def test_every_group_is_searched_for_in_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"g{index}" for index in range(3 * eviction_plans.MAX_SEARCHES)]
    here = full(
        *(group(name, f"3{index:03}m", created=index, **HIGH) for index, name in enumerate(names)),
        nodes=[{"name": "n1", "cpu": 2}, {"name": "n2", "cpu": 2}],
    )
    found = searches(here, monkeypatch)
    outcomes = []
    for session in range(6):
        here.do("setQueue", {"name": "default", "weight": 2 + session})  # a change that does not help
        outcomes.append(here.session())
    assert set(found[: len(names)]) == set(names)
    assert max(found.count(name) for name in found) <= 2
    assert outcomes[0].wake_at == here.now + eviction_plans.RETRY_S
    assert set(group_states(here).values()) == {RESOURCES, "Running"}


def test_explain_shows_the_plan() -> None:
    here = full(group("high", "2", minMember=2, created=1, **HIGH))
    found = waiting_groups(here.model, here.settings, here.now)[key_of("high")]
    assert found.admitted
    assert str(found.plan) == "preempt is to evict 2 pods for it: low-1, low-0"


def test_a_group_in_backoff_has_no_plan() -> None:
    annotations = {"scheduling.volcano.sh/requeue-not-before": "2099-01-01T00:00:00Z"}
    here = full(group("high", "2", minMember=2, created=1, **HIGH, annotations=annotations))
    found = waiting_groups(here.model, here.settings, here.now)[key_of("high")]
    assert (found.plan, found.checks["room"] is None) == (None, False)


@pytest.mark.parametrize("roles", [{}, {"minTaskMember": {"w": 2**31 - 1}}])
def test_nothing_is_searched_for_more_members_than_nodes_take_pods(
    roles: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each expected member is a task: a tenant could fill the memory of the scheduler with one group."""
    here = full(group("high", "2", minMember=2**31 - 1, created=1, **HIGH, **roles))
    found = searches(here, monkeypatch)
    here.session()
    assert found == []
    assert group_states(here)["high"] == "NotEnoughResources"


def test_a_search_is_repeated_after_a_change_of_which_only_the_filters_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A namespace, a driver or a volume may be what its pods lack: no object of the model changes."""
    here = full(
        group("high", "3", created=1, **HIGH), nodes=[{"name": "n1", "cpu": 2}, {"name": "n2", "cpu": 1}]
    )
    changes: tuple[Callable[[], None], ...] = (
        lambda: here.model.constraints.set_namespace("default", {"team": "a"}),
        lambda: here.model.constraints.set_drivers(CSINode(metadata=ObjectMeta(name="n1"))),
        lambda: here.model.storage.set_class(StorageClass(metadata=ObjectMeta(name="fast"))),
    )
    for _ in range(3):
        here.session()  # until no object changes
    found = searches(here, monkeypatch)
    for change in changes:
        here.session()
        assert found == []
        change()
        here.session()
        assert found == ["high"]
        found.clear()
