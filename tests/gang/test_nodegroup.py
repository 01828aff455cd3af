"""Plugin nodegroup: the affinity of queues to groups of nodes filters and scores nodes."""

from typing import Any

import pytest

from quorate.placement.filters.failures import NO_NODE_GROUP, NO_NODE_GROUP_AFFINITY, NODE_GROUP
from tests.gang.plugin_session import Json, PluginSession
from tests.gang.vectors import settings_of
from tests.gang.world import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
LABEL = "volcano.sh/nodegroup-name"
NODES = [
    {"name": "na", "cpu": 4, "labels": {LABEL: "a"}},
    {"name": "nb", "cpu": 4, "labels": {LABEL: "b"}},
    {"name": "nc", "cpu": 4, "labels": {LABEL: "c"}},
    {"name": "plain", "cpu": 4},
]


def affinity(near: str = "", near_preferred: str = "", far: str = "", far_preferred: str = "") -> Json:
    return {
        "nodeGroupAffinity": {REQUIRED: near.split(), PREFERRED: near_preferred.split()},
        "nodeGroupAntiAffinity": {REQUIRED: far.split(), PREFERRED: far_preferred.split()},
    }


def given(*queues: Json) -> Json:
    """Return a world with a pod of a gang in the first queue."""
    return {
        "nodes": NODES,
        "queues": list(queues),
        "podGroups": [{"name": "g", "queue": queues[0]["name"], "phase": "Inqueue"}],
        "pods": [{"name": "p", "group": "g", "cpu": 1}],
    }


def plugin(*, entry: Json | None = None, **arguments: Any) -> Json:
    return {"name": "nodegroup", "arguments": arguments, **(entry or {})}


def usable_nodes(session: PluginSession) -> str:
    """Return the nodes for the pod, best first."""
    return " ".join(session.session.node_finder.nodes_by_score(session.task("p").shape))


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param(affinity(near="b"), "nb", id="required"),
        pytest.param(affinity(near_preferred="c b"), "nb nc", id="preferred ones are required too"),
        pytest.param(affinity(near="a b c", near_preferred="b"), "nb na nc", id="preferred scores more"),
        pytest.param(affinity(near="a b", near_preferred="c"), "na nb nc", id="required scores more"),
        pytest.param(affinity(near="a b", far="a"), "nb", id="anti-affinity overrides"),
        pytest.param(affinity(near="a b", far_preferred="a c"), "nb na nc", id="avoided ones are last"),
        pytest.param(affinity(near="a", far="b", far_preferred="b"), "na nb", id="avoided overrides"),
        pytest.param(affinity(far="a"), "", id="anti-affinity alone allows no group"),
        pytest.param(affinity(near="x"), "", id="a group without nodes"),
    ],
)  # fmt: skip
def test_the_affinity_of_the_queue(terms: Json, want: str) -> None:
    session = PluginSession(given({"name": "q", "affinity": terms}), [plugin()])
    assert usable_nodes(session) == want


@pytest.mark.parametrize(
    ("affinities", "strict", "want"),
    [
        pytest.param(None, True, "", id="strict"),
        pytest.param(None, False, "plain", id="not strict"),
        pytest.param({}, False, "plain", id="an affinity without terms is none"),
        pytest.param(affinity(near="a"), False, "na", id="a queue with affinity needs a group"),
    ],
)
def test_nodes_without_a_group(affinities: Json | None, strict: bool, want: str) -> None:
    session = PluginSession(given({"name": "q", "affinity": affinities}), [plugin(strict=strict)])
    assert usable_nodes(session) == want


def test_preferred_groups_in_order() -> None:
    world = given({"name": "q", "affinity": affinity(near_preferred="c a b")})
    assert usable_nodes(PluginSession(world, [plugin()])) == "na nb nc"
    assert usable_nodes(PluginSession(world, [plugin(enablePreferredOrder=True)])) == "nc na nb"


@pytest.mark.parametrize(
    ("switch", "want"),
    [("enablePredicate", "nb na nc plain"), ("enableNodeOrder", "na nb")],
)
def test_switches(switch: str, want: str) -> None:
    world = given({"name": "q", "affinity": affinity(near="b", near_preferred="a b")})
    assert usable_nodes(PluginSession(world, [plugin(entry={switch: False})])) == want


@pytest.mark.parametrize(("hierarchy", "want"), [(True, "nb"), (False, "")])
def test_a_queue_inherits_the_affinity_of_its_nearest_ancestor(hierarchy: bool, want: str) -> None:
    world = given(
        {"name": "leaf", "parent": "middle"},
        {"name": "middle", "parent": "top", "affinity": affinity(near="b")},
        {"name": "top", "affinity": affinity(near="a")},
    )
    entry = {"enableHierarchy": hierarchy}
    assert usable_nodes(PluginSession(world, [plugin(entry=entry)])) == want


@pytest.mark.parametrize(
    ("affinities", "want"),
    [
        (affinity(near="x"), {NO_NODE_GROUP.reason: 1, NODE_GROUP.reason: 3}),
        (None, {NO_NODE_GROUP.reason: 1, NO_NODE_GROUP_AFFINITY.reason: 3}),
    ],
)
def test_the_reasons_have_the_words_of_volcano(affinities: Json | None, want: dict[str, int]) -> None:
    session = PluginSession(given({"name": "q", "affinity": affinities}), [plugin()])
    diagnosis = session.session.node_finder.diagnose(session.task("p").shape)
    assert {one.reason: one.nodes for one in diagnosis.filtered} == want


def test_changes_of_queues_and_groups_apply_to_pods_that_wait() -> None:
    world = World(
        given({"name": "q", "affinity": affinity(near="x")}, {"name": "r", "affinity": affinity(near="c")}),
        settings_of({"actions": "allocate", "tiers": [[plugin()]]}, "design"),
        restarting=False,
    )
    world.start_step()
    world.session()
    assert world.binds == {}
    world.do("setQueue", {"name": "q", "affinity": affinity(near="b")})
    world.session()
    assert world.binds == {"p": "nb"}
    world.do("addPodGroups", [{"name": "h", "queue": "q", "phase": "Inqueue"}])
    world.do("addPods", [{"name": "o", "group": "h", "cpu": 4}])
    world.session()
    assert "o" not in world.binds
    world.do("addPodGroups", [{"name": "h", "queue": "r", "phase": "Inqueue"}])
    world.session()
    assert world.binds["o"] == "nc"
