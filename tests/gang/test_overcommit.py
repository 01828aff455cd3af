"""Plugin overcommit, beyond the shared vectors: how much of the cluster groups may reserve."""

from typing import Any

import pytest

from tests.gang.plugin_session import Json, PluginSession

GPU = "nvidia.com/gpu"


def refusal(
    asks: Json | None, factor: float | str | None = None, profile: str = "compat", **given: Any
) -> str:
    """Return why a group that requests ``asks`` is not admitted."""
    newcomer: Json = {"name": "new", "minMember": 1}
    if asks is not None:
        newcomer["minResources"] = asks
    world = {"nodes": [{"name": "n1", "cpu": 10, "scalars": {GPU: 3}}], "podGroups": [newcomer]}
    world["podGroups"] += given.pop("groups", [])
    plugin = {"name": "overcommit", "arguments": {} if factor is None else {"overcommit-factor": factor}}
    return PluginSession({**world, **given}, [plugin], profile).admission("new")


@pytest.mark.parametrize(
    ("asks", "factor", "free"),
    [
        pytest.param({"cpu": "12001m"}, None, "12", id="the default factor is 1.2"),
        pytest.param({"cpu": "10001m"}, 1, "10", id="a factor of one"),
        pytest.param({"cpu": "12001m"}, 0.5, "12", id="a factor below one is ignored"),
        pytest.param({"cpu": "12001m"}, "much", "12", id="a factor that is not a number is ignored"),
        pytest.param({"cpu": "25001m"}, 2.5, "25", id="a fractional factor"),
        pytest.param({"cpu": "10010m"}, "1.0009", "10009m", id="the factor is exact"),
        pytest.param({GPU: 4}, None, "3", id="devices are rounded down"),
        pytest.param({"example.com/tpu": 1}, 100, "0", id="a missing resource stays missing"),
    ],
)
def test_the_factor(asks: Json, factor: Any, free: str) -> None:
    (resource, needed), *_ = asks.items()
    plain = " (10 without overcommit)" if resource == "cpu" and free != "10" else ""
    assert refusal(asks, factor) == (
        f"cluster: {resource}: need {needed}, have {free} now and {free} at most{plain}, so it can never fit"
    )
    assert refusal({resource: free}, factor) == ""


@pytest.mark.parametrize("asks", [None, {}, {"pods": 9999}])
def test_a_group_without_requests_is_permitted(asks: Json | None) -> None:
    pod = {"name": "p", "cpu": 10, "node": "n1", "phase": "Running", "count": 3}
    assert refusal(asks, 1, pods=[pod]) == ""


@pytest.mark.parametrize(
    ("groups", "pods", "free"),
    [
        pytest.param([], [{"name": "p", "cpu": 4, "node": "n1"}], 6, id="pods of other schedulers count"),
        pytest.param(
            [], [{"name": "p", "cpu": 4, "node": "n1", "deleting": True}], 6, id="releasing pods count"
        ),
        pytest.param(
            [],
            [{"name": "p", "cpu": 4, "node": "n1", "phase": "Succeeded"}],
            10,
            id="finished pods do not count",
        ),
        pytest.param(
            [], [{"name": "p", "cpu": 4, "node": "gone"}], 10, id="pods of missing nodes do not count"
        ),
        pytest.param(
            [{"name": "a", "phase": "Inqueue", "minResources": {"cpu": 3}}], [], 7, id="reservations count"
        ),
        pytest.param(
            [{"name": "a", "phase": "Inqueue", "minResources": {"cpu": 3}}],
            [{"name": "a", "group": "a", "cpu": 2, "node": "n1"}],
            5,
            id="for one session, bound members count twice",
        ),
        pytest.param(
            [{"name": "a", "phase": "Running", "minResources": {"cpu": 3}}],
            [{"name": "a", "group": "a", "cpu": 2, "node": "n1"}],
            7,
            id="later they count once",
        ),
        pytest.param(
            [{"name": "a", "phase": "Running", "minMember": 2, "minResources": {"cpu": 3}}],
            [{"name": "a", "group": "a", "cpu": 2, "node": "n1"}],
            8,
            id="a group that runs below its minimum has no reservation",
        ),
        pytest.param(
            [{"name": "a", "phase": "Inqueue", "minResources": {"cpu": 3}}],
            [{"name": "a", "group": "a", "cpu": 2, "gated": True}],
            9,
            id="pods with scheduling gates have no reservation",
        ),
        pytest.param(
            [{"name": "a", "phase": "Unknown", "minResources": {"cpu": 3}}],
            [],
            10,
            id="a group in phase Unknown has no reservation",
        ),
    ],
)
def test_used_and_reserved_resources(groups: list[Json], pods: list[Json], free: int) -> None:
    assert refusal({"cpu": free}, 1, groups=groups, pods=pods) == ""
    assert refusal({"cpu": free + 1}, 1, groups=groups, pods=pods) != ""


def test_only_an_admission_reserves_whatever_its_queue() -> None:
    groups = [{"name": name, "queue": f"q{name}", "minResources": {"cpu": 6}} for name in "abc"]
    queues = [{"name": f"q{name}"} for name in "abc"]
    world = {"nodes": [{"name": "n1", "cpu": 10}], "queues": queues, "podGroups": groups}
    opened = PluginSession(world, ["overcommit"])
    assert [opened.admission(name) for name in "abc"] == ["", "", ""]
    opened.admit("a")
    opened.admit("b")
    assert opened.admission("c") == "cluster: cpu: need 6, have 0 now (0 without overcommit)"


def test_pods_that_exceed_their_node_use_nothing_of_other_nodes() -> None:
    pod = {"name": "p", "cpu": 40, "node": "n1", "phase": "Running"}
    nodes = [{"name": "n1", "cpu": 10}, {"name": "n2", "cpu": 4}]
    said = "cluster: cpu: need 5, have 4 now"
    assert refusal({"cpu": 5}, 1, pods=[pod], nodes=nodes) == said
    assert refusal({"cpu": 4}, 1, pods=[pod], nodes=nodes) == ""


def test_the_plugin_has_no_vote_in_profile_design() -> None:
    assert refusal({"cpu": 9999}, profile="design") == ""
