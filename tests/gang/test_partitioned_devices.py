"""Partitions and shares of devices: pods of gangs get no more of a device than it has."""

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


def a_shared_slice(pool: str, memory: str, node: str = "a", **policy: Any) -> ResourceSlice:
    """Return a device of which several claims may take ``memory``."""
    capacity = {
        "memory": {"value": memory, "requestPolicy": policy},
        "ports": {"value": "4", "requestPolicy": {"default": "0"}},
    }
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "nodeName": node,
        "devices": [{"name": "gpu", "allowMultipleAllocations": True, "capacity": capacity}],
    }
    return codec.convert(ResourceSlice, {"metadata": {"name": pool}, "spec": spec})


def of_memory(memory: str) -> Json:
    return a_request("gpu", 1, capacity={"requests": {"memory": memory}} if memory else {})


@pytest.mark.parametrize(
    ("policy", "memories", "want"),
    [
        pytest.param({}, ["20Gi"] * 5, 4, id="as many shares as fit"),
        pytest.param({}, [""] * 2, 1, id="a claim without a request takes all"),
        pytest.param({"default": "30Gi"}, [""] * 3, 2, id="a default"),
        pytest.param({"validRange": {"min": "30Gi"}}, ["10Gi"] * 3, 2, id="shares are rounded up"),
        pytest.param({}, ["81Gi"], 0, id="more than the device has"),
        pytest.param({"validValues": ["10Gi"]}, ["20Gi"], 0, id="more than is valid"),
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_pods_share_a_device_within_its_capacity(
    profile: str, policy: Json, memories: list[str], want: int
) -> None:
    devices = Devices(profile, {"a": ()}, {f"gang{at}": 1 for at in range(len(memories))})
    devices.devices.set_slice(a_shared_slice("p", "80Gi", **policy))
    for at, memory in enumerate(memories):
        devices.add_pods(f"gang{at}", 1, [of_memory(memory)])
    for _ in range(2):
        devices.session()
    assert len(devices.world.binds) == want


def test_the_shares_of_a_device_are_told_apart_and_free_after_their_claims() -> None:
    devices = Devices("design", {"a": ()}, {"train": 2, "more": 1})
    devices.devices.set_slice(a_shared_slice("p", "80Gi"))
    two = [a_request(name, 1, capacity={"requests": {"memory": "20Gi"}}) for name in ("x", "y")]
    pods = devices.add_pods("train", 2, two)
    assert len(devices.session()) == 2
    results = [
        result
        for claim in devices.devices.claims.values()
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    ]
    taken = [{name: str(amount) for name, amount in result.consumed_capacity.items()} for result in results]
    assert taken == [{"memory": "20Gi", "ports": "0"}] * 4
    assert len({result.share_id for result in results}) == 4
    (more,) = devices.add_pods("more", 1, [of_memory("10Gi")])
    assert devices.session() == {}
    devices.world.remove_pods(pods[:1])
    devices.devices.remove_claim(Key("default", f"{pods[0].name}-g"))
    assert devices.session() == {more.name: "a"}


def test_pods_are_preempted_for_a_share_and_no_more_until_their_claims_are_given_back() -> None:
    gangs = {"low": 1, "other": 1, "high": 1}
    devices = Devices("design", {"a": ()}, gangs, "enqueue, allocate, preempt, backfill")
    devices.devices.set_slice(a_shared_slice("p", "80Gi"))
    (low,) = devices.add_pods("low", 1, [of_memory("50Gi")])
    devices.add_pods("other", 1, [of_memory("10Gi")])
    assert len(devices.session()) == 2
    (high,) = devices.add_pods("high", 1, [of_memory("60Gi")])
    assert devices.session() == {}
    assert [*devices.world.evictions] == [low.name], "the other share is too small to help"
    for gone in ([], [low]):
        devices.world.remove_pods(gone)
        assert devices.session() == {}, "the share is taken until its claim is given back"
        assert [*devices.world.evictions] == [low.name]
    devices.devices.remove_claim(Key("default", f"{low.name}-g"))
    assert devices.session() == {high.name: "a"}


@given(
    capacities=st.lists(st.integers(1, 80), min_size=1, max_size=2),
    gangs=st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_law_shares_of_a_device_take_no_more_than_its_capacity(
    capacities: list[int], gangs: list[list[int]]
) -> None:
    members = {f"gang{at}": len(sizes) for at, sizes in enumerate(gangs)}
    devices = Devices("design", {"a": (), "b": ()}, members)
    for at, memory in enumerate(capacities):
        devices.devices.set_slice(a_shared_slice(f"p{at}", f"{memory}Gi", "ab"[at]))
    for at, sizes in enumerate(gangs):
        for size in sizes:
            devices.add_pods(f"gang{at}", 1, [of_memory(f"{size}Gi")])
    for _ in range(2):
        devices.session()
    taken: Counter[str] = Counter()
    for claim in devices.devices.claims.values():
        if claim.status.allocation is not None:
            for result in claim.status.allocation.devices.results:
                taken[result.pool] += result.consumed_capacity["memory"].units >> 30
    assert all(taken[f"p{at}"] <= memory for at, memory in enumerate(capacities))
    bound = Counter(name.partition("-")[0] for name in devices.world.binds)
    assert all(members[gang] == number for gang, number in bound.items())
