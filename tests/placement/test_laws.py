"""Properties of node selection: a literal implementation of the specification chooses the same nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    NodeOrderArguments,
    PredicateArguments,
)
from quorate.placement.batch_placement import ALLOCATION_STATES
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.failures import FilterFailure
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.node_finder import Choice, NodeFinder
from quorate.placement.resources import in_base_units
from quorate.placement.scoring import Scoring
from quorate.placement.shapes import Shape, Shapes
from tests.placement.builders import GPU, node, shape
from tests.placement.cluster_changes import Change, apply_change, changes
from tests.placement.fixed_constraints import UNRESOLVABLE, FixedConstraints
from tests.placement.oracle import OracleNode, oracle_best
from tests.search import examples

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

SHAPES = Shapes()
KINDS = tuple(
    shape(text, SHAPES)
    for text in ("cpu=1 memory=1Gi", "cpu=500m", "cpu=2 memory=512Mi gpu=1", "memory=3Gi", "")
)
HARDWARE = ("cpu=4 memory=8Gi", "cpu=8 memory=4Gi", "cpu=3 memory=3Gi gpu=2", "cpu=2 pods=3", "memory=7Gi")

weights = st.integers(0, 3)
node_orders = st.builds(
    NodeOrderArguments,
    least_requested=weights,
    most_requested=weights,
    balanced_resource=weights,
    node_affinity=weights,
)
binpacks = st.builds(
    BinpackArguments,
    weights,
    st.fixed_dictionaries({"cpu": weights, "memory": weights, "nvidia.com/gpu": weights}),
)
scorings = st.builds(Scoring, st.none() | node_orders, st.none() | binpacks)
pod_counts = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(AllocationState)), max_size=4)
given_nodes = st.lists(
    st.tuples(
        st.sampled_from(HARDWARE), st.booleans() | st.just(True), st.sampled_from([0, 0, 1, 7]), pod_counts
    ),
    max_size=6,
)
NodeGiven = tuple[str, bool, int, list[tuple[Shape, AllocationState]]]


@dataclass
class World:
    """The same nodes twice: in a ``Cluster``, and for the oracle."""

    given: Sequence[NodeGiven]
    scoring: Scoring
    preferring: bool = False
    cluster: Cluster = field(default_factory=Cluster)
    oracle: list[OracleNode] = field(default_factory=list)

    def __post_init__(self) -> None:
        rejected: dict[str, FilterFailure] = {}
        preferred: dict[str, int] = {}
        for number, (hardware, passes, affinity, pods) in enumerate(self.given):
            created = node(f"n{number} {hardware}")
            self.cluster.set_node(created)
            amounts = in_base_units(created.status.allocatable)
            self.oracle.append(OracleNode(f"n{number}", amounts, passes, affinity if self.preferring else 0))
            if not passes:
                rejected[f"n{number}"] = UNRESOLVABLE
            preferred[f"n{number}"] = affinity
            for pod, (kind, state) in enumerate(pods):
                self.put(Uid(f"{number}/{pod}"), kind, f"n{number}", state)
        self.constraints = FixedConstraints(self.cluster, rejected, preferred if self.preferring else None)
        self.finder = NodeFinder(self.cluster, self.constraints, self.scoring)

    def put(self, pod: Uid, kind: Shape, name: str, state: AllocationState) -> None:
        self.cluster.add_pod(pod, kind, name, state)
        next(one for one in self.oracle if one.name == name).pods.append((kind, state))

    def oracle_best(self, kind: Shape) -> Choice | None:
        found = oracle_best(self.oracle, self.scoring, kind)
        return Choice(*found) if found is not None else None


@given(
    given_nodes,
    scorings,
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 20)), max_size=4),
)
def test_the_best_node_is_that_of_the_specification(
    nodes: list[NodeGiven], scoring: Scoring, preferring: bool, runs: list[tuple[Shape, int]]
) -> None:
    world = World(nodes, scoring, preferring)
    for number, kind in enumerate(kind for kind, count in runs for _ in range(count)):
        best = world.finder.best(kind)
        assert (best if isinstance(best, Choice) else None) == world.oracle_best(kind)
        if isinstance(best, Choice):
            world.put(Uid(str(number)), kind, best.node, ALLOCATION_STATES[best.capacity])


@given(given_nodes, scorings, st.sampled_from(KINDS), st.data())
def test_a_batch_notices_other_changes(
    nodes: list[NodeGiven], scoring: Scoring, kind: Shape, data: st.DataObject
) -> None:
    world = World(nodes, scoring)
    for number in range(8):
        best = world.finder.best(kind)
        assert (best if isinstance(best, Choice) else None) == world.oracle_best(kind)
        if isinstance(best, Choice) and data.draw(st.integers(0, 3)):
            world.put(Uid(f"placed/{number}"), kind, best.node, data.draw(st.sampled_from(AllocationState)))
        if len(nodes) > 0 and not data.draw(st.integers(0, 3)):
            on = data.draw(st.integers(0, len(nodes) - 1))
            world.put(
                Uid(f"other/{number}"), data.draw(st.sampled_from(KINDS)), f"n{on}", AllocationState.USED
            )


@given(scorings, st.lists(st.integers(1, 60), min_size=1, max_size=5))
@examples(20)
def test_a_batch_of_hundreds_of_pods_is_placed_as_specified(scoring: Scoring, cpus: list[int]) -> None:
    """More pods fit each node than are computed at once; continue until none fits."""
    nodes: list[NodeGiven] = [(f"cpu={2 * cpu} memory={cpu + 5}Gi pods=90", True, 0, []) for cpu in cpus]
    world = World(nodes, scoring)
    kind, number = KINDS[0], 0
    while (best := world.finder.best(kind)) == (want := world.oracle_best(kind)) and want is not None:
        world.put(Uid(str(number)), kind, want.node, ALLOCATION_STATES[want.capacity])
        number += 1
    assert isinstance(best, Diagnosis)
    assert number == sum(min(2 * cpu, cpu + 5, 90) for cpu in cpus)


@given(scorings, st.lists(st.integers(10, 90), min_size=10, max_size=14))
@examples(8)
def test_a_batch_is_placed_like_single_pods(scoring: Scoring, cpus: list[int]) -> None:
    """So many pods that several times a node takes more of them than were computed at once."""
    nodes: list[NodeGiven] = [(f"cpu={cpu} memory={100 - cpu}Gi", True, 0, []) for cpu in cpus]
    batch, single = World(nodes, scoring), World(nodes, scoring)
    for number in range(300):
        best = batch.finder.best(KINDS[0])
        single.finder.best(KINDS[1])  # a query for another shape ends the batch
        assert single.finder.best(KINDS[0]) == best
        if isinstance(best, Choice):
            for world in (batch, single):
                world.put(Uid(str(number)), KINDS[0], best.node, ALLOCATION_STATES[best.capacity])


@given(given_nodes, scorings, st.lists(st.sampled_from(KINDS), max_size=30))
def test_no_pod_overcommits_a_resource(nodes: list[NodeGiven], scoring: Scoring, pods: list[Shape]) -> None:
    world = World(nodes, scoring)
    before = [one.overcommitted() for one in world.oracle]
    for number, kind in enumerate(pods):
        best = world.finder.best(kind)
        if isinstance(best, Choice):
            world.put(Uid(str(number)), kind, best.node, ALLOCATION_STATES[best.capacity])
    assert [one.overcommitted() for one in world.oracle] == before


device_users = st.lists(st.sampled_from(AllocationState), min_size=1, max_size=3)


@given(
    st.lists(
        st.tuples(st.sampled_from(HARDWARE), st.integers(0, 1), device_users, pod_counts),
        min_size=1,
        max_size=4,
    ),
    scorings,
    st.lists(st.sampled_from([kind for kind in KINDS if GPU not in kind.amounts]), min_size=1, max_size=9),
)
def test_lost_devices_do_not_matter_to_pods_that_request_none(
    nodes: list[tuple[str, int, list[AllocationState], list[tuple[Shape, AllocationState]]]],
    scoring: Scoring,
    pods: list[Shape],
) -> None:
    """Some nodes have fewer devices than their pods use; in the other cluster there are no devices."""
    lossy, without = Cluster(), Cluster()
    users = {lossy: shape("cpu=100m gpu=1", SHAPES), without: shape("cpu=100m", SHAPES)}
    for number, (hardware, left, states, others) in enumerate(nodes):
        name, other_amounts = f"n{number}", hardware.removesuffix(" gpu=2")
        lossy.set_node(node(f"{name} {other_amounts} gpu={left}"))
        without.set_node(node(f"{name} {other_amounts}"))
        for cluster, user in users.items():
            running = [(user, state) for state in states]
            running += [(kind, state) for kind, state in others if GPU not in kind.amounts]
            for pod, (kind, state) in enumerate(running):
                cluster.add_pod(Uid(f"{number}/{pod}"), kind, name, state)
    finders = [NodeFinder(cluster, FixedConstraints(cluster), scoring) for cluster in (lossy, without)]
    for pod, kind in enumerate(pods):
        ranked, other_ranked = (list(finder.nodes_by_score(kind)) for finder in finders)
        assert ranked == other_ranked
        best, expected = (finder.best(kind) for finder in finders)
        assert best == expected
        if isinstance(best, Choice):
            for cluster in (lossy, without):
                cluster.add_pod(Uid(f"placed/{pod}"), kind, best.node, ALLOCATION_STATES[best.capacity])
    for total, expected_total in (
        (lossy.total, without.total),
        (lossy.total_used, without.total_used),
        (lossy.total_releasing, without.total_releasing),
    ):
        assert {name: amount for name, amount in total.items() if name != GPU} == expected_total


@given(given_nodes, scorings, st.sampled_from(KINDS))
def test_the_order_in_which_nodes_are_added_does_not_matter(
    nodes: list[NodeGiven], scoring: Scoring, kind: Shape
) -> None:
    assume(len(nodes) > 1)
    world = World(nodes, scoring)
    other = Cluster()
    for number in reversed(range(len(nodes))):
        hardware, _, _, pods = nodes[number]
        for pod, (kind_there, state) in enumerate(pods):
            other.add_pod(Uid(f"{number}/{pod}"), kind_there, f"n{number}", state)
        other.set_node(node(f"n{number} {hardware}"))
    again = NodeFinder(other, FixedConstraints(other, world.constraints.rejected), scoring)
    assert again.best(kind) == world.finder.best(kind)
    assert list(again.nodes_by_score(kind)) == list(world.finder.nodes_by_score(kind))


@given(st.lists(st.tuples(changes, st.booleans()), max_size=30), scorings)
def test_an_updated_ranking_equals_a_new_one(history: list[tuple[Change, bool]], scoring: Scoring) -> None:
    cluster = Cluster()
    constraints = ConstraintEngine(cluster, PredicateArguments())
    updated = NodeFinder(cluster, constraints, scoring)
    for change, queried in history:
        apply_change(cluster, change)
        if queried:
            updated.best(KINDS[0])
    new = NodeFinder(cluster, constraints, scoring)
    for kind in KINDS:
        assert updated.best(kind) == new.best(kind)
        assert list(updated.nodes_by_score(kind)) == list(new.nodes_by_score(kind))
