"""Pods near to and apart from each other."""

from typing import Any

import pytest

from quorate.placement.cluster import AllocationState
from quorate.placement.filters.failures import Remedy
from quorate.placement.framework import Capacity, InvalidationScope
from tests.placement.filters.world import World, pod

NODES = ("a zone=1", "b zone=1", "c zone=2", "d")


def term(app: str | None = None, key: str = "zone", **more: Any) -> dict[str, Any]:
    """Pods of that app; of any, if it is ``*``; without one, there is no selector."""
    selector = {} if app == "*" else {"matchLabels": {"app": app}}
    return {"topologyKey": key, **({} if app is None else {"labelSelector": selector}), **more}


def required_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def required_anti_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def preferring(side: str, weight: int, wish: dict[str, Any]) -> dict[str, Any]:
    wishes = [{"weight": weight, "podAffinityTerm": wish}]
    return {"affinity": {side: {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}}


def with_database(*nodes: str) -> World:
    """Of the nodes, ``a`` runs the database."""
    world = World(*(nodes or NODES))
    world.put(pod("db app=db"), "a")
    return world


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([term("db")], "a b", id="in its zone"),
        pytest.param([term("db", "hostname")], "a", id="on its node"),
        pytest.param([term("web")], "", id="where there is none, nowhere"),
        pytest.param([term("*")], "a b", id="an empty selector picks every pod"),
        pytest.param([term(None)], "", id="no selector picks none"),
        pytest.param([term("db", "rack")], "", id="a label that no node has is no domain"),
        pytest.param([term("db"), term("web")], "", id="one pod must be picked by all terms"),
        pytest.param([term("db"), term("*", "hostname")], "a", id="and be in the domain of each"),
    ],
)
def test_a_pod_is_placed_near_to_others(terms: list[dict[str, Any]], want: str) -> None:
    incoming = pod("p", **required_affinity(*terms))
    assert with_database().passing(incoming) == want
    assert set(with_database().reasons(incoming).values()) <= {"node(s) didn't match pod affinity rules"}


def test_two_terms_are_not_met_by_two_pods() -> None:
    world = with_database()
    world.put(pod("web app=web"), "a")
    assert world.passing(pod("p", **required_affinity(term("db"), term("web")))) == ""


@pytest.mark.parametrize(
    ("labels", "others", "want"),
    [
        pytest.param("app=ring", [], "a b c", id="the first of a group goes anywhere with the label"),
        pytest.param("app=other", [], "", id="but not if its own terms do not pick it"),
        pytest.param("app=ring", ["c"], "c", id="nor once there is another"),
        pytest.param("app=ring", ["d"], "a b c", id="unless that is in no domain"),
    ],
)
def test_the_first_pod_of_those_it_wants_to_be_near(labels: str, others: list[str], want: str) -> None:
    world = World(*NODES)
    for name in others:
        world.put(pod("other app=ring"), name)
    assert world.passing(pod(f"p {labels}", **required_affinity(term("ring")))) == want


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([term("db")], "c d", id="out of its zone, or where there is no zone"),
        pytest.param([term("db", "hostname")], "b c d", id="off its node"),
        pytest.param([term("web")], "a b c d", id="of nobody"),
        pytest.param([term("web"), term("db", "hostname")], "b c d", id="each term for itself"),
    ],
)
def test_a_pod_is_placed_apart_from_others(terms: list[dict[str, Any]], want: str) -> None:
    incoming = pod("p", **required_anti_affinity(*terms))
    assert with_database().passing(incoming) == want
    reasons = set(with_database().reasons(incoming).values())
    assert reasons <= {"node(s) didn't match pod anti-affinity rules"}


def test_placed_pods_keep_others_apart_too() -> None:
    world = World(*NODES)
    world.put(pod("lonely app=lonely", **required_anti_affinity(term("*"))), "a")
    failure = "node(s) didn't satisfy existing pods anti-affinity rules"
    assert world.reasons(pod("p")) == {"a": failure, "b": failure}
    world.take("lonely")
    assert world.reasons(pod("p")) == {}


def test_only_evicting_can_keep_pods_apart() -> None:
    world = with_database()
    world.put(pod("lonely", **required_anti_affinity(term("web"))), "c")
    remedies = {
        name: failure.remedy
        for name, failure in world.failures(pod("p app=web", **required_anti_affinity(term("db")))).items()
    }
    assert remedies == {"a": Remedy.PREEMPTION, "b": Remedy.PREEMPTION, "c": Remedy.PREEMPTION}
    assert with_database().failures(pod("p", **required_affinity(term("db"))))["c"].remedy is Remedy.WAITING


@pytest.mark.parametrize(
    ("more", "want"),
    [
        pytest.param({}, "", id="its own namespace, if none is said"),
        pytest.param({"namespaces": ["data"]}, "a b", id="one that is named"),
        pytest.param({"namespaces": ["web"]}, "", id="another that is named"),
        pytest.param({"namespaceSelector": {}}, "a b", id="all of them"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "store"}}}, "a b", id="by its labels"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "shop"}}}, "", id="by other labels"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "shop"}}, "namespaces": ["data"]},
            "a b",
            id="by name or by labels",
        ),
    ],
)
def test_the_namespaces_a_term_looks_into(more: dict[str, Any], want: str) -> None:
    world = World(*NODES)
    world.engine.set_namespace("data", {"team": "store"})
    world.put(pod("db app=db", namespace="data"), "a")
    assert world.passing(pod("p", **required_affinity(term("db", **more)))) == want


