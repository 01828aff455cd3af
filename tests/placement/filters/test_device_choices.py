"""What is chosen for a placed pod stays its own while evictions of the pods are tried and undone."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core.device_claims import DeviceClass, ResourceSlice
from quorate.api.meta import Uid
from quorate.placement.claim_requirements import ClaimDemand, DeviceDemand, Wanted
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.filters.devices.allocation import DeviceShortage
from quorate.placement.shapes import Shape
from tests.placement.filters.world import World, pod

DEVICES = 6


def a_world() -> World:
    """Return a node with devices that are equal."""
    world = World("a")
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{at}"} for at in range(DEVICES)]
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "a", "devices": devices}
    world.engine.devices.set_slice(codec.convert(ResourceSlice, {"metadata": {"name": "a"}, "spec": spec}))
    world.engine.devices.set_class(codec.convert(DeviceClass, {"metadata": {"name": "gpu"}}))
    return world


def a_shape(world: World, name: str, devices: int) -> Shape:
    """Return the shape of a pod with a claim of its own: no other pod has its demand."""
    wanted = Wanted(name, "gpu", (), devices, (), admin_access=False, capacity=())
    demand = DeviceDemand(claims=(ClaimDemand("", ((wanted,),), ()),))
    return world.shapes.of(pod(name), devices=demand)


@given(
    sizes=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    trial=st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.booleans()), min_size=1, max_size=5),
    undone=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_a_trial_that_is_undone_changes_no_choice(
    sizes: list[int], trial: list[tuple[bool, int, bool]], undone: list[bool]
) -> None:
    """A step evicts a placed pod, or places another pod; the index may read the cluster after any step."""
    world = a_world()
    cluster, engine = world.cluster, world.engine
    shapes = [a_shape(world, f"pod-{at}", size) for at, size in enumerate(sizes)]
    for at, shape in enumerate(shapes):
        cluster.add_pod(Uid(f"pod-{at}"), shape, "a", AllocationState.USED)
    before = [engine.chosen_devices("a", shape) for shape in shapes]
    evicted: list[int] = []
    others: list[str] = []
    for evicts, number, reads in trial:
        if evicts and number < len(sizes) and number not in evicted:
            cluster.update_pod(Uid(f"pod-{number}"), AllocationState.RELEASING)
            evicted.append(number)
        else:
            name = f"other-{len(others)}"
            state = AllocationState.PIPELINED if evicted else AllocationState.USED
            cluster.add_pod(Uid(name), a_shape(world, name, number + 1), "a", state)
            others.append(name)
        if reads:
            engine.refresh()
    for name, reads in zip(reversed(others), undone, strict=False):
        cluster.remove_pod(Uid(name))
        if reads:
            engine.refresh()
    for number, reads in zip(reversed(evicted), reversed(undone), strict=False):
        cluster.update_pod(Uid(f"pod-{number}"), AllocationState.USED)
        if reads:
            engine.refresh()
    assert [engine.chosen_devices("a", shape) for shape in shapes] == before


@given(equal=st.integers(1, 3), more=st.integers(1, 3), reads=st.booleans())
def test_pods_that_stay_keep_the_devices_that_are_free(equal: int, more: int, reads: bool) -> None:
    """Equal pods are placed on free devices, and further ones, which are removed again, on those of a pod."""
    world = a_world()
    cluster, engine = world.cluster, world.engine
    cluster.add_pod(Uid("old"), a_shape(world, "old", DEVICES - equal), "a", AllocationState.RELEASING)
    shape = a_shape(world, "equal", 1)
    for at in range(equal + more):
        state = AllocationState.USED if at < equal else AllocationState.PIPELINED
        cluster.add_pod(Uid(f"pod-{at}"), shape, "a", state)
        if reads:
            engine.refresh()
    for at in range(equal, equal + more):
        cluster.remove_pod(Uid(f"pod-{at}"))
        if reads:
            engine.refresh()
    another = engine.chosen_devices("a", a_shape(world, "another", 1))
    assert isinstance(another, DeviceShortage), "the pods have all that is free"
