"""Topology spread."""

from typing import Any

import numpy as np
import pytest

from quorate.api.scheduler_configuration.plugins import NodeOrderArguments
from quorate.placement.cluster import AllocationState
from quorate.placement.filters.failures import Remedy
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
    """``a=2 c=1``: so many pods of the app on those nodes."""
    world = World(*(nodes or NODES))
    for word in text.split():
        name, count = word.split("=")
        for number in range(int(count)):
            world.put(pod(f"{name}{number} app=web"), name)
    return world


@pytest.mark.parametrize(
    ("there", "constraint", "want"),
    [
        pytest.param("", spread(), "a b c d", id="the first goes anywhere"),
        pytest.param("a=1", spread(), "c d", id="the second goes to another zone"),
        pytest.param("a=1 c=1", spread(), "d", id="the third to the last zone"),
        pytest.param("a=1 c=1 d=1", spread(), "a b c d", id="then it begins anew"),
        pytest.param("a=1", spread(skew=2), "a b c d", id="a larger skew"),
        pytest.param("a=1 b=1", spread(skew=2), "c d", id="zones are counted over their nodes"),
        pytest.param("a=1", spread("hostname"), "b c d", id="each node for itself"),
        pytest.param("a=1", spread(app="db"), "a b c d", id="other pods are counted"),
        pytest.param(
            "a=1 c=1 d=1", spread(minDomains=4), "", id="fewer zones than demanded count as empty ones"
        ),
        pytest.param("a=1 c=1 d=1", spread(minDomains=3), "a b c d", id="as many as demanded do"),
    ],
)
def test_pods_are_spread(there: str, constraint: dict[str, Any], want: str) -> None:
    incoming = pod("p app=web", **spreading(constraint))
    assert having(there).passing(incoming) == want
    assert set(having(there).reasons(incoming).values()) <= {SKEWED}


def test_a_pod_that_is_not_counted_itself_may_go_where_the_limit_is_reached() -> None:
    world = having("a=1")
    assert world.passing(pod("p app=other", **spreading(spread()))) == "a b c d"
    world.put(pod("more app=web"), "a")
    assert world.passing(pod("p app=other", **spreading(spread()))) == "c d"


def test_nodes_without_the_label_are_no_place() -> None:
    world = having("", "a zone=1", "b")
    refused = world.failures(pod("p app=web", **spreading(spread())))
    assert {name: (str(one), one.remedy) for name, one in refused.items()} == {
        "b": (NO_LABEL, Remedy.OTHER_NODES)
    }


def test_skew_can_be_evicted() -> None:
    assert having("a=1").failures(pod("p app=web", **spreading(spread())))["a"].remedy is Remedy.PREEMPTION


def test_constraints_together_count_only_nodes_with_all_labels() -> None:
    world = having("a=1", "a zone=1 rack=1", "b zone=2", "c zone=3 rack=2")
    both = pod("p app=web", **spreading(spread("zone"), spread("rack")))
    assert world.reasons(both) == {"a": SKEWED, "b": NO_LABEL}
    # Zone 2 has no node with both labels, so it is no empty zone that would have to be filled first.
    world.put(pod("c0 app=web"), "c")
    assert world.reasons(both) == {"b": NO_LABEL}


@pytest.mark.parametrize(
    ("more", "want"),
    [
        pytest.param({}, "a", id="nodes that the selector excludes are no domains"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, "", id="unless they are to be"),
    ],
)
def test_whether_the_selector_of_the_pod_is_heeded(more: dict[str, Any], want: str) -> None:
    world = having("a=1", "a zone=1 pool=x", "b zone=2 pool=y")
    incoming = pod("p app=web", **spreading(spread(**more), nodeSelector={"pool": "x"}))
    assert world.passing(incoming) == want


