"""Plugin nodegroup: the affinity of queues to groups of nodes filters and scores nodes."""

from typing import Any

import pytest

from quorate.placement.failures import NO_NODE_GROUP, NO_NODE_GROUP_AFFINITY, NODE_GROUP
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


LIMITS = "volcano.sh/nodegroup-resource-limits"
TWO_NODES: list[Json] = [
    *NODES,
    {"name": "na2", "cpu": 4, "labels": {LABEL: "a"}},
    {"name": "nb2", "cpu": 4, "labels": {LABEL: "b"}},
]


def a_limited_world(
    limits: str,
    *groups: Json,
    actions: str = "allocate",
    profile: str = "design",
) -> World:
    """Return a world with the queues q (limited) and r; each prefers the node group a to b."""
    queues = [
        {"name": name, "affinity": affinity(near="a b", near_preferred="a"), "annotations": annotations}
        for name, annotations in (("q", {LIMITS: limits}), ("r", {LIMITS: ""}))
    ]
    classes: Json = {"high": 9, "low": 1}
    made: Json = {
        "nodes": TWO_NODES, "queues": queues, "podGroups": [], "pods": [], "priorityClasses": classes,
    }  # fmt: skip
    for at, group in enumerate(groups):
        pods = {key: group[key] for key in ("count", "cpu", "memory", "node", "phase") if key in group}
        member = {"queue": group.get("queue", "q"), "created": at, "minMember": group.get("min", 1)}
        phase = "Running" if "node" in group else "Inqueue"
        made["podGroups"].append({"name": group["name"], "phase": phase, **member, **group.get("group", {})})
        made["pods"].append(pods | {"name": group["name"], "group": group["name"]})
    conf: Json = {"actions": actions, "tiers": [["gang", "priority", "predicates", plugin()]]}
    world = World(made, settings_of(conf, profile), restarting=False)
    world.start_step()
    return world


def used_in(world: World, group: str) -> int:
    """Return how many pods were bound to nodes of the group in this step."""
    of_group = {each["name"] for each in TWO_NODES if each.get("labels", {}).get(LABEL) == group}
    return sum(node in of_group for node in world.binds.values())


PROFILES = pytest.mark.parametrize("profile", ["design", "compat"])


@PROFILES
@pytest.mark.parametrize(
    ("limits", "in_a", "in_b"),
    [
        pytest.param('{"a": {"cpu": "3"}}', 3, 3, id="the rest overflows to another group"),
        pytest.param('{"a": {"cpu": "3"}, "b": {"cpu": "2"}}', 3, 2, id="limits of two groups"),
        pytest.param('{"a": {"cpu": "2500m"}}', 2, 4, id="a part of a pod"),
        pytest.param('{"a": {"memory": "0"}}', 6, 0, id="of a resource that is not requested"),
        pytest.param('{"x": {"cpu": "0"}}', 6, 0, id="of another group"),
        pytest.param('{"a": {"cpu": "0"}, "b": {"cpu": 0}}', 0, 0, id="nothing"),
        pytest.param("", 6, 0, id="no limits"),
    ],
)
def test_a_queue_allocates_no_more_in_a_group_than_its_limit(
    limits: str, in_a: int, in_b: int, profile: str
) -> None:
    world = a_limited_world(limits, {"name": "g", "count": 6, "cpu": 1}, profile=profile)
    world.session()
    assert (used_in(world, "a"), used_in(world, "b")) == (in_a, in_b)


@PROFILES
def test_pods_on_nodes_count_and_other_queues_do_not(profile: str) -> None:
    world = a_limited_world(
        '{"a": {"cpu": 3}, "b": {"cpu": 1}}',
        {"name": "here", "count": 2, "cpu": 1, "node": "na", "phase": "Running"},
        {"name": "other", "queue": "r", "count": 2, "cpu": 1, "node": "na2", "phase": "Running"},
        {"name": "g", "count": 4, "cpu": 1},
        {"name": "h", "queue": "r", "count": 2, "cpu": 1},
        profile=profile,
    )
    world.session()
    nodes = {name: node for name, node in world.binds.items() if name.startswith("g")}
    assert sorted(node[:2] for node in nodes.values()) == ["na", "nb"]
    assert len(world.binds) == 4


@PROFILES
def test_a_gang_that_does_not_fit_within_the_limits_leaves_them_to_others(profile: str) -> None:
    world = a_limited_world(
        '{"a": {"cpu": 3}, "b": {"cpu": 0}}',
        {"name": "g", "count": 4, "cpu": 1, "min": 4},
        {"name": "h", "count": 3, "cpu": 1, "min": 3},
        profile=profile,
    )
    outcome = world.session()
    assert sorted(world.binds) == ["h-0", "h-1", "h-2"]
    (reason,) = (str(each) for key, each in outcome.pending_reasons.items() if key.name == "g")
    assert "node group resource limit exceeded" in reason


