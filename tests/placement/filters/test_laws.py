"""Filters and scores against an oracle that recounts everything, while pods and nodes change."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.framework import Capacity, InvalidationScope
from tests.placement.filters.oracle import Oracle
from tests.placement.filters.world import World, node, pod
from tests.search import examples

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

ZONES = st.sampled_from(("", "zone=1", "zone=2", "zone=3"))
POOLS = st.sampled_from(("", "pool=x", "pool=y"))
TAINTS = st.sampled_from(
    ({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"key": "old", "effect": "PreferNoSchedule"})
)
APPS = st.sampled_from(("", "app=a", "app=b"))
RANKS = st.sampled_from(("", "rank=0", "rank=1"))
STATES = st.sampled_from(tuple(AllocationState))
KEYS = st.sampled_from(("hostname", "zone", "pool"))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    taints = draw(st.lists(TAINTS, max_size=1))
    text = f"{name} {draw(ZONES)} {draw(POOLS)}"
    return node(text, taints=taints, unschedulable=draw(st.integers(0, 9)) == 0)


SELECTORS = st.sampled_from(
    (
        None,
        {},
        {"matchLabels": {"app": "a"}},
        {"matchLabels": {"app": "b"}},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
        {"matchExpressions": [{"key": "rank", "operator": "Exists"}]},
    )
)


@st.composite
def terms(draw: st.DrawFn) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": draw(KEYS), "labelSelector": draw(SELECTORS)}
    match draw(st.integers(0, 5)):
        case 0:
            term["namespaces"] = ["other"]
        case 1:
            term["namespaceSelector"] = {}
        case 2 if term["labelSelector"] is not None:
            term[draw(st.sampled_from(("matchLabelKeys", "mismatchLabelKeys")))] = ["rank"]
    return term


@st.composite
def affinities(draw: st.DrawFn) -> dict[str, Any]:
    preferred = st.builds(
        lambda weight, term: {"weight": weight, "podAffinityTerm": term}, st.integers(1, 3), terms()
    )
    sides: dict[str, Any] = {}
    for side in ("podAffinity", "podAntiAffinity"):
        sides[side] = {
            "requiredDuringSchedulingIgnoredDuringExecution": draw(st.lists(terms(), max_size=2)),
            "preferredDuringSchedulingIgnoredDuringExecution": draw(st.lists(preferred, max_size=1)),
        }
    return sides


SPREADS = st.builds(
    lambda skew, key, selector, least, affinity, taints: {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "minDomains": least,
        "nodeAffinityPolicy": affinity,
        "nodeTaintsPolicy": taints,
    },
    st.integers(1, 2),
    KEYS,
    SELECTORS,
    st.sampled_from((None, 2, 3)),
    st.sampled_from(("Honor", "Ignore")),
    st.sampled_from(("Honor", "Ignore")),
)
PORTS = st.sampled_from(
    (
        {"hostPort": 80, "containerPort": 80},
        {"hostPort": 80, "containerPort": 80, "hostIP": "10.0.0.1"},
        {"hostPort": 80, "containerPort": 80, "hostIP": "10.0.0.2"},
        {"hostPort": 80, "containerPort": 80, "protocol": "UDP"},
    )
)


@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    labels = (
        f"{draw(st.sampled_from(('', 'app=a', 'app=b')))} {draw(st.sampled_from(('', 'rank=0', 'rank=1')))}"
    )
    spec: dict[str, Any] = {"namespace": draw(st.sampled_from(("default", "default", "other")))}
    kind = draw(st.integers(0, 4))
    if kind == 1:
        spec["affinity"] = draw(affinities())
    elif kind == 2:
        spec["topologySpreadConstraints"] = draw(st.lists(SPREADS, min_size=1, max_size=2))
    elif kind == 3:
        spec["ports"] = [draw(PORTS)]
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    if draw(st.integers(0, 4)) == 0:
        spec["nodeSelector"] = {"pool": "x"}
    return pod(f"{name} {labels}", **spec)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    names = [f"n{number}" for number in range(draw(st.integers(1, 5)))]
    world = World(*(draw(nodes(name)) for name in names))
    for number in range(draw(st.integers(0, 6))):
        where, state = draw(st.sampled_from(names)), draw(STATES)
        world.put(draw(pods(f"p{number}")), where, state)
    return world


def oracle(world: World, capacity: Capacity = Capacity.IDLE) -> Oracle:
    nodes = [node for node in world.cluster.nodes if node is not None]
    return Oracle(nodes, list(world.placed.values()), capacity)


def oracle_reasons(world: World, pod: Pod, capacity: Capacity) -> dict[str, str]:
    recounted = oracle(world, capacity)
    reasons = {node.metadata.name: recounted.failure(pod, node) for node in recounted.nodes}
    return {name: reason for name, reason in reasons.items() if reason is not None}


@given(world=worlds(), incoming=pods("new"), capacity=st.sampled_from(Capacity))
def test_failures_equal_those_of_the_oracle(world: World, incoming: Pod, capacity: Capacity) -> None:
    assert world.reasons(incoming, capacity) == oracle_reasons(world, incoming, capacity)


@given(world=worlds(), incoming=pods("new"))
def test_affinity_scores_equal_those_of_the_oracle(world: World, incoming: Pod) -> None:
    recounted = oracle(world)
    want = {each.metadata.name: recounted.affinity_score(incoming, each) for each in recounted.nodes}
    assert affinity_scores(world, incoming) == want


@given(world=worlds(), watched=st.tuples(pods("w1"), pods("w2")), data=st.data())
@examples(60)
def test_results_follow_every_change(world: World, watched: tuple[Pod, Pod], data: st.DataObject) -> None:
    for step in range(data.draw(st.integers(1, 6))):
        for incoming in watched:
            world.reasons(incoming)  # results are cached from here on
        change(world, data, step)
        for incoming in watched:
            for capacity in Capacity:
                assert world.reasons(incoming, capacity) == oracle_reasons(world, incoming, capacity)


def change(world: World, data: st.DataObject, step: int) -> None:
    names = sorted(world.cluster.names())
    match data.draw(st.sampled_from(("add pod", "remove pod", "update pod", "set node", "remove node"))):
        case "add pod":
            state = data.draw(STATES)
            world.put(data.draw(pods(f"new{step}")), data.draw(st.sampled_from(names)), state)
        case "remove pod" if world.placed:
            world.take(data.draw(st.sampled_from(sorted(world.placed))))
        case "update pod" if world.placed:
            world.move(data.draw(st.sampled_from(sorted(world.placed))), data.draw(STATES))
        case "set node":
            world.cluster.set_node(data.draw(nodes(data.draw(st.sampled_from((*names, "n9"))))))
        case "remove node" if len(names) > 1:
            world.cluster.remove_node(data.draw(st.sampled_from(names)))


@given(world=worlds(), watched=pods("w"), added=pods("added"), data=st.data())
def test_removing_an_added_pod_restores_all_results(
    world: World, watched: Pod, added: Pod, data: st.DataObject
) -> None:
    world.filter_result(added)  # so that its selectors exist before and after
    before = world.reasons(watched), world.reasons(watched, Capacity.FUTURE_IDLE)
    world.put(added, data.draw(st.sampled_from(sorted(world.cluster.names()))))
    world.reasons(watched)
    world.take("added")
    assert (world.reasons(watched), world.reasons(watched, Capacity.FUTURE_IDLE)) == before


@given(world=worlds(), incoming=pods("same"), data=st.data())
def test_a_placed_pod_changes_only_results_in_its_invalidation_scope(
    world: World, incoming: Pod, data: st.DataObject
) -> None:
    """Placing equal pods in batches depends on it: results outside the scope are not computed again."""
    invalidation_scope = world.filter_result(incoming).invalidation_scope
    before, scores = world.reasons(incoming), affinity_scores(world, incoming)
    passing = world.passing(incoming).split()
    if not passing:
        return
    where = data.draw(st.sampled_from(passing))
    world.put(incoming, where)
    after, scores_after = world.reasons(incoming), affinity_scores(world, incoming)
    match invalidation_scope:
        case InvalidationScope.NONE:
            assert (after, scores_after) == (before, scores)
        case InvalidationScope.ONE_PER_NODE:
            assert after == {**before, where: after[where]}
            assert {**scores_after, where: 0} == {**scores, where: 0}
        case InvalidationScope.OWN_NODE:
            assert {**after, where: ""} == {**before, where: ""}
            assert {**scores_after, where: 0} == {**scores, where: 0}


@given(world=worlds(), incoming=pods("new"))
def test_removing_all_pods_does_not_resolve_an_unresolvable_failure(world: World, incoming: Pod) -> None:
    unresolvable = world.filter_result(incoming).unresolvable
    for name in list(world.placed):
        world.take(name)
    empty = world.reasons(incoming)
    for name in world.cluster.names():
        index = world.cluster.index(name)
        assert not unresolvable[index] or name in empty or _has_affinity(incoming)


def _has_affinity(pod: Pod) -> bool:
    return bool(pod.spec.affinity and pod.spec.affinity.pod_affinity)


@given(world=worlds(), incoming=pods("new"), data=st.data())
def test_the_order_of_changes_does_not_matter(world: World, incoming: Pod, data: st.DataObject) -> None:
    nodes = [node for node in world.cluster.nodes if node is not None]
    other = World()
    objects: list[Node | tuple[Pod, str, AllocationState]] = [*nodes, *world.placed.values()]
    for each in data.draw(st.permutations(objects)):
        if isinstance(each, tuple):
            other.put(*each)
        else:
            other.cluster.set_node(each)
    for capacity in Capacity:
        assert other.reasons(incoming, capacity) == world.reasons(incoming, capacity)
    assert affinity_scores(other, incoming) == affinity_scores(world, incoming)


def affinity_scores(world: World, incoming: Pod) -> dict[str, int]:
    scores = world.filter_result(incoming).raw_scores.pod_affinity
    names = sorted(world.cluster.names())
    return {name: 0 if scores is None else int(scores[world.index(name)]) for name in names}
