"""Pod affinity and anti-affinity, required and preferred."""

from typing import Any

import pytest

from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.failures import Remedy
from quorate.placement.framework import Capacity, InvalidationScope
from tests.placement.filters.world import World, pod

NODES = ("a zone=1", "b zone=1", "c zone=2", "d")


def term(app: str | None = None, key: str = "zone", **more: Any) -> dict[str, Any]:
    """Build a term that selects pods of ``app``; ``*`` selects all, None leaves the selector out."""
    selector = {} if app == "*" else {"matchLabels": {"app": app}}
    return {"topologyKey": key, **({} if app is None else {"labelSelector": selector}), **more}


def required_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def required_anti_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def preferring(side: str, weight: int, term: dict[str, Any]) -> dict[str, Any]:
    preferred = [{"weight": weight, "podAffinityTerm": term}]
    return {"affinity": {side: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def with_database(*nodes: str) -> World:
    """Build a world with a pod ``db`` on node ``a``."""
    world = World(*(nodes or NODES))
    world.put(pod("db app=db"), "a")
    return world


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([term("db")], "a b", id="by zone"),
        pytest.param([term("db", "hostname")], "a", id="by node"),
        pytest.param([term("web")], "", id="no matching pod"),
        pytest.param([term("*")], "a b", id="an empty selector matches every pod"),
        pytest.param([term(None)], "", id="no selector matches no pod"),
        pytest.param([term("db", "rack")], "", id="a topology key that no node has"),
        pytest.param([term("db"), term("web")], "", id="two terms that no single pod matches"),
        pytest.param([term("db"), term("*", "hostname")], "a", id="two terms with different topology keys"),
    ],
)
def test_required_affinity(terms: list[dict[str, Any]], want: str) -> None:
    incoming = pod("p", **required_affinity(*terms))
    assert with_database().passing(incoming) == want
    assert set(with_database().reasons(incoming).values()) <= {"node(s) didn't match pod affinity rules"}


def test_two_pods_do_not_satisfy_two_terms() -> None:
    world = with_database()
    world.put(pod("web app=web"), "a")
    assert world.passing(pod("p", **required_affinity(term("db"), term("web")))) == ""


@pytest.mark.parametrize(
    ("labels", "placed", "want"),
    [
        pytest.param("app=ring", [], "a b c", id="the first pod of a group fits every node with the key"),
        pytest.param("app=other", [], "", id="a pod that its own terms do not match does not"),
        pytest.param("app=ring", ["c"], "c", id="another pod of the group is placed"),
        pytest.param("app=ring", ["d"], "a b c", id="another pod of the group is outside all domains"),
    ],
)
def test_the_first_pod_of_a_group(labels: str, placed: list[str], want: str) -> None:
    world = World(*NODES)
    for name in placed:
        world.put(pod("other app=ring"), name)
    assert world.passing(pod(f"p {labels}", **required_affinity(term("ring")))) == want


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([term("db")], "c d", id="by zone, including nodes without the key"),
        pytest.param([term("db", "hostname")], "b c d", id="by node"),
        pytest.param([term("web")], "a b c d", id="no matching pod"),
        pytest.param([term("web"), term("db", "hostname")], "b c d", id="each term applies by itself"),
    ],
)
def test_required_anti_affinity(terms: list[dict[str, Any]], want: str) -> None:
    incoming = pod("p", **required_anti_affinity(*terms))
    assert with_database().passing(incoming) == want
    reasons = set(with_database().reasons(incoming).values())
    assert reasons <= {"node(s) didn't match pod anti-affinity rules"}


def test_anti_affinity_of_placed_pods() -> None:
    world = World(*NODES)
    world.put(pod("exclusive app=exclusive", **required_anti_affinity(term("*"))), "a")
    failure = "node(s) didn't satisfy existing pods anti-affinity rules"
    assert world.reasons(pod("p")) == {"a": failure, "b": failure}
    world.take("exclusive")
    assert world.reasons(pod("p")) == {}


def test_preemption_resolves_anti_affinity_but_not_affinity() -> None:
    world = with_database()
    world.put(pod("exclusive", **required_anti_affinity(term("web"))), "c")
    remedies = {
        name: failure.remedy
        for name, failure in world.failures(pod("p app=web", **required_anti_affinity(term("db")))).items()
    }
    assert remedies == {"a": Remedy.PREEMPTION, "b": Remedy.PREEMPTION, "c": Remedy.PREEMPTION}
    assert with_database().failures(pod("p", **required_affinity(term("db"))))["c"].remedy is Remedy.WAITING


@pytest.mark.parametrize(
    ("more", "want"),
    [
        pytest.param({}, "", id="its own namespace by default"),
        pytest.param({"namespaces": ["data"]}, "a b", id="a named namespace"),
        pytest.param({"namespaces": ["web"]}, "", id="another named namespace"),
        pytest.param({"namespaceSelector": {}}, "a b", id="an empty namespace selector"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "store"}}},
            "a b",
            id="a namespace selector that matches",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "shop"}}},
            "",
            id="a namespace selector that does not match",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "shop"}}, "namespaces": ["data"]},
            "a b",
            id="a name or a namespace selector",
        ),
    ],
)
def test_namespaces_of_a_term(more: dict[str, Any], want: str) -> None:
    world = World(*NODES)
    world.engine.set_namespace("data", {"team": "store"})
    world.put(pod("db app=db", namespace="data"), "a")
    assert world.passing(pod("p", **required_affinity(term("db", **more)))) == want