@pytest.mark.parametrize(
    ("more", "want"),
    [
        pytest.param({}, "", id="tainted nodes are domains"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, "a", id="unless they are not to be"),
    ],
)
def test_whether_taints_are_heeded(more: dict[str, Any], want: str) -> None:
    tainted = node("b zone=2", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    assert having("a=1", "a zone=1", tainted).passing(pod("p app=web", **spreading(spread(**more)))) == want


def test_only_pods_of_the_namespace_count() -> None:
    world = World(*NODES)
    world.put(pod("far app=web", namespace="far"), "a")
    assert world.passing(pod("p app=web", **spreading(spread()))) == "a b c d"


def test_pods_that_leave_do_not_count() -> None:
    world = World(*NODES)
    world.put(pod("leaving app=web"), "a", AllocationState.RELEASING)
    assert world.passing(pod("p app=web", **spreading(spread()))) == "a b c d"


def test_each_version_is_spread_by_itself() -> None:
    world = World(*NODES)
    world.put(pod("old app=web version=1"), "a")
    constraint = spread(matchLabelKeys=["version"])
    assert world.passing(pod("p app=web version=2", **spreading(constraint))) == "a b c d"
    assert world.passing(pod("p app=web version=1", **spreading(constraint))) == "c d"


def test_nodes_that_come_are_domains_to_be_filled() -> None:
    world = having("a=1 c=1 d=1")
    incoming = pod("p app=web", **spreading(spread()))
    assert world.passing(incoming) == "a b c d"
    world.cluster.set_node(node("e zone=4"))
    assert world.passing(incoming) == "e"


# -- preferences


def crowd(world: World, *constraints: dict[str, Any], among: str = "a b c d") -> dict[str, int]:
    soft = ({**each, "whenUnsatisfiable": "ScheduleAnyway"} for each in constraints)
    spread_scorer = world.filter_result(pod("p app=web", **spreading(*soft))).raw_scores.spread
    assert spread_scorer is not None
    mask = np.zeros(world.cluster.size, np.bool_)
    mask[[world.index(name) for name in among.split()]] = True
    measure = spread_scorer.score(mask)
    return {name: int(measure[world.index(name)]) for name in sorted(world.cluster.names())}


def test_crowded_domains_are_avoided() -> None:
    # A zone of three counts ln(3 + 2) = 1.609 a pod, a node of four ln(4 + 2) = 1.792.
    assert crowd(having("a=2 c=1"), spread()) == {"a": 3, "b": 3, "c": 2, "d": 0}
    assert crowd(having("a=2 c=1"), spread("kubernetes.io/hostname"), among="") == {
        "a": -1, "b": -1, "c": -1, "d": -1,
    }  # fmt: skip


def test_how_many_domains_there_are_to_choose_from_decides_what_a_pod_counts() -> None:
    world = having("a=2 c=1")
    assert crowd(world, spread(), among="a b") == {"a": 2, "b": 2, "c": 1, "d": 0}  # ln(1 + 2) = 1.099


def test_a_node_is_a_domain_of_its_own_by_hostname() -> None:
    named = (f"{name} kubernetes.io/hostname={name} zone=1" for name in "abcd")
    world = having("a=2 c=1", *named)
    assert crowd(world, spread("kubernetes.io/hostname")) == {"a": 4, "b": 0, "c": 2, "d": 0}


def test_a_tolerated_skew_waters_the_difference_down() -> None:
    assert crowd(having("a=2 c=1"), spread(skew=5)) == {"a": 7, "b": 7, "c": 6, "d": 4}


def test_constraints_add_up_before_they_are_rounded() -> None:
    named = (f"{name} kubernetes.io/hostname={name} zone={name}" for name in "ab")
    assert crowd(having("a=1", *named), spread(), spread("kubernetes.io/hostname"), among="a b") == {
        "a": 3, "b": 0,
    }  # fmt: skip  # 2 ln(2 + 2) = 2.77


def test_nodes_outside_of_a_domain_do_not_count() -> None:
    assert crowd(having("a=1", "a zone=1", "b"), spread(), among="a b") == {"a": 1, "b": -1}


def test_a_spread_that_is_only_preferred_refuses_nobody() -> None:
    soft = spread(whenUnsatisfiable="ScheduleAnyway")
    assert having("a=5").passing(pod("p app=web", **spreading(soft))) == "a b c d"


# -- the points that come of it


HOST = "kubernetes.io/hostname"


def points(pods: str, constraints: str, *, nodes: str, among: str) -> str:
    """What nodes score: ``web@a web+db@b`` are pods, ``host/2/web`` a constraint with its skew and its pods.

    Nodes are ``a1``, in zone 1; one that is written ``a1?`` has no hostname.
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
    raw_scores = world.filter_result(pod("new web=yes db=yes", topologySpreadConstraints=soft)).raw_scores
    mask = np.zeros(world.cluster.size, np.bool_)
    mask[[world.index(name) for name in among.split()]] = True
    order = NodeOrderArguments(pod_topology_spread=1)
    non_zero_request = normalized_scores(order, RawScores(spread=raw_scores.spread), mask) // SCORE_UNIT
    return " ".join(f"{name}={non_zero_request[world.index(name)]}" for name in among.split())


FOUR = "a1 b1 c2 d2"
TWO_ONE_NONE_THREE = "web@a1 web@a1 web@b1 web@d2 web@d2 web@d2"
FOUR_TWO_ONE_THREE = "web@a1 web@a1 web@a1 web@a1 web@b1 web@b1 web@c2 web@d2 web@d2 web@d2"
APART = "web@a1 web+db@b1 web@d2 db@d2"


@pytest.mark.parametrize(
    ("pods", "constraints", "want"),
    [
        pytest.param("", "host/1/web", "a1=100 b1=100", id="nobody is there"),
        pytest.param("web@a1 web@a1 web@b1", "host/1/web", "a1=100", id="there is one node only"),
        pytest.param("web@a1 web@b1", "host/1/web", "a1=100 b1=100", id="all have as many"),
        pytest.param(TWO_ONE_NONE_THREE, "host/1/web", "a1=20 b1=60 c2=100 d2=0", id="2, 1, 0 and 3"),
        pytest.param(TWO_ONE_NONE_THREE, "host/1/", "a1=100 b1=100 c2=100 d2=100", id="none is picked"),
        pytest.param(TWO_ONE_NONE_THREE, "host/2/web", "a1=33 b1=66 c2=100 d2=16", id="a skew of 2"),
        pytest.param(
            "web@a1 web@a1 web@a1 web@a1 web@b1 web@b1 web@b1 web@c2 web@c2 web@d2",
            "host/3/web",
            "a1=44 b1=66 c2=77 d2=100",
            id="4, 3, 2 and 1 with a skew of 3",
        ),
        pytest.param(
            FOUR_TWO_ONE_THREE, "zone/1/web", "a1=75 b1=75 c2=100", id="zones, of which one is half out"
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
            id="two kinds of pods by zone",
        ),
        pytest.param(APART, "zone/1/web host/1/db", "a1=60 b1=20 c2=100 d2=60", id="two kinds, two ways"),
        pytest.param(APART, "zone/1/web host/1/db", "a1=50 b1=25 c2=100", id="and one node fewer"),
        pytest.param(
            "db@b1 web@c2 web+db@d2", "zone/1/web host/1/db", "a1=100 b1=60 c2=40 d2=0", id="a zone with none"
        ),
        pytest.param("web!@a1 web@b1", "host/1/web", "a1=100 b1=0", id="who leaves does not count"),
    ],
)
def test_points_are_those_of_kube_scheduler(pods: str, constraints: str, want: str) -> None:
    among = " ".join(each.split("=")[0] for each in want.split())
    assert points(pods, constraints, nodes=FOUR, among=among) == want


def test_a_node_without_the_label_scores_nothing() -> None:
    pods = FOUR_TWO_ONE_THREE
    got = points(pods, "host/1/web", nodes="a1 b1? c2 d2", among="a1 b1 c2")
    assert got == "a1=16 b1=0 c2=100"


# -- what one pod changes for the next


@pytest.mark.parametrize(
    ("app", "when", "want"),
    [
        pytest.param("web", "DoNotSchedule", InvalidationScope.OTHER_NODES, id="it is counted itself"),
        pytest.param(
            "web", "ScheduleAnyway", InvalidationScope.OTHER_NODES, id="and where that is only preferred"
        ),
        pytest.param("db", "DoNotSchedule", InvalidationScope.NONE, id="others are counted"),
    ],
)
def test_how_far_a_pod_reaches(app: str, when: str, want: InvalidationScope) -> None:
    constraint = spread(app=app, whenUnsatisfiable=when)
    assert World(*NODES).filter_result(pod("p app=web", **spreading(constraint))).invalidation_scope is want