@PROFILES
def test_a_pod_of_higher_priority_takes_the_room_of_its_queue_in_a_group(profile: str) -> None:
    low = {"priorityClassName": "low", "queue": "q"}
    world = a_limited_world(
        '{"a": {"cpu": 2}, "b": {"cpu": 0}}',
        {"name": "low", "count": 2, "cpu": 1, "node": "na", "phase": "Running", "group": low},
        {"name": "high", "cpu": 1, "group": {"priorityClassName": "high"}},
        actions="allocate, preempt",
        profile=profile,
    )
    world.session()
    assert len(world.evictions) == 1


@PROFILES
def test_a_gang_within_a_hyper_node_keeps_to_the_limits(profile: str) -> None:
    tight = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    world = a_limited_world(
        '{"a": {"cpu": 1}}', {"name": "g", "count": 2, "cpu": 1, "min": 2, "group": tight}, profile=profile
    )
    for name, members in (("ha", "na na2"), ("hb", "nb nb2")):
        world.do("setHyperNode", {"name": name, "tier": 1, "nodes": members})
    world.session()
    assert (used_in(world, "a"), used_in(world, "b")) == (0, 2)


def test_a_gang_outside_the_hyper_node_is_evicted_for_the_room_of_its_queue_in_a_group() -> None:
    tight = {"networkTopology": {"highestTierAllowed": 1}, "priorityClassName": "high"}
    low = {"priorityClassName": "low"}
    world = a_limited_world(
        '{"a": {"cpu": 2}, "b": {"cpu": 0}}',
        {"name": "low", "count": 2, "cpu": 1, "min": 2, "node": "na2", "phase": "Running", "group": low},
        {"name": "high", "count": 2, "cpu": 1, "min": 2, "group": tight},
        actions="allocate, preempt",
    )
    world.do("setHyperNode", {"name": "ha", "tier": 1, "nodes": "na"})
    outcome = world.session()
    assert len(world.evictions) == 2
    assert sorted(outcome.pipelined.values()) == ["na", "na"]


def test_an_invalid_limit_keeps_the_pods_of_its_queue_only() -> None:
    world = a_limited_world('{"a": {"cpu":', {"name": "g", "cpu": 1}, {"name": "h", "queue": "r", "cpu": 1})
    outcome = world.session()
    assert [*world.binds] == ["h"]
    (reason,) = (str(each) for key, each in outcome.pending_reasons.items() if key.name == "g")
    assert "node group resource limit invalid" in reason


@pytest.mark.parametrize(
    ("limits", "phases"),
    [
        pytest.param('{"a": {"cpu": 3}, "b": {"cpu": 2}}', "Inqueue Pending", id="what the first one leaves"),
        pytest.param('{"a": {"cpu": 3}, "b": {"cpu": 1}}', "Pending Inqueue", id="too little for the first"),
        pytest.param('{"a": {"cpu": 3}}', "Inqueue Inqueue", id="a group without a limit"),
        pytest.param('{"a": {"cpu": 3}, "b": {"memory": 1}}', "Inqueue Inqueue", id="of another resource"),
    ],
)
def test_a_group_waits_for_its_admission_if_the_limits_leave_too_little(limits: str, phases: str) -> None:
    def pending(cpu: int) -> Json:
        return {"phase": "Pending", "minResources": {"cpu": cpu}}

    world = a_limited_world(
        limits,
        {"name": "here", "count": 1, "cpu": 1, "node": "na", "phase": "Running"},
        {"name": "g", "count": 0, "min": 4, "group": pending(4)},
        {"name": "h", "count": 0, "min": 1, "group": pending(1)},
        actions="enqueue, allocate",
    )
    reasons = {key.name: str(each) for key, each in world.session().pending_reasons.items()}
    assert " ".join(world.phase(name) for name in "gh") == phases
    for name, short in (("g", "need 4, have 3 now"), ("h", "need 1, have 0 now")):
        if world.phase(name) == "Pending":
            assert reasons[name] == f"queue q: cpu: {short}"


def test_a_group_is_admitted_within_the_limits_on_what_preempt_would_evict() -> None:
    low = {"priorityClassName": "low", "queue": "q"}
    high = {"priorityClassName": "high", "phase": "Pending", "minResources": {"cpu": 2}}
    world = a_limited_world(
        '{"a": {"cpu": 2}, "b": {"cpu": 0}}',
        {"name": "low", "count": 2, "cpu": 1, "node": "na", "phase": "Running", "group": low},
        {"name": "high", "count": 2, "cpu": 1, "min": 2, "group": high},
        actions="enqueue, allocate, preempt",
    )
    world.session()
    assert (world.phase("high"), len(world.evictions)) == ("Inqueue", 2)
