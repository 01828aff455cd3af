"""What can happen to a table of nodes, at random."""

from collections.abc import Callable

from hypothesis import strategies as st

from quorate.api.core.scheduling import Node
from quorate.api.meta import Uid
from quorate.placement.cluster import AllocationState, Cluster
from quorate.placement.shapes import Shape, Shapes
from tests.placement.builders import node, shape

NAMES = ("n1", "n2", "n3")
SHAPES = Shapes()
KINDS: tuple[Shape, ...] = tuple(shape(text, SHAPES) for text in ("cpu=1", "cpu=2 memory=1Gi", "gpu=1", ""))
NODES = tuple(
    node(f"{name} {amounts}", ready=ready)
    for name in NAMES
    for amounts in ("cpu=4 memory=8Gi", "cpu=2 gpu=2")
    for ready in (True, False)
)
PODS = tuple(Uid(str(number)) for number in range(4))
PodDoes = tuple[Uid, Shape, str, AllocationState]
Happening = Node | PodDoes | str  # a name: that node goes
nodes_come = st.sampled_from(NODES)
pods_do: st.SearchStrategy[PodDoes] = st.tuples(
    st.sampled_from(PODS),
    st.sampled_from(KINDS),
    st.sampled_from((*NAMES, "unknown")),
    st.sampled_from(AllocationState),
)
nodes_go = st.sampled_from(NAMES)
happening: st.SearchStrategy[Happening] = nodes_come | pods_do | nodes_go
happenings = st.lists(happening, max_size=25)
Undo = Callable[[], object]


def happen(cluster: Cluster, happening: Happening) -> None:
    match happening:
        case tuple():
            do(cluster, happening)
        case str(name):
            if cluster.index(name) is not None:
                cluster.remove_node(name)
        case Node():
            cluster.set_node(happening)


def do(cluster: Cluster, what: PodDoes) -> Undo:
    """Put the pod if it is nowhere, else take or move it; what undoes that."""
    pod, kind, name, state = what
    if cluster.allocation(pod) is None:
        cluster.add_pod(pod, kind, name, state)
        return lambda: cluster.remove_pod(pod)
    if kind is KINDS[0]:
        place = cluster.remove_pod(pod)
        return lambda: cluster.add_pod(pod, place.shape, place.node, place.state)
    before = cluster.update_pod(pod, state)
    return lambda: cluster.update_pod(pod, before)