def test_results_follow_the_labels_of_namespaces() -> None:
    world = World(*NODES)
    world.put(pod("db app=db", namespace="data"), "a")
    world.put(
        pod(
            "exclusive",
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
        pytest.param({"matchLabelKeys": ["version"]}, "", id="the same version"),
        pytest.param({"mismatchLabelKeys": ["version"]}, "a b", id="other versions"),
        pytest.param({"matchLabelKeys": ["flavor"]}, "a b", id="a key that the pod lacks is ignored"),
    ],
)
def test_match_label_keys(more: dict[str, Any], want: str) -> None:
    world = World(*NODES)
    world.put(pod("db app=db version=1 flavor=x"), "a")
    assert world.passing(pod("p version=2", **required_affinity(term("db", **more)))) == want


def test_a_requirement_added_by_the_api_server_is_kept() -> None:
    """It has the value of the label at the creation of the pod, which may have changed."""
    completed = term("db", matchLabelKeys=["version"])
    completed["labelSelector"] = {
        "matchLabels": {"app": "db"},
        "matchExpressions": [{"key": "version", "operator": "In", "values": ["1"]}],
    }
    world = World(*NODES)
    world.put(pod("db app=db version=1"), "a")
    assert world.passing(pod("p version=2", **required_affinity(completed))) == "a b"


@pytest.mark.parametrize(
    ("capacity", "want"),
    [
        pytest.param(Capacity.IDLE, "c d", id="idle"),
        pytest.param(Capacity.FUTURE_IDLE, "a b c d", id="future idle"),
    ],
)
def test_releasing_pods_count_at_idle_capacity_only(capacity: Capacity, want: str) -> None:
    world = World(*NODES)
    world.put(pod("db app=db"), "a", AllocationState.RELEASING)
    assert world.passing(pod("p", **required_anti_affinity(term("db"))), capacity) == want


def test_placed_members_of_a_gang_exclude_the_next_one() -> None:
    world = World(*NODES)
    member = required_anti_affinity(term("gang", "hostname"))
    for name, node in (("m1", "a"), ("m2", "b"), ("m3", "c")):
        assert node in world.passing(pod("next app=gang", **member)).split()
        world.put(pod(f"{name} app=gang", **member), node)
    assert world.passing(pod("m4 app=gang", **member)) == "d"


# Scores


def test_preferred_terms_add_their_weight_for_each_pod_of_the_domain() -> None:
    world = with_database()
    world.put(pod("db2 app=db"), "b")
    world.put(pod("db3 app=db"), "c")
    attracted = pod("p", **preferring("podAffinity", 5, term("db")))
    repelled = pod("q", **preferring("podAntiAffinity", 5, term("db")))
    assert world.raw_score(attracted, "pod_affinity") == {"a": 10, "b": 10, "c": 5, "d": 0}
    assert world.raw_score(repelled, "pod_affinity") == {"a": -10, "b": -10, "c": -5, "d": 0}


def test_preferred_terms_of_placed_pods() -> None:
    world = World(*NODES)
    world.put(pod("attracting", **preferring("podAffinity", 7, term("web"))), "a")
    world.put(pod("repelling", **preferring("podAntiAffinity", 3, term("web", "hostname"))), "b")
    assert world.raw_score(pod("p app=web"), "pod_affinity") == {"a": 7, "b": 4, "c": 0, "d": 0}
    assert world.filter_result(pod("q app=db")).raw_scores.pod_affinity is None


def test_required_affinity_of_placed_pods_adds_a_weight_of_one() -> None:
    world = with_database()
    world.put(pod("client", **required_affinity(term("db"))), "b")
    assert world.raw_score(pod("db2 app=db"), "pod_affinity") == {"a": 1, "b": 1, "c": 0, "d": 0}


# Invalidation


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, InvalidationScope.NONE, id="no terms"),
        pytest.param(
            required_anti_affinity(term("web")), InvalidationScope.NONE, id="anti-affinity to other pods"
        ),
        pytest.param(
            required_anti_affinity(term("own")),
            InvalidationScope.OTHER_NODES,
            id="anti-affinity to each other by zone",
        ),
        pytest.param(
            required_anti_affinity(term("own", "hostname")),
            InvalidationScope.ONE_PER_NODE,
            id="anti-affinity to each other by node",
        ),
        pytest.param(
            required_affinity(term("own")), InvalidationScope.OTHER_NODES, id="affinity to each other"
        ),
        pytest.param(
            required_affinity(term("own", "hostname")),
            InvalidationScope.OTHER_NODES,
            id="affinity to each other by node",
        ),
        pytest.param(
            preferring("podAffinity", 1, term("own")),
            InvalidationScope.OTHER_NODES,
            id="preferred affinity to each other",
        ),
        pytest.param(
            preferring("podAffinity", 1, term("web")),
            InvalidationScope.NONE,
            id="preferred affinity to other pods",
        ),
        pytest.param(
            preferring("podAffinity", 1, term("own", "hostname")),
            InvalidationScope.OWN_NODE,
            id="preferred affinity to each other by node",
        ),
        pytest.param(
            required_anti_affinity(term("own", "rack")),
            InvalidationScope.OWN_NODE,
            id="anti-affinity by a key that nodes lack",
        ),
    ],
)
def test_invalidation_scope(spec: dict[str, Any], want: InvalidationScope) -> None:
    filter_result = World(*NODES).filter_result(pod("p app=own", **spec))
    assert filter_result.invalidation_scope is want
