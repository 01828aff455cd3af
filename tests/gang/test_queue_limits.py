"""Laws of the plugins that limit queues, whatever is guaranteed and whichever nodes take no pods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.gang.reports import queue_reports
from tests.gang.generated_worlds import worlds
from tests.gang.test_played_remedies import facts_of
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of
from tests.search import examples

Json = dict[str, Any]

few = examples(40)
profiles = st.sampled_from(["compat", "design"])
plugins = st.sampled_from(["proportion", "capacity", {"name": "capacity", "enableHierarchy": True}])


def opened(given_: Json, plugin: str | Json, profile: str, actions: str = "enqueue, allocate") -> World:
    tiers = [["priority", "gang"], ["overcommit", plugin, "predicates", "nodeorder"]]
    return World(given_, settings_of({"actions": actions, "tiers": tiers}, profile), restarting=False)


@few
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=4),
    st.integers(1, 6),
    st.integers(1, 6),
    plugins,
    profiles,
)
def test_a_queue_gets_its_guarantee_whatever_others_are_guaranteed(
    guarantees: list[int], pods: int, nodes: int, plugin: str | Json, profile: str
) -> None:
    """Guarantees may exceed the cluster: the first queue is the only one with a group."""
    queues = [{"name": f"q{at}", "guarantee": {"cpu": amount}} for at, amount in enumerate(guarantees)]
    given_ = {
        "nodes": [{"name": f"n{at}", "cpu": 1} for at in range(nodes)],
        "queues": queues,
        "podGroups": [{"name": "a", "queue": "q0", "minMember": pods, "minResources": {"cpu": pods}}],
        "pods": [{"name": "a", "count": pods, "group": "a", "cpu": 1}],
    }
    world = opened(given_, plugin, profile)
    world.session()
    if pods <= min(guarantees[0], nodes):
        assert world.bound_for["a"] == pods
    assert world.bound_for["a"] in (0, pods)


@few
@given(worlds(), plugins, profiles, st.data())
def test_a_cordoned_node_counts_in_the_shares_of_queues_and_takes_no_pod(
    given_: Json, plugin: str | Json, profile: str, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([node["name"] for node in given_["nodes"]]))
    cordoned = [{**node, "unschedulable": node["name"] == name} for node in given_["nodes"]]
    before, after = (
        opened({**given_, "nodes": nodes}, plugin, profile, "enqueue, allocate, preempt, reclaim, backfill")
        for nodes in (given_["nodes"], cordoned)
    )
    reports = [queue_reports(world.model, world.settings, world.now) for world in (before, after)]
    assert reports[0] == reports[1]
    for _ in range(2):
        assert name not in after.session().pipelined.values()
        assert name not in after.binds.values()
        after.do("start", "all")
        after.do("reap", "all")


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
@pytest.mark.parametrize(
    ("minimum", "amounts"),
    [
        pytest.param(3, "need 6, have 5 of 6 now)", id="the members up to the first that has none"),
        pytest.param(4, "need 8, have 5 of 6 now), so it can never fit", id="more than the queue may have"),
        pytest.param(1, "need 2, have 1 of 6 now)", id="one more, beyond the minimum"),
    ],
)
def test_members_that_their_queue_keeps_waiting_name_its_share(
    plugin: str, minimum: int, amounts: str
) -> None:
    given_: Json = {
        "nodes": [{"name": "n1", "cpu": 20}],
        "queues": [{"name": "q", "capability": {"cpu": 6}}],
        "podGroups": [
            {"name": "other", "queue": "q", "minMember": 1, "phase": "Running"},
            {"name": "a", "queue": "q", "minMember": minimum, "phase": "Inqueue", "created": 1},
        ],
        "pods": [
            {"name": "other", "group": "other", "cpu": 1, "node": "n1", "phase": "Running"},
            {"name": "a", "count": 4, "group": "a", "cpu": 2},
        ],
    }
    world = opened(given_, plugin, "design", "allocate")
    world.session()
    message = f"their queue may not allocate more now (queue q: cpu: {amounts}"
    reason = str(world.session().pending_reasons[key_of("a")])
    assert reason.endswith(message)
    world.do("addPods", [{"name": "more", "group": "other", "cpu": 1, "node": "n1", "phase": "Running"}])
    assert world.session().statuses[0].gang == key_of("other"), "the condition of a is not written again"


HIERARCHY: Json = {"name": "capacity", "enableHierarchy": True}


@pytest.mark.parametrize("profile", ["compat", "design"])
@pytest.mark.parametrize(
    ("plugin", "parent"),
    [("proportion", "root"), ("capacity", "root"), (HIERARCHY, "root"), (HIERARCHY, "above")],
    ids=["proportion", "capacity", "tree", "parent"],
)
@pytest.mark.parametrize("capability", [4, 6])
def test_a_group_beyond_the_capability_of_its_queue_says_so_before_what_the_nodes_lack(
    plugin: str | Json, parent: str, capability: int, profile: str
) -> None:
    """The nodes may become free; the capability stays."""
    limit = {"capability": {"cpu": capability}}
    queue = {"name": "q", "parent": parent, **(limit if parent == "root" else {})}
    given_ = {
        "nodes": [{"name": "n", "cpu": 8}],
        "queues": [queue, {"name": "above", **limit}, {"name": "other"}],
        "podGroups": [
            {"name": "busy", "queue": "other", "minMember": 1, "phase": "Running"},
            {"name": "a", "queue": "q", "minMember": 1, "minResources": {"cpu": 6}},
        ],
        "pods": [{"name": "busy", "group": "busy", "cpu": 6, "node": "n", "phase": "Running"}],
    }
    outcome = opened(given_, plugin, profile).session()
    of_queue = str(outcome.pending_reasons[key_of("a")]).startswith("queue ")
    assert of_queue == (capability == 4), outcome.pending_reasons


@pytest.mark.parametrize("hard", [False, True], ids=["plain", "within a HyperNode"])
@pytest.mark.parametrize("profile", ["compat", "design"])
@pytest.mark.parametrize(
    ("plugin", "parent"),
    [("proportion", "root"), ("capacity", "root"), (HIERARCHY, "above")],
    ids=["proportion", "capacity", "parent"],
)
@pytest.mark.parametrize(
    ("capability", "cpus", "text"),
    [
        pytest.param(1, [2, 2], "cpu: need 4, have 1 of 1 now", id="no member"),
        pytest.param(3, [2, 2], "cpu: need 4, have 3 of 3 now", id="not all members"),
        pytest.param(3, [1, 3], "cpu: need 4, have 3 of 3 now", id="unequal members"),
        pytest.param(4, [2, 2], "", id="all members"),
        pytest.param(4, [1, 3, 4], "", id="the smallest members"),
    ],
)
def test_members_that_no_node_takes_name_the_limit_of_their_queue_too(
    capability: int, cpus: list[int], text: str, plugin: str | Json, parent: str, profile: str, *, hard: bool
) -> None:
    """The group is admitted, as it has no minResources; nodes may become free, and the limit stays."""
    limit = {"capability": {"cpu": capability}}
    queue = {"name": "q", "parent": parent, **(limit if parent == "root" else {})}
    topology = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}} if hard else {}
    given_ = {
        "nodes": [{"name": "n", "cpu": 8}],
        "hyperNodes": [{"name": "h", "tier": 1, "nodes": "n"}],
        "queues": [queue, {"name": "above", **limit}, {"name": "other"}],
        "podGroups": [
            {"name": "busy", "queue": "other", "minMember": 1, "phase": "Running"},
            {"name": "a", "queue": "q", "minMember": 2, "phase": "Inqueue", **topology},
        ],
        "pods": [
            {"name": "busy", "group": "busy", "cpu": 8, "node": "n", "phase": "Running"},
            *({"name": f"a-{at}", "group": "a", "cpu": cpu} for at, cpu in enumerate(cpus)),
        ],
    }
    reason = str(opened(given_, plugin, profile).session().pending_reasons[key_of("a")])
    assert ("their queue may not allocate more now" in reason) == bool(text), reason
    assert text in reason


def test_a_capability_for_all_members_is_a_remedy() -> None:
    given_ = {
        "nodes": [{"name": "n", "cpu": 8}],
        "queues": [{"name": "q", "capability": {"cpu": 2}}],
        "podGroups": [{"name": "g", "queue": "q", "minMember": 2, "phase": "Inqueue"}],
        "pods": [{"name": "g", "count": 2, "group": "g", "cpu": 3}],
    }
    facts = facts_of(opened(given_, "capacity", "design", "allocate"), "g")
    assert [remedy.text for remedy in facts.remedies] == ["raise capability of queue q to 6 cpu"]
