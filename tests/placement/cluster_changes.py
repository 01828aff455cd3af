"""Random changes of a cluster: nodes are set and removed, pods are added, updated and removed."""

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
PodChange = tuple[Uid, Shape, str, AllocationState]
Change = Node | PodChange | str  # set the node, change the pod, or remove the node of that name
pod_changes: st.SearchStrategy[PodChange] = st.tuples(
    st.sampled_from(PODS),
    st.sampled_from(KINDS),
    st.sampled_from((*NAMES, "unknown")),
    st.sampled_from(AllocationState),
)
changes: st.SearchStrategy[Change] = st.sampled_from(NODES) | pod_changes | st.sampled_from(NAMES)
histories = st.lists(changes, max_size=25)
Undo = Callable[[], object]


def apply_change(cluster: Cluster, change: Change) -> None:
    match change:
        case tuple():
            change_pod(cluster, change)
        case str(name):
            if cluster.index(name) is not None:
                cluster.remove_node(name)
        case Node():
            cluster.set_node(change)


def change_pod(cluster: Cluster, change: PodChange) -> Undo:
    """Add the pod if it is absent, else remove or update it; return the undo of that."""
    pod, kind, name, state = change
    if cluster.allocation(pod) is None:
        cluster.add_pod(pod, kind, name, state)
        return lambda: cluster.remove_pod(pod)
    if kind is KINDS[0]:
        allocation = cluster.remove_pod(pod)
        return lambda: cluster.add_pod(pod, allocation.shape, allocation.node, allocation.state)
    before = cluster.update_pod(pod, state)
    return lambda: cluster.update_pod(pod, before)
