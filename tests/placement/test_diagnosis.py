"""Refusals and diagnoses equal those of a recount of every node, whatever changed since they were kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement import diagnosis as diagnosis_module
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.nodes import is_ready
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.diagnosis import Diagnosis, FilteredNodes, InsufficientResource
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.node_finder import Choice, NodeFinder
from quorate.placement.scoring import Scoring
from quorate.placement.shapes import Shape, Shapes
from tests.placement.builders import node, shape
from tests.placement.cluster_changes import KINDS, SHAPES, Change, apply_change, changes
from tests.placement.fixed_constraints import FixedConstraints

WANTED = (
    *KINDS,
    *(shape(text, SHAPES) for text in ("cpu=3", "cpu=5 memory=9Gi", "gpu=3 cpu=1", "tpu=1", "memory=8Gi")),
)
NOT_READY = "node(s) were not ready"


def recount(cluster: Cluster, wanted: Shape) -> Diagnosis:
    """Return the diagnosis by the definitions of its fields, one node at a time."""
    request = {name: amount for name, amount in sorted(wanted.amounts.items()) if amount}
    nodes = sorted((node for node in cluster.nodes if node is not None), key=lambda one: one.metadata.name)
    passing = [one.metadata.name for one in nodes if is_ready(one)]

    def amount(matrix: str, name: str, resource: str) -> int:
        index = cluster.index(name)
        assert index is not None
        return int(getattr(cluster, matrix)[cluster.row(resource), index])

    def shortfall(name: str, resource: str) -> int:
        there = amount("allocatable", name, resource) - amount("used", name, resource)
        there += amount("releasing", name, resource) - amount("pipelined", name, resource)
        return min(request[resource], max(0, request[resource] - there))

    def is_overcommitted(name: str, resource: str) -> bool:
        staying = amount("used", name, resource) - amount("releasing", name, resource)
        return staying + amount("pipelined", name, resource) > amount("allocatable", name, resource)

    insufficient = [
        InsufficientResource(
            resource,
            nodes=len(short),
            need=need,
            at_most=max(amount("allocatable", name, resource) for name in passing),
            overcommitted=sum(is_overcommitted(name, resource) for name in passing),
        )
        for resource, need in request.items()
        if (short := [name for name in passing if shortfall(name, resource)])
    ]
    filtered = len(nodes) - len(passing)
    return Diagnosis(
        nodes=len(nodes),
        filtered=(FilteredNodes(NOT_READY, filtered),) if filtered else (),
        insufficient=tuple(sorted(insufficient, key=lambda one: (-one.nodes, one.resource))),
        feasible_when_empty=sum(
            all(amount("allocatable", one.metadata.name, each) >= need for each, need in request.items())
            for one in nodes
        ),
    )


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@given(st.lists(st.tuples(changes, st.sets(st.sampled_from(WANTED))), max_size=25))
def test_kept_refusals_equal_a_recount(history: list[tuple[Change, set[Shape]]]) -> None:
    cluster = Cluster()
    constraints, scoring = ConstraintEngine(cluster, PredicateArguments()), Scoring(None, None)
    keeping = NodeFinder(cluster, constraints, scoring)
    for change, queried in history:
        apply_change(cluster, change)
        for kind in sorted(queried, key=WANTED.index):
            best = keeping.best(kind)
            assert keeping.diagnose(kind) == recount(cluster, kind)
            if isinstance(best, Diagnosis):
                assert best == recount(cluster, kind)
            fits = NodeFinder(cluster, constraints, scoring).ranking(kind).best() is not None
            assert isinstance(best, Choice) == fits


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@given(
    nodes=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=20, max_size=30),
    pods=st.lists(st.tuples(st.integers(0, 19), st.sampled_from(AllocationState)), max_size=8),
)
def test_nodes_that_change_groups_are_counted_where_they_are(
    nodes: list[tuple[int, int]], pods: list[tuple[int, AllocationState]]
) -> None:
    """There are so many nodes that the groups are updated, and not formed anew."""
    cluster = Cluster()
    for number, (cpu, gpu) in enumerate(nodes):
        cluster.set_node(node(f"n{number:02} cpu={cpu} gpu={gpu} memory=1Gi"))
    found = NodeFinder(cluster, ConstraintEngine(cluster, PredicateArguments()), Scoring(None, None))
    wanted = [shape(text, SHAPES) for text in ("cpu=3", "cpu=1 gpu=2", "tpu=1")]
    for pod, (number, state) in enumerate(pods):
        cluster.add_pod(Uid(str(pod)), shape("cpu=1", SHAPES), f"n{number:02}", state)
        for kind in wanted:
            assert found.diagnose(kind) == recount(cluster, kind)


def test_a_refusal_is_computed_once_until_a_node_has_other_amounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand shapes are compared with each group of nodes, and nothing is ranked for them."""
    computed: list[Shape] = []
    compare = diagnosis_module._refusal

    def counting(*arguments: object) -> object:
        computed.append(arguments[1])  # type: ignore[arg-type]
        return compare(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(diagnosis_module, "_refusal", counting)
    cluster = Cluster()
    for number in range(50):
        cluster.set_node(node(f"n{number} cpu=4"))
    found, kinds = NodeFinder(cluster, FixedConstraints(cluster), Scoring(None, None)), Shapes()
    wanted = [shape(f"cpu={5 + number}", kinds) for number in range(1_000)]

    def refuse_all() -> int:
        before = len(computed)
        assert all(isinstance(found.best(kind), Diagnosis) for kind in wanted)
        return len(computed) - before

    assert refuse_all() == 1_000
    assert refuse_all() == 0
    cluster.add_pod(Uid("a"), shape("cpu=1", kinds), "n7", AllocationState.USED)
    cluster.remove_pod(Uid("a"))
    assert refuse_all() == 0
    cluster.add_pod(Uid("a"), shape("cpu=1", kinds), "n7", AllocationState.USED)
    assert refuse_all() == 1_000
    cluster.set_node(node("n7 cpu=2000"))
    assert isinstance(found.best(wanted[-1]), Choice)
    assert not found._rankings.keys() & set(wanted[:-1])
