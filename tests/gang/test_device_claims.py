"""Gangs of pods that claim devices: all pods get their devices, or none is bound."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core.device_claims import DeviceClass, ResourceClaim, ResourceClaimStatus, ResourceSlice
from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.gang.cache.claims_to_bind import devices_to_allocate
from quorate.placement.filters.devices.allocation import DeviceAllocationStep, DeviceShortage
from quorate.placement.filters.devices.selectors import Selector, compiled
from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]
DRIVER: Final = "gpu.example.com"
TIERS: Final = [["priority", "gang"], ["overcommit", "proportion", "predicates", "nodeorder"]]
PROFILES: Final = ("design", "compat")


def a_slice(node: str, devices: Sequence[Json], **pool: Any) -> ResourceSlice:
    spec = {
        "driver": DRIVER,
        "pool": {"name": node or "fabric", "generation": 1, "resourceSliceCount": 1} | pool,
        **({"nodeName": node} if node else {"allNodes": True}),
        "devices": list(devices),
    }
    name = f"{node or 'fabric'}-{pool.get('generation', 1)}"
    return codec.convert(ResourceSlice, {"metadata": {"name": name}, "spec": spec})


def gpus(memories: Sequence[str], **attributes: Json) -> list[Json]:
    return [
        {
            "name": f"gpu-{at}",
            "capacity": {"memory": {"value": memory}},
            "attributes": {"at": {"int": at}} | attributes,
        }
        for at, memory in enumerate(memories)
    ]


def a_request(name: str = "gpu", count: int = 1, *selectors: str, **fields: Any) -> Json:
    exactly = {"deviceClassName": "gpu", "count": count, **fields}
    exactly["selectors"] = [{"cel": {"expression": text}} for text in selectors]
    return {"name": name, "exactly": exactly}


def a_claim(
    name: str, requests: Sequence[Json], *, owner: str = "", constraints: Sequence[Json] = ()
) -> ResourceClaim:
    metadata: Json = {"name": name, "namespace": "default", "uid": name}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"default/{owner}", "controller": True}
        ]
    devices = {"requests": list(requests), "constraints": list(constraints)}
    return codec.convert(ResourceClaim, {"metadata": metadata, "spec": {"devices": devices}})


class Devices:
    """A world of gangs and nodes with devices, in which binds allocate claims."""

    def __init__(
        self,
        profile: str,
        nodes: Mapping[str, Sequence[Json]],
        gangs: Mapping[str, int],
        actions: str = "enqueue, allocate, backfill",
        *,
        tiers: Sequence[Sequence[Any]] = TIERS,
        queues: Sequence[Json] = ({"name": "default"},),
        queue_of: Mapping[str, str] = MappingProxyType({}),
        phase: str = "Inqueue",
    ) -> None:
        groups = [
            {
                "name": name,
                "minMember": members,
                "created": at,
                "phase": phase,
                "priorityClassName": name,
                "queue": queue_of.get(name, "default"),
                "minResources": {"cpu": members},
            }
            for at, (name, members) in enumerate(gangs.items())
        ]
        classes = {name: at for at, name in enumerate(gangs)}
        given = {
            "nodes": [{"name": name, "cpu": 64} for name in nodes],
            "podGroups": groups,
            "priorityClasses": classes,
            "queues": queues,
        }
        settings = settings_of({"actions": actions, "tiers": tiers}, profile)
        self.world = World(given, settings, restarting=False)
        self.reasons: Mapping[Key, object] = {}
        self.classes = classes
        self.devices = self.world.model.devices
        expression = f"device.driver == '{DRIVER}'"
        body = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
        self.devices.set_class(codec.convert(DeviceClass, body))
        for name, devices in nodes.items():
            self.devices.set_slice(a_slice(name, devices))

    def add_pods(
        self, group: str, count: int, requests: Sequence[Json], constraints: Sequence[Json] = ()
    ) -> list[Key]:
        """Add pods, each with a claim of its own."""
        added = []
        for at in range(count):
            name = f"{group}-{at}-{len(self.world.pods)}"
            self.devices.set_claim(a_claim(f"{name}-g", requests, owner=name, constraints=constraints))
            self.world.put_pods([self.a_pod(group, name, {"name": "g", "resourceClaimTemplateName": "gpus"})])
            added.append(Key("default", name))
        return added

    def a_pod(self, group: str, name: str, claim: Json) -> Pod:
        body = {
            "metadata": {
                "name": name, "namespace": "default", "uid": f"default/{name}",
                "annotations": {"scheduling.k8s.io/group-name": group},
            },
            "spec": {
                "schedulerName": "volcano",
                "priorityClassName": group,
                "priority": self.classes[group],
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
                "resourceClaims": [claim],
            },
            "status": {
                "phase": "Pending",
                "resourceClaimStatuses": [{"name": "g", "resourceClaimName": f"{name}-g"}],
            },
        }  # fmt: skip
        return codec.convert(Pod, body)

    def session(self) -> dict[str, str]:
        """Run a session and allocate claims as binds do; return the node of each pod that was bound."""
        before = dict(self.world.binds)
        self.reasons = self.world.session().pending_reasons
        bound = {name: node for name, node in self.world.binds.items() if before.get(name) != node}
        for name, node in bound.items():
            for step in self.steps(name, node):
                body = {"allocation": step.allocation(self.devices.classes, node)}
                status = codec.convert(ResourceClaimStatus, body)
                self.devices.set_claim(msgspec.structs.replace(step.claim, status=status))
        return bound

    def steps(self, pod: str, node: str) -> tuple[DeviceAllocationStep, ...]:
        steps = devices_to_allocate(self.world.model, Key("default", pod), node)
        assert not isinstance(steps, DeviceShortage), f"{pod} was placed on {node} without devices: {steps}"
        return steps

    def in_use(self) -> Iterator[tuple[str, ...]]:
        for claim in self.devices.claims.values():
            if claim.status.allocation is not None:
                for each in claim.status.allocation.devices.results:
                    yield each.driver, each.pool, each.device

    def reason(self, group: str) -> str:
        return str(self.reasons.get(Key("default", group)))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_gang_is_bound_when_all_pods_get_devices(profile: str) -> None:
    devices = Devices(profile, {"a": gpus(["40Gi"] * 2), "b": gpus(["40Gi"] * 2)}, {"train": 4})
    devices.add_pods("train", 4, [a_request()])
    bound = devices.session()
    assert Counter(bound.values()) == {"a": 2, "b": 2}
    assert len(set(devices.in_use())) == 4


@pytest.mark.parametrize("profile", PROFILES)
def test_no_pod_of_a_gang_is_bound_while_one_has_no_device(profile: str) -> None:
    devices = Devices(profile, {"a": gpus(["40Gi"] * 2), "b": gpus(["40Gi"])}, {"train": 4})
    devices.add_pods("train", 4, [a_request()])
    assert devices.session() == {}
    assert "request gpu needs 1 of class gpu, 0 of 2 that match are free" in devices.reason("train")


@pytest.mark.parametrize("profile", PROFILES)
def test_devices_of_other_pods_are_not_given_again(profile: str) -> None:
    devices = Devices(profile, {"a": gpus(["40Gi"] * 4)}, {"first": 2, "second": 2, "third": 1})
    for gang, members in (("first", 2), ("second", 2)):
        devices.add_pods(gang, members, [a_request()])
        assert len(devices.session()) == members
    devices.add_pods("third", 1, [a_request()])
    assert len(set(devices.in_use())) == 4


ATTRIBUTES: Final = f"device.attributes['{DRIVER}']"
LARGE: Final = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0"
MANY_OR_FEW: Final = (
    {"name": "many", "deviceClassName": "gpu", "count": 5},
    {"name": "few", "deviceClassName": "gpu", "count": 2},
)
OTHER: Final = "device.attributes['other']"
# By what is requested of a node with one small and one large device: the requests, and whether they fit.
REQUESTS: Final[Mapping[str, tuple[Sequence[Json], bool]]] = {
    "more than a node has": ([a_request(count=3)], False),
    "two requests of two": ([a_request("one", 1), a_request("two", 1)], True),
    "a large one": ([a_request("gpu", 1, LARGE)], True),
    "two large ones": ([a_request("gpu", 2, LARGE)], False),
    "any and a large one, in this order": ([a_request("any"), a_request("large", 1, LARGE)], True),
    "one that no selector finds": ([a_request("gpu", 1, f"{ATTRIBUTES}.model == 'none'")], False),
    "all": ([a_request("gpu", allocationMode="All")], True),
    "all and one more": ([a_request("gpu", allocationMode="All"), a_request("more")], False),
    "all, for an administrator, and one more": (
        [a_request("gpu", allocationMode="All", adminAccess=True), a_request("more", 2)], True,
    ),
    "the second alternative": (
        [{"name": "gpu", "firstAvailable": MANY_OR_FEW}], True,
    ),
    "a class that does not exist": ([{"name": "gpu", "exactly": {"deviceClassName": "none"}}], False),
    "enough capacity": ([a_request("gpu", capacity={"requests": {"memory": "60Gi"}})], True),
    "more capacity than any has": ([a_request("gpu", capacity={"requests": {"memory": "81Gi"}})], False),
    "a loop": ([a_request("gpu", 1, "[1, 2].all(x, x > 0)")], False),
    "no expression": ([a_request("gpu", 1, "device.")], False),
    "an expression that fails": ([a_request("gpu", 1, f"{OTHER}.model == 'x'")], False),
    "an attribute that is asked for first": ([a_request("gpu", 1, f"!('model' in {OTHER})")], True),
    "a new version": ([a_request("gpu", 1, f"{ATTRIBUTES}.version.isGreaterThan(semver('1.9.0'))")], True),
    "a newer one": ([a_request("gpu", 1, f"{ATTRIBUTES}.version.isGreaterThan(semver('1.10.0'))")], False),
}  # fmt: skip


@pytest.mark.parametrize(("requests", "fits"), REQUESTS.values(), ids=REQUESTS)
def test_requests_of_one_claim_on_a_node_with_a_small_and_a_large_device(
    requests: Sequence[Json], fits: bool
) -> None:
    offered = gpus(["40Gi", "80Gi"], version={"version": "1.10.0"})
    devices = Devices("design", {"a": offered}, {"train": 1})
    devices.add_pods("train", 1, requests)
    assert bool(devices.session()) == fits, devices.reason("train")


@pytest.mark.parametrize(("attribute", "fits"), [(f"{DRIVER}/board", True), (f"{DRIVER}/at", False)])
def test_devices_have_one_value_of_an_attribute(attribute: str, fits: bool) -> None:
    board = {"string": "one"}
    devices = Devices("design", {"a": gpus(["1Gi"] * 3, board=board)}, {"train": 1})
    constraint = {"requests": ["gpu"], "matchAttribute": attribute}
    devices.add_pods("train", 1, [a_request("gpu", 2)], [constraint])
    assert bool(devices.session()) == fits


def test_a_slice_of_an_older_generation_or_of_an_incomplete_pool_does_not_count() -> None:
    devices = Devices("design", {"a": gpus(["1Gi"])}, {"train": 1})
    devices.devices.set_slice(a_slice("a", gpus(["1Gi"] * 4), generation=2, resourceSliceCount=2))
    devices.add_pods("train", 1, [a_request()])
    assert devices.session() == {}
    devices.devices.set_slice(a_slice("a", gpus(["1Gi"] * 4), generation=2))
    assert len(devices.session()) == 1


def test_a_tainted_device_needs_a_toleration() -> None:
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    devices = Devices("design", {"a": [{"name": "gpu", "taints": [taint]}]}, {"train": 1, "repair": 1})
    devices.add_pods("train", 1, [a_request()])
    devices.add_pods(
        "repair", 1, [a_request(tolerations=[{"key": "example.com/broken", "operator": "Exists"}])]
    )
    assert [name.partition("-")[0] for name in devices.session()] == ["repair"]


def test_devices_of_the_fabric_are_given_to_one_node() -> None:
    devices = Devices("design", {"a": (), "b": ()}, {"more": 1, "train": 2})
    devices.devices.set_slice(a_slice("", gpus(["1Gi"] * 2)))
    devices.add_pods("train", 2, [a_request()])
    devices.add_pods("more", 1, [a_request()])
    bound = devices.session()
    assert len(bound) == len(set(devices.in_use())) == 2


def test_pods_that_name_one_claim_are_bound_to_one_node() -> None:
    devices = Devices("design", {"a": gpus(["1Gi"]), "b": gpus(["1Gi"])}, {"train": 3})
    devices.devices.set_claim(a_claim("shared", [a_request()]))
    names = [f"train-{at}" for at in range(3)]
    devices.world.put_pods(
        devices.a_pod("train", name, {"name": "g", "resourceClaimName": "shared"}) for name in names
    )
    bound = devices.session()
    assert set(bound) == set(names)
    assert len(set(bound.values())) == 1
    assert len(list(devices.in_use())) == 1


def test_a_pod_waits_for_its_claim() -> None:
    devices = Devices("design", {"a": gpus(["1Gi"])}, {"train": 1})
    claim = {"name": "g", "resourceClaimTemplateName": "gpus"}
    devices.world.put_pods([devices.a_pod("train", "train-0", claim)])
    assert devices.session() == {}
    assert 'resourceclaim "train-0-g" not found' in devices.reason("train")
    devices.devices.set_claim(a_claim("train-0-g", [a_request()], owner="another"))
    assert devices.session() == {}
    assert 'resourceclaim "train-0-g" was not created for the pod' in devices.reason("train")
    devices.devices.set_claim(a_claim("train-0-g", [a_request()], owner="train-0"))
    assert devices.session() == {"train-0": "a"}


def test_pods_with_devices_are_preempted_and_others_are_spared() -> None:
    nodes, gangs = {"a": gpus(["1Gi"] * 2), "b": ()}, {"low": 2, "other": 1, "high": 2}
    devices = Devices("design", nodes, gangs, "enqueue, allocate, preempt, backfill")
    devices.add_pods("low", 2, [a_request()])
    devices.add_pods("other", 1, [])
    assert len(devices.session()) == 3
    devices.add_pods("high", 2, [a_request()])
    devices.session()
    assert sorted(name.partition("-")[0] for name in devices.world.evictions) == ["low", "low"]


def test_no_more_pods_are_preempted_while_the_claims_of_gone_pods_are_still_allocated() -> None:
    """The controller of claims gives devices back some time after their pods are gone."""
    nodes = {"a": gpus(["1Gi"] * 2), "b": gpus(["1Gi"] * 2)}
    devices = Devices("design", nodes, {"low": 1, "high": 1}, "enqueue, allocate, preempt, backfill")
    devices.add_pods("low", 4, [a_request()])
    assert len(devices.session()) == 4
    (high,) = devices.add_pods("high", 1, [a_request()])
    devices.session()
    (victim,) = devices.world.evictions
    assert devices.session() == {}
    devices.world.remove_pods([Key("default", victim)])
    for _ in range(3):
        assert devices.session() == {}
        assert [*devices.world.evictions] == [victim]
    devices.devices.remove_claim(Key("default", f"{victim}-g"))
    assert [*devices.session()] == [high.name]


COUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 4))


@given(
    changes=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=6),
    counts=COUNTS,
)
def test_slices_that_change_count_as_slices_that_were_always_so(
    changes: list[tuple[str, int]], counts: dict[str, int]
) -> None:
    changed = Devices("design", dict.fromkeys("abc", ()), {"train": 1})
    changed.add_pods("train", 1, [a_request("gpu", 3)])
    assert changed.session() == {}
    published = dict.fromkeys("abc", 0)
    for node, count in (*changes, *counts.items()):
        published[node] = count
        changed.devices.set_slice(a_slice(node, gpus(["1Gi"] * count)))
        if max(published.values()) < 3:
            assert changed.session() == {}
    always = Devices(
        "design", {node: gpus(["1Gi"] * count) for node, count in published.items()}, {"train": 1}
    )
    always.add_pods("train", 1, [a_request("gpu", 3)])
    assert changed.session() == always.session()
    assert changed.reason("train") == always.reason("train")


SELECTORS: Final = ((), (LARGE,), (f"{ATTRIBUTES}.at == 0",))
POD = st.tuples(st.integers(1, 2), st.sampled_from(SELECTORS))


@given(
    nodes=st.lists(st.lists(st.sampled_from(["40Gi", "80Gi"]), max_size=3), min_size=1, max_size=3),
    gangs=st.lists(st.lists(POD, min_size=1, max_size=3), min_size=1, max_size=3),
    profile=st.sampled_from(PROFILES),
)
def test_law_every_bound_pod_has_devices_of_its_own_and_gangs_are_whole(
    nodes: list[list[str]], gangs: list[list[tuple[int, tuple[str, ...]]]], profile: str
) -> None:
    members = {f"gang{at}": len(pods) for at, pods in enumerate(gangs)}
    offered = {f"node{at}": gpus(memories) for at, memories in enumerate(nodes)}
    devices = Devices(profile, offered, members)
    wanted = 0
    for at, pods in enumerate(gangs):
        for count, selectors in pods:
            devices.add_pods(f"gang{at}", 1, [a_request("gpu", count, *selectors)])
    for _ in range(2):
        devices.session()
    bound = Counter(name.partition("-")[0] for name in devices.world.binds)
    assert all(members[gang] == number for gang, number in bound.items())
    for claim in devices.devices.claims.values():
        if claim.status.allocation is not None:
            wanted += len(claim.status.allocation.devices.results)
    in_use = list(devices.in_use())
    assert len(in_use) == len(set(in_use)) == wanted


def test_new_demands_are_evaluated_in_steps_before_a_session() -> None:
    """The session then evaluates no selector; its decisions are those of a session that evaluates them."""
    nodes = {f"n{at}": gpus(["40Gi"] * (1 + at % 3)) for at in range(12)}
    outcomes = []
    for steps_before in (True, False):
        devices = Devices("design", nodes, {"train": 4, "other": 3})
        at_two = f"device.attributes['{DRIVER}'].at == 2"
        devices.add_pods("train", 4, [a_request("gpu", 1, at_two)])
        devices.add_pods("other", 3, [a_request(count=2)])
        selector = compiled(at_two)
        assert isinstance(selector, Selector)
        before = selector.evaluations
        if steps_before:
            devices.world.model.refresh_shapes()
            steps = sum(1 for _ in devices.world.model.constraints.evaluate_devices(5))
            assert steps >= 2 * 2 * (24 + 12) // (5 + 3), "two demands, now and in future, on 24 devices"
            assert selector.evaluations > before
            before = selector.evaluations
        outcomes.append(devices.session())
        if steps_before:
            assert selector.evaluations == before
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) == 7
