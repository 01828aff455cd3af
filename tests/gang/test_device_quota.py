"""Queues limit, deserve and guarantee what the claims of pods take of device classes (plugin capacity)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from quorate.api.meta import Key
from quorate.gang.reports import allocated_by_queue
from tests.gang.test_device_claims import Devices, a_claim, a_request, gpus

Json = dict[str, Any]

COUNT: Final = "deviceclass/gpu"
MEMORY: Final = "memory.deviceclass/gpu"
FLAT: Final = [["priority", "gang"], ["capacity", "predicates", "nodeorder"]]
TREE: Final[list[list[Any]]] = [
    ["priority", "gang"],
    [{"name": "capacity", "switches": {"enableHierarchy": True}}, "predicates", "nodeorder"],
]
PROFILES: Final = ("design", "compat")


def cluster(
    queues: Sequence[Json],
    gangs: Mapping[str, str],
    *,
    members: int = 1,
    profile: str = "design",
    **options: Any,
) -> Devices:
    """Return a cluster with eight devices on two nodes; ``gangs``: the queue of each."""
    nodes = {"a": gpus(["40Gi"] * 4), "b": gpus(["40Gi"] * 4)}
    given = {"tiers": FLAT, **options}
    return Devices(profile, nodes, dict.fromkeys(gangs, members), queues=queues, queue_of=gangs, **given)


def memory(amount: str, count: int = 1) -> Json:
    return a_request(count=count, capacity={"requests": {"memory": amount}})


# By name: the capability, the request of each of two pods of a gang, and how many gangs of three start.
LIMITS: Final[Mapping[str, tuple[Json, Json, int]]] = {
    "a number": ({COUNT: 4}, a_request(), 2),
    "less than one gang takes": ({COUNT: 1}, a_request(), 0),
    "no devices": ({COUNT: 0}, a_request(), 0),
    "several for each pod": ({COUNT: 4}, a_request(count=2), 1),
    "another class": ({"deviceclass/other": 1}, a_request(), 3),
    "a capacity": ({MEMORY: "40Gi"}, memory("10Gi"), 2),
    "a capacity of several devices": ({MEMORY: "40Gi"}, memory("10Gi", 2), 1),
    "a capacity that no claim requests": ({MEMORY: "1Gi"}, a_request(), 3),
    "a number beside a capacity": ({COUNT: 2, MEMORY: "1000Gi"}, memory("10Gi"), 1),
}


@pytest.mark.parametrize(("capability", "request_", "starting"), LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("tiers", [FLAT, TREE], ids=["flat", "tree"])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_queue_limits_what_the_claims_of_its_gangs_take(
    profile: str, tiers: Any, capability: Json, request_: Json, starting: int
) -> None:
    gangs = dict.fromkeys(("one", "two", "three"), "team")
    queues = [{"name": "team", "capability": capability}]
    devices = cluster(queues, gangs, members=2, profile=profile, tiers=tiers)
    for gang in gangs:
        devices.add_pods(gang, 2, [request_])
    assert len({name.partition("-")[0] for name in devices.session()}) == starting
    assert not devices.session()


@pytest.mark.parametrize(
    ("argument", "request_"),
    [
        ("capacity.DynamicResourceAllocationEnable", a_request()),
        ("capacity.DRAConsumableCapacityEnable", memory("10Gi")),
    ],
)
def test_an_argument_turns_the_limits_off(argument: str, request_: Json) -> None:
    plugin = {"name": "capacity", "arguments": {argument: "false"}}
    tiers = [["priority", "gang"], [plugin, "predicates", "nodeorder"]]
    queues = [{"name": "team", "capability": {MEMORY if "Capacity" in argument else COUNT: 1}}]
    devices = cluster(queues, {"one": "team"}, members=2, tiers=tiers)
    devices.add_pods("one", 2, [request_])
    assert len(devices.session()) == 2


def test_requests_for_all_devices_and_alternatives_do_not_count() -> None:
    gangs = {"all": "team", "either": "team"}
    devices = cluster([{"name": "team", "capability": {COUNT: 1}}], gangs)
    devices.add_pods("all", 1, [a_request(allocationMode="All")])
    alternatives = [{"name": name, "deviceClassName": "gpu", "count": 2} for name in ("one", "other")]
    devices.add_pods("either", 1, [{"name": "gpu", "firstAvailable": alternatives}])
    assert len(devices.session()) == 2


@pytest.mark.parametrize("profile", PROFILES)
def test_a_claim_of_several_pods_counts_once_in_each_queue(profile: str) -> None:
    gangs = dict.fromkeys(("one", "other", "third"), "team")
    devices = cluster([{"name": "team", "capability": {COUNT: 3}}], gangs, members=2, profile=profile)
    devices.devices.set_claim(a_claim("shared", [a_request(count=2)]))
    for gang in ("one", "other"):
        pods = (
            devices.a_pod(gang, f"{gang}-{at}", {"name": "s", "resourceClaimName": "shared"}) for at in "01"
        )
        devices.world.put_pods(pods)
    devices.session()
    devices.add_pods("third", 2, [a_request()])
    devices.session()
    assert {name[:3] for name in devices.world.binds} == {"one", "oth"}
    assert allocated_by_queue(devices.world.model)["team"][COUNT] == 2
    devices.world.remove_pods([Key("default", "one-0"), Key("default", "one-1"), Key("default", "other-0")])
    assert allocated_by_queue(devices.world.model)["team"][COUNT] == 2
    devices.world.remove_pods([Key("default", "other-1")])
    assert COUNT not in allocated_by_queue(devices.world.model)["team"]
    devices.world.do("advance", 3600)
    assert len(devices.session()) == 2


def test_a_queue_limits_the_queues_below_it() -> None:
    queues: list[Json] = [
        {"name": "all", "capability": {COUNT: 3}},
        {"name": "left", "parent": "all"},
        {"name": "right", "parent": "all", "capability": {COUNT: 8}},
    ]
    devices = cluster(queues, {"one": "left", "two": "right"}, members=2, tiers=TREE)
    for gang in ("one", "two"):
        devices.add_pods(gang, 2, [a_request()])
    assert len(devices.session()) == 2
    (waiting,) = (gang for gang in ("one", "two") if devices.reason(gang) != "None")
    assert "queue all" in devices.reason(waiting), devices.reason(waiting)
    assert allocated_by_queue(devices.world.model)["all"][COUNT] == 2


def test_a_gang_says_which_amount_its_queue_lacks() -> None:
    devices = cluster([{"name": "team", "capability": {COUNT: 3}}], {"one": "team"}, members=2)
    devices.add_pods("one", 2, [a_request(count=2)])
    assert not devices.session()
    assert f"{COUNT}: need 4, have 3 now and 3 at most, so it can never fit" in devices.reason("one")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_group_with_pods_beyond_the_limit_stays_pending(profile: str) -> None:
    gangs = {"one": "team", "two": "team"}
    queues = [{"name": "team", "capability": {COUNT: 3}}]
    devices = cluster(queues, gangs, members=2, profile=profile, phase="Pending")
    for gang in gangs:
        devices.add_pods(gang, 3, [a_request()])
    devices.session()
    assert sorted(devices.world.phase(gang) for gang in gangs) == ["Inqueue", "Pending"]
    assert any(f"{COUNT}: need 2, have 1 now" in devices.reason(gang) for gang in gangs), devices.reasons


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("guarantee", "evicted"), [(0, 2), (3, 1), (4, 0)])
def test_a_queue_reclaims_the_devices_that_it_deserves_except_guaranteed_ones(
    profile: str, guarantee: int, evicted: int
) -> None:
    queues = [
        {"name": "borrower", "deserved": {COUNT: 2}, "guarantee": {COUNT: guarantee}},
        {"name": "owner", "deserved": {COUNT: 6}},
    ]
    gangs = {f"low{at}": "borrower" for at in range(8)} | {f"high{at}": "owner" for at in range(2)}
    devices = cluster(queues, gangs, profile=profile, actions="enqueue, allocate, backfill, reclaim")
    devices.devices.remove_slice("b-1")
    for gang in [*gangs][:4]:
        devices.add_pods(gang, 1, [a_request()])
    devices.world.do("start", [*devices.session()])
    for gang in ("high0", "high1"):
        devices.add_pods(gang, 1, [a_request()])
    for _ in range(3):
        devices.session()
        devices.world.do("reap", None)
        for victim in devices.world.evictions:
            devices.devices.remove_claim(Key("default", f"{victim}-g"))
    assert len(devices.world.evictions) == evicted
