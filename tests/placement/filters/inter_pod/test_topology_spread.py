"""Topology spread constraints, required and preferred."""

from typing import Any

import numpy as np
import pytest

from quorate.api.scheduler_configuration.plugins import NodeOrderArguments
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.failures import Remedy
from quorate.placement.framework import InvalidationScope, RawScores
from quorate.placement.scoring import SCORE_UNIT, normalized_scores
from tests.placement.filters.world import World, node, pod

NODES = ("a zone=1", "b zone=1", "c zone=2", "d zone=3")
SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"


def spread(key: str = "zone", skew: int = 1, app: str = "web", **more: Any) -> dict[str, Any]:
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
        **more,
    }


def spreading(*constraints: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"topologySpreadConstraints": list(constraints), **spec}


def having(text: str, *nodes: Any) -> World:
    """Build a world with ``a=2 c=1`` pods of the app on the nodes."""
    world = World(*(nodes or NODES))
    for word in text.split():
        name, count = word.split("=")
        for number in range(int(count)):
            world.put(pod(f"{name}{number} app=web"), name)
    return world


@pytest.mark.parametrize(
    ("there", "constraint", "want"),
    [
        pytest.param("", spread(), "a b c d", id="no pods"),
        pytest.param("a=1", spread(), "c d", id="one pod in one zone"),
        pytest.param("a=1 c=1", spread(), "d", id="one pod in each of two zones"),
        pytest.param("a=1 c=1 d=1", spread(), "a b c d", id="one pod in every zone"),
        pytest.param("a=1", spread(skew=2), "a b c d", id="a larger skew"),
        pytest.param("a=1 b=1", spread(skew=2), "c d", id="the count of a zone is that of all its nodes"),
        pytest.param("a=1", spread("hostname"), "b c d", id="each node is a domain"),
        pytest.param("a=1", spread(app="db"), "a b c d", id="the selector matches other pods"),
        pytest.param("a=1", spread(labelSelector={}), "a b c d", id="an empty selector counts no pods"),
        pytest.param("a=1 c=1 d=1", spread(minDomains=4), "", id="fewer zones than minDomains"),
        pytest.param("a=1 c=1 d=1", spread(minDomains=3), "a b c d", id="as many zones as minDomains"),
    ],
)
def test_nodes_above_the_maximum_skew_are_rejected(there: str, constraint: dict[str, Any], want: str) -> None:
    incoming = pod("p app=web", **spreading(constraint))
    assert having(there).passing(incoming) == want
    assert set(having(there).reasons(incoming).values()) <= {SKEWED}


def test_a_pod_that_the_selector_does_not_match_adds_no_skew() -> None:
    world = having("a=1")
    assert world.passing(pod("p app=other", **spreading(spread()))) == "a b c d"
    world.put(pod("more app=web"), "a")
    assert world.passing(pod("p app=other", **spreading(spread()))) == "c d"


def test_nodes_without_the_topology_key_are_rejected() -> None:
    world = having("", "a zone=1", "b")
    failures = world.failures(pod("p app=web", **spreading(spread())))
    assert {name: (str(failure), failure.remedy) for name, failure in failures.items()} == {
        "b": (NO_LABEL, Remedy.OTHER_NODES)
    }


def test_preemption_can_resolve_skew() -> None:
    assert having("a=1").failures(pod("p app=web", **spreading(spread())))["a"].remedy is Remedy.PREEMPTION


def test_constraints_count_only_nodes_with_all_topology_keys() -> None:
    world = having("a=1", "a zone=1 rack=1", "b zone=2", "c zone=3 rack=2")
    both = pod("p app=web", **spreading(spread("zone"), spread("rack")))
    assert world.reasons(both) == {"a": SKEWED, "b": NO_LABEL}
    # Zone 2 has no node with both keys, so it is not a domain, and its count of 0 is not the minimum.
    world.put(pod("c0 app=web"), "c")
    assert world.reasons(both) == {"b": NO_LABEL}


@pytest.mark.parametrize(
    ("more", "want"),
    [
        pytest.param({}, "a", id="by default excluded nodes are no domains"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, "", id="Ignore makes them domains"),
    ],
)
def test_node_affinity_policy(more: dict[str, Any], want: str) -> None:
    world = having("a=1", "a zone=1 pool=x", "b zone=2 pool=y")
    incoming = pod("p app=web", **spreading(spread(**more), nodeSelector={"pool": "x"}))
    assert world.passing(incoming) == want