def test_labels_of_a_namespace_may_change() -> None:
    world = World(*NODES)
    world.put(pod("db app=db", namespace="data"), "a")
    world.put(
        pod(
            "lonely",
            **required_anti_affinity(term("web", namespaceSelector={"matchLabels": {"team": "shop"}})),
        ),
        "c",
    )
    shop = required_affinity(term("db", namespaceSelector={"matchLabels": {"team": "store"}}))
    assert world.passing(pod("p", **shop)) == ""
    assert world.passing(pod("web app=web")) == "a b c d"
    world.engine.set_namespace("data", {"team": "store"})
    world.engine.set_namespace("default", {"team": "shop"})
    assert world.passing(pod("p", **shop)) == "a b"
    assert world.passing(pod("web app=web")) == "a b d"
    world.engine.set_namespace("data", {})
    assert world.passing(pod("p", **shop)) == ""


@pytest.mark.parametrize(
    ("more", "want"),
    [
        pytest.param({"matchLabelKeys": ["version"]}, "", id="of its own version"),
        pytest.param({"mismatchLabelKeys": ["version"]}, "a b", id="of any version but its own"),
        pytest.param({"matchLabelKeys": ["flavor"]}, "a b", id="a label that it lacks says nothing"),
    ],
)
def test_terms_about_a_label_of_the_pod_itself(more: dict[str, Any], want: str) -> None:
    world = World(*NODES)
    world.put(pod("db app=db version=1 flavor=x"), "a")
    assert world.passing(pod("p version=2", **required_affinity(term("db", **more)))) == want


def test_what_the_server_wrote_into_a_selector_stands() -> None:
    """It writes the label a pod has when it is made, which may be another one by now."""
    written = term("db", matchLabelKeys=["version"])
    written["labelSelector"] = {
        "matchLabels": {"app": "db"},
        "matchExpressions": [{"key": "version", "operator": "In", "values": ["1"]}],
    }
    world = World(*NODES)
    world.put(pod("db app=db version=1"), "a")
    assert world.passing(pod("p version=2", **required_affinity(written))) == "a b"


@pytest.mark.parametrize(
    ("capacity", "want"),
    [pytest.param(Capacity.IDLE, "c d", id="now"), pytest.param(Capacity.FUTURE_IDLE, "a b c d", id="later")],
)
def test_pods_that_leave_count_until_they_are_gone(capacity: Capacity, want: str) -> None:
    world = World(*NODES)
    world.put(pod("db app=db"), "a", AllocationState.RELEASING)
    assert world.passing(pod("p", **required_anti_affinity(term("db"))), capacity) == want


def test_members_of_a_gang_see_each_other() -> None:
    world = World(*NODES)
    member = required_anti_affinity(term("gang", "hostname"))
    for name, node in (("m1", "a"), ("m2", "b"), ("m3", "c")):
        assert node in world.passing(pod("next app=gang", **member)).split()
        world.put(pod(f"{name} app=gang", **member), node)
    assert world.passing(pod("m4 app=gang", **member)) == "d"


# -- preferences


def test_preferences_weigh_each_pod_of_the_domain() -> None:
    world = with_database()
    world.put(pod("db2 app=db"), "b")
    world.put(pod("db3 app=db"), "c")
    drawn = pod("p", **preferring("podAffinity", 5, term("db")))
    driven = pod("q", **preferring("podAntiAffinity", 5, term("db")))
    assert world.measure(drawn, "pod_affinity") == {"a": 10, "b": 10, "c": 5, "d": 0}
    assert world.measure(driven, "pod_affinity") == {"a": -10, "b": -10, "c": -5, "d": 0}


def test_placed_pods_have_preferences_as_well() -> None:
    world = World(*NODES)
    world.put(pod("glad", **preferring("podAffinity", 7, term("web"))), "a")
    world.put(pod("loath", **preferring("podAntiAffinity", 3, term("web", "hostname"))), "b")
    assert world.measure(pod("p app=web"), "pod_affinity") == {"a": 7, "b": 4, "c": 0, "d": 0}
    assert world.filter_result(pod("q app=db")).raw_scores.pod_affinity is None


def test_who_requires_others_near_is_a_little_glad_of_more() -> None:
    world = with_database()
    world.put(pod("client", **required_affinity(term("db"))), "b")
    assert world.measure(pod("db2 app=db"), "pod_affinity") == {"a": 1, "b": 1, "c": 0, "d": 0}


# -- what one pod changes for the next


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, InvalidationScope.NONE, id="no terms"),
        pytest.param(required_anti_affinity(term("web")), InvalidationScope.NONE, id="terms about others"),
        pytest.param(
            required_anti_affinity(term("own")),
            InvalidationScope.OTHER_NODES,
            id="apart from each other by zone",
        ),
        pytest.param(
            required_anti_affinity(term("own", "hostname")),
            InvalidationScope.ONE_PER_NODE,
            id="apart from each other by node",
        ),
        pytest.param(required_affinity(term("own")), InvalidationScope.OTHER_NODES, id="near to each other"),
        pytest.param(
            required_affinity(term("own", "hostname")),
            InvalidationScope.OTHER_NODES,
            id="on the node of the first",
        ),
        pytest.param(
            preferring("podAffinity", 1, term("own")), InvalidationScope.OTHER_NODES, id="drawn to each other"
        ),
        pytest.param(preferring("podAffinity", 1, term("web")), InvalidationScope.NONE, id="drawn to others"),
        pytest.param(
            preferring("podAffinity", 1, term("own", "hostname")),
            InvalidationScope.OWN_NODE,
            id="drawn to each other's node",
        ),
        pytest.param(
            required_anti_affinity(term("own", "rack")),
            InvalidationScope.OWN_NODE,
            id="apart by a label that nodes lack",
        ),
    ],
)
def test_how_far_a_pod_reaches(spec: dict[str, Any], want: InvalidationScope) -> None:
    filter_result = World(*NODES).filter_result(pod("p app=own", **spec))
    assert filter_result.invalidation_scope is want
