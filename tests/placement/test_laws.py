"""Laws of choosing nodes: the specification read literally agrees, whatever was thought of in advance."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    NodeOrderArguments,
    PredicateArguments,
)
from quorate.placement.batch_placement import HOLDS
from quorate.placement.cluster import AllocationState, Cluster
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.node_finder import Choice, NodeFinder
from quorate.placement.resources import in_base_units
from quorate.placement.scoring import Scoring
from quorate.placement.shapes import Shape, Shapes
from tests.placement.builders import node, shape
from tests.placement.cluster_changes import Happening, happen, happening
from tests.placement.fixed_constraints import Bar, Bars
from tests.placement.oracle import SlowNode, slow_best
from tests.search import examples

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
nodes_given = st.lists(
    st.tuples(
        st.sampled_from(HARDWARE), st.booleans() | st.just(True), st.sampled_from([0, 0, 1, 7]), pod_counts
    ),
    max_size=6,
)
NodeGiven = tuple[str, bool, int, list[tuple[Shape, AllocationState]]]


@dataclass
class World:
    """The same nodes twice: as the package has them, and as the slow reading of the specification does."""

    given: Sequence[NodeGiven]
    scoring: Scoring
    preferring: bool = False
    cluster: Cluster = field(default_factory=Cluster)
    slow: list[SlowNode] = field(default_factory=list)

    def __post_init__(self) -> None:
        filtered: dict[str, Bar] = {}
        preferred: dict[str, int] = {}
        for number, (hardware, passes, affinity, pods) in enumerate(self.given):
            known = node(f"n{number} {hardware}")
            self.cluster.set_node(known)
            amounts = in_base_units(known.status.allocatable)
            self.slow.append(SlowNode(f"n{number}", amounts, passes, affinity if self.preferring else 0))
            if not passes:
                filtered[f"n{number}"] = Bar("barred")
            preferred[f"n{number}"] = affinity
            for pod, (kind, state) in enumerate(pods):
                self.put(Uid(f"{number}/{pod}"), kind, f"n{number}", state)
        self.bars = Bars(self.cluster, filtered, preferred if self.preferring else None)
        self.node_finder = NodeFinder(self.cluster, self.bars, self.scoring)

    def put(self, pod: Uid, kind: Shape, name: str, state: AllocationState) -> None:
        self.cluster.add_pod(pod, kind, name, state)
        next(one for one in self.slow if one.name == name).pods.append((kind, state))

    def slow_best(self, kind: Shape) -> Choice | None:
        found = slow_best(self.slow, self.scoring, kind)
        return Choice(*found) if found is not None else None


@given(
    nodes_given,
    scorings,
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 20)), max_size=4),
)
def test_the_best_node_is_the_one_the_specification_names(
    nodes: list[NodeGiven], scoring: Scoring, preferring: bool, runs: list[tuple[Shape, int]]
) -> None:
    world = World(nodes, scoring, preferring)
    for number, kind in enumerate(kind for kind, count in runs for _ in range(count)):
        best = world.node_finder.best(kind)
        assert (best if isinstance(best, Choice) else None) == world.slow_best(kind)
        if isinstance(best, Choice):
            world.put(Uid(str(number)), kind, best.node, HOLDS[best.capacity])


@given(nodes_given, scorings, st.sampled_from(KINDS), st.data())
def test_pods_in_a_row_heed_what_happens_in_between(
    nodes: list[NodeGiven], scoring: Scoring, kind: Shape, data: st.DataObject
) -> None:
    world = World(nodes, scoring)
    for number in range(8):
        best = world.node_finder.best(kind)
        assert (best if isinstance(best, Choice) else None) == world.slow_best(kind)
        if isinstance(best, Choice) and data.draw(st.integers(0, 3)):
            world.put(Uid(f"placed/{number}"), kind, best.node, data.draw(st.sampled_from(AllocationState)))
        if len(nodes) > 0 and not data.draw(st.integers(0, 3)):
            on = data.draw(st.integers(0, len(nodes) - 1))
            world.put(
                Uid(f"other/{number}"), data.draw(st.sampled_from(KINDS)), f"n{on}", AllocationState.USED
            )


@given(scorings, st.lists(st.integers(1, 60), min_size=1, max_size=5))
@examples(20)
def test_hundreds_of_pods_in_a_row_go_where_the_specification_says(scoring: Scoring, cpus: list[int]) -> None:
    """More on each node than are thought of at a time, until nothing is left."""
    nodes: list[NodeGiven] = [(f"cpu={2 * cpu} memory={cpu + 5}Gi pods=90", True, 0, []) for cpu in cpus]
    world = World(nodes, scoring)
    kind, number = KINDS[0], 0
    while (best := world.node_finder.best(kind)) == (slow := world.slow_best(kind)) and slow is not None:
        world.put(Uid(str(number)), kind, slow.node, HOLDS[slow.capacity])
        number += 1
    assert isinstance(best, Diagnosis)
    assert number == sum(min(2 * cpu, cpu + 5, 90) for cpu in cpus)


@given(scorings, st.lists(st.integers(10, 90), min_size=10, max_size=14))
@examples(8)
def test_pods_in_a_row_go_where_they_would_go_one_by_one(scoring: Scoring, cpus: list[int]) -> None:
    """So many that more than once nodes have more places than were thought of at a time."""
    nodes: list[NodeGiven] = [(f"cpu={cpu} memory={100 - cpu}Gi", True, 0, []) for cpu in cpus]
    in_a_row, one_by_one = World(nodes, scoring), World(nodes, scoring)
    for number in range(300):
        best = in_a_row.node_finder.best(KINDS[0])
        one_by_one.node_finder.best(KINDS[1])  # somebody else comes between them
        assert one_by_one.node_finder.best(KINDS[0]) == best
        if isinstance(best, Choice):
            for world in (in_a_row, one_by_one):
                world.put(Uid(str(number)), KINDS[0], best.node, HOLDS[best.capacity])


@given(nodes_given, scorings, st.lists(st.sampled_from(KINDS), max_size=30))
def test_nobody_is_placed_above_allocatable(
    nodes: list[NodeGiven], scoring: Scoring, pods: list[Shape]
) -> None:
    world = World(nodes, scoring)
    within_allocatable = {one.name for one in world.slow if one.within_allocatable()}
    for number, kind in enumerate(pods):
        best = world.node_finder.best(kind)
        if isinstance(best, Choice):
            assert best.node in within_allocatable
            world.put(Uid(str(number)), kind, best.node, HOLDS[best.capacity])
    assert {one.name for one in world.slow if one.within_allocatable()} == within_allocatable


@given(nodes_given, scorings, st.sampled_from(KINDS))
def test_the_order_in_which_nodes_come_does_not_matter(
    nodes: list[NodeGiven], scoring: Scoring, kind: Shape
) -> None:
    assume(len(nodes) > 1)
    world = World(nodes, scoring)
    other = Cluster()
    for number in reversed(range(len(nodes))):
        hardware, _, _, pods = nodes[number]
        for pod, (resident, state) in enumerate(pods):
            other.add_pod(Uid(f"{number}/{pod}"), resident, f"n{number}", state)
        other.set_node(node(f"n{number} {hardware}"))
    again = NodeFinder(other, Bars(other, world.bars.filtered), scoring)
    assert again.best(kind) == world.node_finder.best(kind)
    assert list(again.nodes_by_score(kind)) == list(world.node_finder.nodes_by_score(kind))


@given(st.lists(st.tuples(happening, st.booleans()), max_size=30), scorings)
def test_a_ranking_that_followed_what_happened_is_as_one_made_anew(
    history: list[tuple[Happening, bool]], scoring: Scoring
) -> None:
    cluster = Cluster()
    constraints = ConstraintEngine(cluster, PredicateArguments())
    followed = NodeFinder(cluster, constraints, scoring)
    for what, asked in history:
        happen(cluster, what)
        if asked:
            followed.best(KINDS[0])
    anew = NodeFinder(cluster, constraints, scoring)
    for kind in KINDS:
        assert followed.best(kind) == anew.best(kind)
        assert list(followed.nodes_by_score(kind)) == list(anew.nodes_by_score(kind))
