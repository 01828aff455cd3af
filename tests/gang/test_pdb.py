"""Plugin pdb: PodDisruptionBudgets limit the victims of preempt and reclaim."""

import pytest

from quorate.api import codec
from quorate.api.core.scheduling import PodDisruptionBudget
from quorate.gang.actions.whole_gang_eviction import is_evictable
from quorate.gang.session_opening import open_session
from tests.gang.plugin_session import Json, PluginSession

PREEMPTABLE = {"volcano.sh/preemptable": "true"}
OLD = ["old-0", "old-1", "old-2"]


def budget(allowed: int, **more: object) -> Json:
    """Return a budget for the pods with app=old; it allows ``allowed`` disruptions."""
    return {
        "metadata": {"name": "budget", "namespace": more.get("namespace", "default")},
        "spec": {"selector": more.get("selector", {"matchLabels": {"app": "old"}})},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": more.get("disrupted", {})},
    }


def opened(*budgets: Json, labels: Json | None = None) -> PluginSession:
    """Open a session with three running pods of gang a and a pending one of gang b."""
    labels = {"app": "old"} if labels is None else labels
    old = [
        {"name": name, "group": "a", "node": "n1", "phase": "Running", "cpu": 1, "labels": labels}
        for name in OLD
    ]
    world = {
        "nodes": [{"name": "n1", "cpu": 4}],
        "podGroups": [{"name": "a", "minMember": 0, "annotations": PREEMPTABLE}, {"name": "b"}],
        "pods": [*old, {"name": "new", "group": "b", "cpu": 1}],
    }
    of = PluginSession(world, ["pdb"])
    for index, each in enumerate(budgets):
        each["metadata"]["name"] += str(index)
        of.world.model.set_disruption_budget(codec.convert(PodDisruptionBudget, each))
    of.session = open_session(of.world.model, of.world.settings, of.world.now)
    return of


@pytest.mark.parametrize(
    ("budgets", "victims"),
    [
        pytest.param([], 3, id="no budget"),
        pytest.param([budget(0)], 0, id="no disruption"),
        pytest.param([budget(2)], 2, id="two disruptions"),
        pytest.param([budget(3), budget(1)], 1, id="the smallest of two budgets"),
        pytest.param([budget(0, namespace="other")], 3, id="of another namespace"),
        pytest.param([budget(0, selector={"matchLabels": {"app": "x"}})], 3, id="of other pods"),
        pytest.param([budget(0, selector={})], 3, id="an empty selector selects no pod"),
        pytest.param([budget(0, selector=None)], 3, id="without a selector"),
        pytest.param([budget(-1)], 0, id="below zero"),
    ],
)
def test_victims(budgets: list[Json], victims: int) -> None:
    of = opened(*budgets)
    assert of.preemptable("new", OLD) == OLD[:victims]
    assert of.reclaimable("new", OLD) == OLD[:victims]


def test_a_pod_that_the_budget_counts_already() -> None:
    of = opened(budget(1, disrupted={"old-0": "2026-01-01T00:00:00Z"}))
    assert of.preemptable("new", OLD) == ["old-0", "old-1"]


def test_a_pod_without_labels_has_no_budget() -> None:
    assert opened(budget(0), labels={}).preemptable("new", OLD) == OLD


def test_a_pod_that_is_leaving_counts() -> None:
    of = opened(budget(2))
    of.evict("old-0")
    assert of.preemptable("new", OLD[1:]) == ["old-1"]
    of.session = open_session(of.world.model, of.world.settings, of.world.now)
    assert of.preemptable("new", OLD[1:]) == ["old-1"]


def test_an_eviction_that_is_undone_does_not_count() -> None:
    of = opened(budget(1))
    with of.session.statement() as statement:
        statement.evict(of.task("old-0"))
        assert of.preemptable("new", OLD[1:]) == []
    assert of.preemptable("new", OLD) == ["old-0"]


@pytest.mark.parametrize(("allowed", "evictable"), [(2, False), (3, True)])
def test_a_gang_is_evicted_as_a_whole_only_within_its_budget(allowed: int, evictable: bool) -> None:
    of = opened(budget(allowed))
    assert is_evictable(of.session, of.gang("a")) == evictable
