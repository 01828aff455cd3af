"""Random changes of a cluster: of its nodes and pods, and of places that are held."""

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

from quorate.api.core.scheduling import Node
from quorate.api.meta import Uid
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState, HeldPlace
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
PLACES = tuple(f"place {number}" for number in range(3))
OWNERS = ("first", "second", None)
PodChange = tuple[Uid, Shape, str, AllocationState]


class Hold(NamedTuple):
    place: str
    kind: Shape
    node: str
    pods: int
    owner: str | None


Change = Node | PodChange | Hold | str  # set the node, change the pod or place, or remove the node of a name
pod_changes: st.SearchStrategy[PodChange] = st.tuples(
    st.sampled_from(PODS),
    st.sampled_from(KINDS),
    st.sampled_from((*NAMES, "unknown")),
    st.sampled_from(AllocationState),
)
holds = st.builds(
    Hold,
    st.sampled_from(PLACES),
    st.sampled_from(KINDS),
    st.sampled_from((*NAMES, "unknown")),
    st.integers(0, 3),
    st.sampled_from(OWNERS),
)
changes: st.SearchStrategy[Change] = st.sampled_from(NODES) | pod_changes | holds | st.sampled_from(NAMES)
histories = st.lists(changes, max_size=25)
Undo = Callable[[], object]


def apply_change(cluster: Cluster, change: Change) -> None:
    match change:
        case Hold():
            hold(cluster, change)
        case tuple():
            change_pod(cluster, change)
        case str(name):
            if cluster.index(name) is not None:
                cluster.remove_node(name)
        case Node():
            cluster.set_node(change)


def hold(cluster: Cluster, change: Hold) -> Undo:
    """Hold a place; return the undo of that."""
    before = cluster.occupants.get(change.place)
    if not isinstance(before, HeldPlace):
        cluster.hold(*change)
        return lambda: cluster.release(change.place)
    known = (before.shape, before.node, before.pods, before.owner)
    cluster.hold(*change)
    return lambda: cluster.hold(change.place, *known)


def change_pod(cluster: Cluster, change: PodChange) -> Undo:
    """Add the pod if it is absent, else remove or update it; return the undo of that."""
    pod, kind, name, state = change
    if cluster.occupants.get(pod) is None:
        cluster.add_pod(pod, kind, name, state)
        return lambda: cluster.remove_pod(pod)
    if kind is KINDS[0]:
        allocation = cluster.remove_pod(pod)
        return lambda: cluster.add_pod(pod, allocation.shape, allocation.node, allocation.state)
    before = cluster.update_pod(pod, state)
    return lambda: cluster.update_pod(pod, before)