@pytest.mark.parametrize(
    ("more", "want"),
    [
        pytest.param({}, "", id="by default tainted nodes are domains"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, "a", id="Honor excludes them"),
    ],
)
def test_node_taints_policy(more: dict[str, Any], want: str) -> None:
    tainted = node("b zone=2", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    assert having("a=1", "a zone=1", tainted).passing(pod("p app=web", **spreading(spread(**more)))) == want


def test_pods_of_other_namespaces_do_not_count() -> None:
    world = World(*NODES)
    world.put(pod("far app=web", namespace="far"), "a")
    assert world.passing(pod("p app=web", **spreading(spread()))) == "a b c d"


def test_releasing_pods_do_not_count() -> None:
    world = World(*NODES)
    world.put(pod("leaving app=web"), "a", AllocationState.RELEASING)
    assert world.passing(pod("p app=web", **spreading(spread()))) == "a b c d"


def test_match_label_keys_spread_each_version_separately() -> None:
    world = World(*NODES)
    world.put(pod("old app=web version=1"), "a")
    constraint = spread(matchLabelKeys=["version"])
    assert world.passing(pod("p app=web version=2", **spreading(constraint))) == "a b c d"
    assert world.passing(pod("p app=web version=1", **spreading(constraint))) == "c d"


def test_a_new_node_is_a_domain_without_pods() -> None:
    world = having("a=1 c=1 d=1")
    incoming = pod("p app=web", **spreading(spread()))
    assert world.passing(incoming) == "a b c d"
    world.cluster.set_node(node("e zone=4"))
    assert world.passing(incoming) == "e"


# Raw scores of preferred constraints


def raw_scores(world: World, *constraints: dict[str, Any], among: str = "a b c d") -> dict[str, int]:
    soft = ({**each, "whenUnsatisfiable": "ScheduleAnyway"} for each in constraints)
    spread_scorer = world.filter_result(pod("p app=web", **spreading(*soft))).raw_scores.spread
    assert spread_scorer is not None
    mask = np.zeros(world.cluster.size, np.bool_)
    mask[[world.index(name) for name in among.split()]] = True
    scores = spread_scorer.score(mask)
    return {name: int(scores[world.index(name)]) for name in sorted(world.cluster.names())}


def test_domains_with_more_pods_have_higher_raw_scores() -> None:
    # A pod weighs ln(3 + 2) = 1.609 with three zones, ln(4 + 2) = 1.792 with four nodes.
    assert raw_scores(having("a=2 c=1"), spread()) == {"a": 3, "b": 3, "c": 2, "d": 0}
    assert raw_scores(having("a=2 c=1"), spread("kubernetes.io/hostname"), among="") == {
        "a": -1, "b": -1, "c": -1, "d": -1,
    }  # fmt: skip


def test_the_weight_of_a_pod_depends_on_the_number_of_domains() -> None:
    world = having("a=2 c=1")
    assert raw_scores(world, spread(), among="a b") == {"a": 2, "b": 2, "c": 1, "d": 0}  # ln(1 + 2) = 1.099


def test_each_node_is_a_domain_by_hostname() -> None:
    named = (f"{name} kubernetes.io/hostname={name} zone=1" for name in "abcd")
    world = having("a=2 c=1", *named)
    assert raw_scores(world, spread("kubernetes.io/hostname")) == {"a": 4, "b": 0, "c": 2, "d": 0}


def test_the_maximum_skew_is_added_to_raw_scores() -> None:
    assert raw_scores(having("a=2 c=1"), spread(skew=5)) == {"a": 7, "b": 7, "c": 6, "d": 4}


def test_constraints_are_added_before_rounding() -> None:
    named = (f"{name} kubernetes.io/hostname={name} zone={name}" for name in "ab")
    assert raw_scores(having("a=1", *named), spread(), spread("kubernetes.io/hostname"), among="a b") == {
        "a": 3, "b": 0,
    }  # fmt: skip  # 2 ln(2 + 2) = 2.77


def test_nodes_without_the_topology_key_have_no_raw_score() -> None:
    assert raw_scores(having("a=1", "a zone=1", "b"), spread(), among="a b") == {"a": 1, "b": -1}


def test_a_preferred_constraint_rejects_no_node() -> None:
    soft = spread(whenUnsatisfiable="ScheduleAnyway")
    assert having("a=5").passing(pod("p app=web", **spreading(soft))) == "a b c d"


# Normalized scores

HOST = "kubernetes.io/hostname"


def normalized(pods: str, constraints: str, *, nodes: str, among: str) -> str:
    """Return node scores for pods ``web@a web+db@b`` and constraints ``host/2/web`` (key, skew, label).

    ``a1`` is a node in zone 1; one that is written ``a1?`` has no hostname.  ``web!@a`` is a releasing pod.
    """
    world = World()
    for name in nodes.split():
        host = "" if name.endswith("?") else f"{HOST}={name}"
        world.cluster.set_node(node(f"{name.rstrip('?')} zone={name[1]} {host}"))
    for number, (labels, name) in enumerate(each.split("@") for each in pods.split()):
        text = " ".join(f"{label}=yes" for label in labels.rstrip("!").split("+"))
        state = AllocationState.RELEASING if labels.endswith("!") else AllocationState.USED
        world.put(pod(f"p{number} {text}"), name, state)
    soft = []
    for key, skew, label in (each.split("/") for each in constraints.split()):
        selector = {"matchLabels": {label: "yes"}} if label else None
        topology = {"host": HOST}.get(key, key)
        soft.append(
            {
                "topologyKey": topology,
                "maxSkew": int(skew),
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }
        )
    raw = world.filter_result(pod("new web=yes db=yes", topologySpreadConstraints=soft)).raw_scores
    mask = np.zeros(world.cluster.size, np.bool_)
    mask[[world.index(name) for name in among.split()]] = True
    order = NodeOrderArguments(pod_topology_spread=1)
    scores = normalized_scores(order, RawScores(spread=raw.spread), mask) // SCORE_UNIT
    return " ".join(f"{name}={scores[world.index(name)]}" for name in among.split())


FOUR = "a1 b1 c2 d2"
TWO_ONE_NONE_THREE = "web@a1 web@a1 web@b1 web@d2 web@d2 web@d2"
FOUR_TWO_ONE_THREE = "web@a1 web@a1 web@a1 web@a1 web@b1 web@b1 web@c2 web@d2 web@d2 web@d2"
APART = "web@a1 web+db@b1 web@d2 db@d2"


@pytest.mark.parametrize(
    ("pods", "constraints", "want"),
    [
        pytest.param("", "host/1/web", "a1=100 b1=100", id="no pods"),
        pytest.param("web@a1 web@a1 web@b1", "host/1/web", "a1=100", id="a choice of one node"),
        pytest.param("web@a1 web@b1", "host/1/web", "a1=100 b1=100", id="equal counts"),
        pytest.param(TWO_ONE_NONE_THREE, "host/1/web", "a1=20 b1=60 c2=100 d2=0", id="counts 2, 1, 0 and 3"),
        pytest.param(TWO_ONE_NONE_THREE, "host/1/", "a1=100 b1=100 c2=100 d2=100", id="no selector"),
        pytest.param(TWO_ONE_NONE_THREE, "host/2/web", "a1=33 b1=66 c2=100 d2=16", id="a skew of 2"),
        pytest.param(
            "web@a1 web@a1 web@a1 web@a1 web@b1 web@b1 web@b1 web@c2 web@c2 web@d2",
            "host/3/web",
            "a1=44 b1=66 c2=77 d2=100",
            id="counts 4, 3, 2 and 1 with a skew of 3",
        ),
        pytest.param(
            FOUR_TWO_ONE_THREE,
            "zone/1/web",
            "a1=75 b1=75 c2=100",
            id="zones, with one node outside the choice",
        ),
        pytest.param(
            "web@a1 web@a1 web@b1 web@c2 web@c2 web@d2 web@d2 web@d2 web@d2",
            "zone/1/web host/1/web",
            "a1=100 c2=63",
            id="zones and nodes",
        ),
        pytest.param(
            "web+db@a1 web@a1 web+db@b1 web@d2 web+db@d2 web@d2",
            "zone/1/web zone/1/db",
            "a1=85 c2=100",
            id="two selectors by zone",
        ),
        pytest.param(
            APART, "zone/1/web host/1/db", "a1=60 b1=20 c2=100 d2=60", id="two selectors by zone and by node"
        ),
        pytest.param(APART, "zone/1/web host/1/db", "a1=50 b1=25 c2=100", id="the same with one node fewer"),
        pytest.param(
            "db@b1 web@c2 web+db@d2",
            "zone/1/web host/1/db",
            "a1=100 b1=60 c2=40 d2=0",
            id="a zone without pods",
        ),
        pytest.param("web!@a1 web@b1", "host/1/web", "a1=100 b1=0", id="a releasing pod"),
    ],
)
def test_scores_equal_those_of_kube_scheduler(pods: str, constraints: str, want: str) -> None:
    among = " ".join(each.split("=")[0] for each in want.split())
    assert normalized(pods, constraints, nodes=FOUR, among=among) == want


def test_a_node_without_the_topology_key_scores_zero() -> None:
    pods = FOUR_TWO_ONE_THREE
    got = normalized(pods, "host/1/web", nodes="a1 b1? c2 d2", among="a1 b1 c2")
    assert got == "a1=16 b1=0 c2=100"


# Invalidation


@pytest.mark.parametrize(
    ("app", "when", "want"),
    [
        pytest.param(
            "web", "DoNotSchedule", InvalidationScope.OTHER_NODES, id="the selector matches the pod"
        ),
        pytest.param(
            "web",
            "ScheduleAnyway",
            InvalidationScope.OTHER_NODES,
            id="the selector of a preferred constraint matches the pod",
        ),
        pytest.param("db", "DoNotSchedule", InvalidationScope.NONE, id="the selector matches other pods"),
    ],
)
def test_invalidation_scope(app: str, when: str, want: InvalidationScope) -> None:
    constraint = spread(app=app, whenUnsatisfiable=when)
    assert World(*NODES).filter_result(pod("p app=web", **spreading(constraint))).invalidation_scope is want
