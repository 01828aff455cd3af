"""Pods near to and apart from each other."""

from typing import Any

import pytest

from quorate.placement.cluster import Hold
from quorate.placement.constraints.objections import Remedy
from quorate.placement.stance import Moment, Reach
from tests.placement.constraints.given import World, pod

NODES = ("a zone=1", "b zone=1", "c zone=2", "d")


def term(app: str | None = None, key: str = "zone", **more: Any) -> dict[str, Any]:
    """Pods of that app; of any, if it is ``*``; without one, there is no selector."""
    selector = {} if app == "*" else {"matchLabels": {"app": app}}
    return {"topologyKey": key, **({} if app is None else {"labelSelector": selector}), **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
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
    incoming = pod("p", **near(*terms))
    assert with_database().passing(incoming) == want
    assert set(with_database().refusals(incoming).values()) <= {"node(s) didn't match pod affinity rules"}


def test_two_terms_are_not_met_by_two_pods() -> None:
    world = with_database()
    world.put(pod("web app=web"), "a")
    assert world.passing(pod("p", **near(term("db"), term("web")))) == ""


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
    assert world.passing(pod(f"p {labels}", **near(term("ring")))) == want


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
    incoming = pod("p", **apart(*terms))
    assert with_database().passing(incoming) == want
    refusals = set(with_database().refusals(incoming).values())
    assert refusals <= {"node(s) didn't match pod anti-affinity rules"}


def test_placed_pods_keep_others_apart_too() -> None:
    world = World(*NODES)
    world.put(pod("lonely app=lonely", **apart(term("*"))), "a")
    refusal = "node(s) didn't satisfy existing pods anti-affinity rules"
    assert world.refusals(pod("p")) == {"a": refusal, "b": refusal}
    world.take("lonely")
    assert world.refusals(pod("p")) == {}


def test_only_evicting_can_keep_pods_apart() -> None:
    world = with_database()
    world.put(pod("lonely", **apart(term("web"))), "c")
    remedies = {
        name: objection.remedy
        for name, objection in world.objections(pod("p app=web", **apart(term("db")))).items()
    }
    assert remedies == {"a": Remedy.EVICTION, "b": Remedy.EVICTION, "c": Remedy.EVICTION}
    assert with_database().objections(pod("p", **near(term("db"))))["c"].remedy is Remedy.TIME


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
    world.surroundings.set_namespace("data", {"team": "store"})
    world.put(pod("db app=db", namespace="data"), "a")
    assert world.passing(pod("p", **near(term("db", **more)))) == want


def test_labels_of_a_namespace_may_change() -> None:
    world = World(*NODES)
    world.put(pod("db app=db", namespace="data"), "a")
    world.put(pod("lonely", **apart(term("web", namespaceSelector={"matchLabels": {"team": "shop"}}))), "c")
    shop = near(term("db", namespaceSelector={"matchLabels": {"team": "store"}}))
    assert world.passing(pod("p", **shop)) == ""
    assert world.passing(pod("web app=web")) == "a b c d"
    world.surroundings.set_namespace("data", {"team": "store"})
    world.surroundings.set_namespace("default", {"team": "shop"})
    assert world.passing(pod("p", **shop)) == "a b"
    assert world.passing(pod("web app=web")) == "a b d"
    world.surroundings.set_namespace("data", {})
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
    assert world.passing(pod("p version=2", **near(term("db", **more)))) == want


def test_what_the_server_wrote_into_a_selector_stands() -> None:
    """It writes the label a pod has when it is made, which may be another one by now."""
    written = term("db", matchLabelKeys=["version"])
    written["labelSelector"] = {
        "matchLabels": {"app": "db"},
        "matchExpressions": [{"key": "version", "operator": "In", "values": ["1"]}],
    }
    world = World(*NODES)
    world.put(pod("db app=db version=1"), "a")
    assert world.passing(pod("p version=2", **near(written))) == "a b"


@pytest.mark.parametrize(
    ("moment", "want"),
    [pytest.param(Moment.NOW, "c d", id="now"), pytest.param(Moment.LATER, "a b c d", id="later")],
)
def test_pods_that_leave_count_until_they_are_gone(moment: Moment, want: str) -> None:
    world = World(*NODES)
    world.put(pod("db app=db"), "a", Hold.RELEASING)
    assert world.passing(pod("p", **apart(term("db"))), moment) == want


def test_members_of_a_gang_see_each_other() -> None:
    world = World(*NODES)
    member = apart(term("gang", "hostname"))
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
    assert world.stance(pod("q app=db")).preferences.pod_affinity is None


def test_who_requires_others_near_is_a_little_glad_of_more() -> None:
    world = with_database()
    world.put(pod("client", **near(term("db"))), "b")
    assert world.measure(pod("db2 app=db"), "pod_affinity") == {"a": 1, "b": 1, "c": 0, "d": 0}


# -- what one pod changes for the next


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, Reach.NONE, id="no terms"),
        pytest.param(apart(term("web")), Reach.NONE, id="terms about others"),
        pytest.param(apart(term("own")), Reach.OTHERS, id="apart from each other by zone"),
        pytest.param(apart(term("own", "hostname")), Reach.BARS, id="apart from each other by node"),
        pytest.param(near(term("own")), Reach.OTHERS, id="near to each other"),
        pytest.param(near(term("own", "hostname")), Reach.OTHERS, id="on the node of the first"),
        pytest.param(preferring("podAffinity", 1, term("own")), Reach.OTHERS, id="drawn to each other"),
        pytest.param(preferring("podAffinity", 1, term("web")), Reach.NONE, id="drawn to others"),
        pytest.param(
            preferring("podAffinity", 1, term("own", "hostname")),
            Reach.OWN_NODE,
            id="drawn to each other's node",
        ),
        pytest.param(apart(term("own", "rack")), Reach.OWN_NODE, id="apart by a label that nodes lack"),
    ],
)
def test_how_far_a_pod_reaches(spec: dict[str, Any], want: Reach) -> None:
    stance = World(*NODES).stance(pod("p app=own", **spec))
    assert stance.reach is want
