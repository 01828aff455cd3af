"""Limits of volumes per driver and node."""

from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.volumes import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from quorate.api.meta import Key, ObjectMeta
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.failures import TOO_MANY_VOLUMES
from quorate.placement.framework import Capacity, InvalidationScope
from tests.placement.filters.world import World, node, pod

DRIVER = "disks.example.com"


def disks(name: str, count: int | None, driver: str = DRIVER) -> CSINode:
    drivers = [{"name": driver, "nodeID": name, "allocatable": {} if count is None else {"count": count}}]
    return codec.convert(CSINode, {"metadata": {"name": name}, "spec": {"drivers": drivers}})


def world(limit: int | None = 2) -> World:
    """Build claims c1 to c5 bound to disks, of which a node takes ``limit``, and an unbound claim."""
    world = World("n", "other")
    for number in range(1, 6):
        content: dict[str, Any] = {
            "metadata": {
                "name": f"c{number}",
                "namespace": "default",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {"volumeName": f"v{number}"},
        }
        world.storage.set_claim(codec.convert(PersistentVolumeClaim, content))
        spec = {"csi": {"driver": DRIVER, "volumeHandle": f"disk-{number}"}}
        disk = {"metadata": {"name": f"v{number}"}, "spec": spec}
        world.storage.set_volume(codec.convert(PersistentVolume, disk))
    unbound = {"metadata": {"name": "unbound", "namespace": "default"}, "spec": {"storageClassName": "slow"}}
    world.storage.set_claim(codec.convert(PersistentVolumeClaim, unbound))
    slow = {"metadata": {"name": "slow"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    world.storage.set_class(codec.convert(StorageClass, slow))
    world.engine.set_drivers(disks("n", limit))
    return world


def using(name: str, *claims: str) -> Pod:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return pod(name, volumes=volumes)


@pytest.mark.parametrize(
    ("attached", "wanted", "fits"),
    [
        pytest.param(["c1"], ["c2"], True, id="up to the limit"),
        pytest.param(["c1", "c2"], ["c3"], False, id="beyond the limit"),
        pytest.param(["c1", "c2"], ["c2"], True, id="a volume that is attached already counts once"),
        pytest.param(["c1", "c2"], ["c2", "c3"], False, id="an attached volume and another one"),
        pytest.param(["c1", "c2"], [], True, id="a pod without volumes"),
        pytest.param([], ["c1", "c2", "c3"], False, id="one pod beyond the limit"),
        pytest.param(["c1", "c2"], ["unbound"], False, id="a future volume counts"),
        pytest.param(["c1"], ["unbound"], True, id="a future volume up to the limit"),
    ],
)
def test_a_node_takes_volumes_up_to_its_limit(attached: list[str], wanted: list[str], fits: bool) -> None:
    full = world()
    for claim in attached:
        full.put(using(f"with-{claim}", claim), "n")
    assert full.failures(using("p", *wanted)) == ({} if fits else {"n": TOO_MANY_VOLUMES})


def test_attached_volumes_are_not_added_again() -> None:
    full = world(limit=3)
    for claim in ("c1", "c2"):
        full.put(using(f"with-{claim}", claim), "n")
    assert full.passing(using("p", "c2", "c3")) == "n other"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, id="its claim is being deleted"),
        pytest.param({"name": "c9"}, id="another claim of the pod does not exist"),
    ],
)
def test_the_volumes_of_a_running_pod_count_whatever_becomes_of_its_claims(change: dict[str, str]) -> None:
    full = world(limit=1)
    first = full.storage.claims[Key("default", "c1")]
    metadata = codec.convert(ObjectMeta, {**codec.convert(dict[str, Any], first.metadata), **change})
    full.storage.set_claim(replace(first, metadata=metadata))
    full.storage.remove_claim(Key("default", "c2"))
    full.put(using("one", "c1", "c2"), "n")
    assert full.passing(using("p", "c3")) == "other"


def test_a_volume_is_attached_as_long_as_any_pod_uses_it() -> None:
    full = world(limit=1)
    full.put(using("one", "c1"), "n")
    full.put(using("two", "c1"), "n")
    full.take("one")
    assert full.passing(using("p", "c2")) == "other"
    full.take("two")
    assert full.passing(using("p", "c2")) == "n other"


def test_the_volume_of_a_releasing_pod_counts_at_idle_capacity_only() -> None:
    full = world(limit=1)
    full.put(using("releasing", "c1"), "n", AllocationState.RELEASING)
    assert full.passing(using("p", "c2"), Capacity.IDLE) == "other"
    assert full.passing(using("p", "c2"), Capacity.FUTURE_IDLE) == "n other"


def test_drivers_without_a_limit_take_any_number() -> None:
    assert world(limit=None).passing(using("p", "c1", "c2", "c3")) == "n other"
    other = world(limit=None)
    other.engine.set_drivers(disks("n", 0, "files.example.com"))
    assert other.passing(using("p", "c1")) == "n other"


def test_limits_may_be_set_before_the_node_and_change() -> None:
    unbound = world(limit=1)
    unbound.engine.set_drivers(disks("new", 0))
    unbound.cluster.set_node(node("new"))
    assert unbound.passing(using("p", "c1")) == "n other"
    unbound.engine.set_drivers(disks("new", 1))
    assert unbound.passing(using("p", "c1")) == "n new other"
    unbound.engine.set_drivers(disks("new", 0))
    unbound.engine.remove_drivers("new")
    assert unbound.passing(using("p", "c1")) == "n new other"


def test_invalidation_scope_of_a_volume() -> None:
    assert world().filter_result(using("p", "c1")).invalidation_scope is InvalidationScope.OWN_NODE


def test_limits_can_be_disabled() -> None:
    full = world(limit=0)
    assert full.passing(using("p", "c1")) == "other"
    full.engine.set_enabled_predicates(PredicateArguments(node_volume_limits=False))
    assert full.passing(using("p", "c1")) == "n other"
