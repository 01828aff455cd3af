"""Partitions of devices: pods of gangs get no more of a device than its counters allow."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core.device_claims import ResourceSlice
from quorate.api.meta import Key
from tests.gang.test_device_claims import DRIVER, PROFILES, Devices, a_request

Json = dict[str, Any]
SIZES: Final = {"whole": 40, "half": 20, "quarter": 10}


def a_partitioned_slice(
    pool: str, total: int = 40, node: str = "", nodes: Sequence[str] = (), counter_set: str = "gpu"
) -> ResourceSlice:
    """Return the partitions of one device, which one node can use, or in turn one of ``nodes``, or all."""
    devices: list[Json] = []
    for size, memory in SIZES.items():
        for at in range(40 // memory):
            counters = {"memory": {"value": f"{memory}Gi"}}
            device: Json = {
                "name": f"{size}-{at}",
                "attributes": {"size": {"string": size}},
                "consumesCounters": [{"counterSet": "gpu", "counters": counters}],
            }
            if nodes:
                device["nodeName"] = nodes[at % len(nodes)]
            devices.append(device)
    where = {"nodeName": node} if node else {"perDeviceNodeSelection": True} if nodes else {"allNodes": True}
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "sharedCounters": [{"name": counter_set, "counters": {"memory": {"value": f"{total}Gi"}}}],
        "devices": devices,
        **where,
    }
    return codec.convert(ResourceSlice, {"metadata": {"name": pool}, "spec": spec})


def of_size(size: str, count: int = 1) -> Json:
    return a_request("gpu", count, f"device.attributes['{DRIVER}'].size == '{size}'")


def bound_pods(profile: str, slices: Sequence[ResourceSlice], nodes: str, sizes: str) -> str:
    """Return how many gangs of one pod with a partition of each size are bound."""
    named = [f"{size}{at}" for at, size in enumerate(sizes.split())]
    devices = Devices(profile, dict.fromkeys(nodes.split(), ()), dict.fromkeys(named, 1))
    for piece in slices:
        devices.devices.set_slice(piece)
    for name in named:
        devices.add_pods(name, 1, [of_size(name[:-1])])
    for _ in range(2):
        devices.session()
    bound = Counter(name.partition("-")[0][:-1] for name in devices.world.binds)
    return " ".join(f"{size}={bound[size]}" for size in SIZES if bound[size])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("slices", "nodes", "sizes", "want"),
    [
        pytest.param([a_partitioned_slice("p", node="a")], "a", "half half half", "half=2", id="two halves"),
        pytest.param([a_partitioned_slice("p", node="a")], "a", "whole whole", "whole=1", id="one whole"),
        pytest.param([a_partitioned_slice("p", total=30, node="a")], "a", "whole half half", "half=1",
                     id="less than the whole"),
        pytest.param([a_partitioned_slice("p", total=30, node="a")], "a", "quarter quarter quarter quarter",
                     "quarter=3", id="as many as there is left"),
        pytest.param([a_partitioned_slice("p", node="a", counter_set="other")], "a", "half", "",
                     id="counters that are not published"),
        pytest.param([a_partitioned_slice("p")], "a b", "half half half", "half=2",
                     id="a device of all nodes"),
        pytest.param([a_partitioned_slice("p", total=20, nodes=["a", "b"])], "a b", "half half", "half=1",
                     id="counters that devices of two nodes share"),
        pytest.param([a_partitioned_slice("p", node="a"), a_partitioned_slice("q", node="b")], "a b",
                     "half whole whole", "whole=2", id="each pool has its own counters"),
    ],
)  # fmt: skip
def test_pods_get_partitions_within_the_counters(
    slices: Sequence[ResourceSlice], nodes: str, sizes: str, want: str, profile: str
) -> None:
    assert bound_pods(profile, slices, nodes, sizes) == want


@pytest.mark.parametrize(("count", "total", "fits"), [(2, 40, True), (2, 30, False), (3, 40, False)])
def test_the_partitions_of_one_claim_fit_together(count: int, total: int, fits: bool) -> None:
    devices = Devices("design", {"a": ()}, {"train": 1})
    devices.devices.set_slice(a_partitioned_slice("p", total, node="a"))
    devices.add_pods("train", 1, [of_size("half", count)])
    assert bool(devices.session()) is fits


def test_counters_of_a_claim_that_ends_are_free_again() -> None:
    devices = Devices("design", {"a": ()}, {"first": 1, "second": 1})
    devices.devices.set_slice(a_partitioned_slice("p", node="a"))
    (first,) = devices.add_pods("first", 1, [of_size("half")])
    assert devices.session() == {first.name: "a"}
    (second,) = devices.add_pods("second", 1, [of_size("whole")])
    assert devices.session() == {}
    devices.world.remove_pods([first])
    devices.devices.remove_claim(Key("default", f"{first.name}-g"))
    assert devices.session() == {second.name: "a"}


@given(
    pools=st.lists(
        st.tuples(st.sampled_from([30, 40]), st.sampled_from(["a", "b", ""])), min_size=1, max_size=3
    ),
    gangs=st.lists(st.lists(st.sampled_from(sorted(SIZES)), min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_law_devices_in_use_consume_no_more_than_their_counters(
    pools: list[tuple[int, str]], gangs: list[list[str]]
) -> None:
    members = {f"gang{at}": len(sizes) for at, sizes in enumerate(gangs)}
    devices = Devices("design", {"a": (), "b": ()}, members)
    for at, (total, node) in enumerate(pools):
        devices.devices.set_slice(a_partitioned_slice(f"p{at}", total, node))
    for at, sizes in enumerate(gangs):
        for size in sizes:
            devices.add_pods(f"gang{at}", 1, [of_size(size)])
    for _ in range(2):
        devices.session()
    consumed: Counter[str] = Counter()
    for _, pool, device in devices.in_use():
        consumed[pool] += SIZES[device.partition("-")[0]]
    assert all(consumed[f"p{at}"] <= total for at, (total, _) in enumerate(pools))
    bound = Counter(name.partition("-")[0] for name in devices.world.binds)
    assert all(members[gang] == number for gang, number in bound.items())
    assert len(list(devices.in_use())) == sum(bound.values())
