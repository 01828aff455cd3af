"""What the claims of a pod require of its node, and the filters for it."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from quorate.api.meta import Key
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.failures import CLAIM_IN_USE
from quorate.placement.framework import Capacity, InvalidationScope
from tests.placement.filters.world import ALL, World, node, pod

NODES = ("a zone=1", "b zone=2", "c zone=3")
GI = {"storage": "10Gi"}


def in_zone(*zones: str) -> dict[str, Any]:
    expressions = [{"key": "zone", "operator": "In", "values": list(zones)}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}


def claim(name: str, volume: str = "", *, phase: str = "Bound", **more: Any) -> PersistentVolumeClaim:
    """Build a claim that is bound to ``volume``, or unbound without one."""
    annotations = more.pop("annotations", {}) | ({"pv.kubernetes.io/bind-completed": "yes"} if volume else {})
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
    metadata |= {
        field: more.pop(field) for field in ("deletionTimestamp", "ownerReferences") if field in more
    }
    spec = {"volumeName": volume, "resources": {"requests": GI}, "accessModes": ["ReadWriteOnce"], **more}
    return codec.convert(
        PersistentVolumeClaim, {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
    )


def volume(name: str, *, phase: str = "Bound", labels: Any = None, **spec: Any) -> PersistentVolume:
    return codec.convert(
        PersistentVolume,
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"capacity": GI, "accessModes": ["ReadWriteOnce"], **spec},
            "status": {"phase": phase},
        },
    )


def class_(
    name: str, provisioner: str = "disks.example.com", *, waits: bool = True, **more: Any
) -> StorageClass:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    content = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
    return codec.convert(StorageClass, content)


def world(
    *objects: PersistentVolumeClaim | PersistentVolume | StorageClass,
    nodes: Any = NODES,
    enabled: PredicateArguments = ALL,
) -> World:
    world = World(*nodes, enabled=enabled)
    for each in objects:
        match each:
            case PersistentVolumeClaim():
                world.storage.set_claim(each)
            case PersistentVolume():
                world.storage.set_volume(each)
            case StorageClass():
                world.storage.set_class(each)
    return world


def using(*claims: str, name: str = "p", **spec: Any) -> Pod:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return pod(name, volumes=volumes, **spec)


def on_all_nodes(reason: str) -> dict[str, str]:
    return dict.fromkeys("abc", reason)


# Claims that reject all nodes


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param(
            [claim("data", deletionTimestamp="2026-01-01T00:00:00Z")],
            'persistentvolumeclaim "data" is being deleted',
            id="a claim that is being deleted",
        ),
        pytest.param(
            [claim("data", "gone", phase="Lost")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
            id="a claim that lost its volume",
        ),
        pytest.param(
            [claim("data", "gone")],
            'persistentvolume "gone" not found',
            id="a bound volume that does not exist",
        ),
        pytest.param(
            [claim("data", storageClassName="fast"), class_("fast", waits=False)],
            "pod has unbound immediate PersistentVolumeClaims",
            id="an unbound claim with immediate binding",
        ),
        pytest.param(
            [claim("data", storageClassName="fast")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a class that does not exist",
        ),
        pytest.param([claim("data")], "pod has unbound immediate PersistentVolumeClaims", id="no class"),
        pytest.param(
            [claim("data", storageClassName="slow", annotations={}, volumeName="wanted"), class_("slow")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="an unbound claim that names its volume",
        ),
    ],
)
def test_claims_that_reject_all_nodes(objects: list[Any], reason: str) -> None:
    assert world(*objects).reasons(using("data")) == on_all_nodes(reason)


def test_failures_of_claims_come_first() -> None:
    tainted = node("b", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    missing = 'persistentvolumeclaim "data" not found'
    assert world(nodes=("a", tainted)).reasons(using("data")) == {"a": missing, "b": missing}
    off = world(nodes=("a", tainted), enabled=PredicateArguments(volume_binding=False))
    assert off.passing(using("data")) == "a"


def test_the_claim_of_an_ephemeral_volume_must_belong_to_the_pod() -> None:
    using_scratch = pod("p", volumes=[{"name": "scratch", "ephemeral": {}}])
    absent = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert world().reasons(using_scratch) == on_all_nodes(absent)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    own = claim("p-scratch", "v", ownerReferences=[owner])
    assert world(own, volume("v")).reasons(using_scratch) == {}
    other = claim("p-scratch", "v", ownerReferences=[owner | {"uid": "another"}])
    foreign = 'persistentvolumeclaim "p-scratch" was not created for the pod'
    assert world(other, volume("v")).reasons(using_scratch) == on_all_nodes(foreign)


# Bound volumes


def test_a_volume_rejects_nodes_outside_its_node_affinity() -> None:
    bound = world(claim("data", "v"), volume("v", **in_zone("1", "2")))
    assert bound.reasons(using("data")) == {"c": "node(s) didn't match PersistentVolume's node affinity"}


def test_all_volumes_must_be_reachable() -> None:
    bound = world(
        claim("data", "v"),
        volume("v", **in_zone("1", "2")),
        claim("logs", "w"),
        volume("w", **in_zone("2", "3")),
    )
    assert bound.passing(using("data", "logs")) == "b"


def test_a_volume_without_node_affinity_rejects_no_node() -> None:
    assert world(claim("data", "v"), volume("v")).passing(using("data")) == "a b c"


@pytest.mark.parametrize(
    ("labels", "nodes", "want"),
    [
        pytest.param(
            {"topology.kubernetes.io/zone": "1"},
            ["a topology.kubernetes.io/zone=1", "b topology.kubernetes.io/zone=2"],
            "a",
            id="one zone",
        ),
        pytest.param(
            {"topology.kubernetes.io/zone": "1__2"},
            [
                "a topology.kubernetes.io/zone=1",
                "b topology.kubernetes.io/zone=2",
                "c topology.kubernetes.io/zone=3",
            ],
            "a b",
            id="several zones",
        ),
        pytest.param(
            {"failure-domain.beta.kubernetes.io/zone": "1"},
            ["a topology.kubernetes.io/zone=1", "b topology.kubernetes.io/zone=2"],
            "a",
            id="the deprecated label",
        ),
        pytest.param(
            {"topology.kubernetes.io/region": "1"},
            ["a topology.kubernetes.io/zone=1", "b"],
            "b",
            id="a node without zone and region",
        ),
        pytest.param(
            {"topology.kubernetes.io/zone": ""}, ["a topology.kubernetes.io/zone=1"], "a", id="an empty label"
        ),
        pytest.param({"team": "1"}, ["a topology.kubernetes.io/zone=1"], "a", id="other labels are ignored"),
    ],
)
def test_zone_labels_of_volumes(labels: dict[str, str], nodes: list[str], want: str) -> None:
    bound = world(claim("data", "v"), volume("v", labels=labels), nodes=nodes)
    assert bound.passing(using("data")) == want
    assert set(bound.reasons(using("data")).values()) <= {"node(s) had no available volume zone"}


# Unbound claims


def topology(*zones: str) -> dict[str, Any]:
    return {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}]}


LOCAL = "kubernetes.io/no-provisioner"
DATA = {"namespace": "default", "name": "data"}
NOT_AS_CLAIMED: dict[str, dict[str, Any]] = {
    "class": {"storageClassName": "fast"},
    "mode": {"storageClassName": "slow", "volumeMode": "Block"},
    "capacity": {"storageClassName": "slow", "capacity": {"storage": "9Gi"}},
    "attributes class": {"storageClassName": "slow", "volumeAttributesClassName": "gold"},
}
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([class_("slow")], "a b c", id="a provisioner"),
        pytest.param(
            [class_("slow", **topology("1", "3"))], "a c", id="a provisioner with allowed topologies"
        ),
        pytest.param([class_("slow", LOCAL)], "", id="no provisioner"),
        pytest.param(
            [class_("slow", LOCAL), volume("v", phase="Available", storageClassName="slow", **in_zone("2"))],
            "b",
            id="an available volume",
        ),
        pytest.param(
            [
                class_("slow", **topology("1")),
                volume("v", phase="Available", storageClassName="slow", **in_zone("2")),
            ],
            "a b",
            id="an available volume and a provisioner",
        ),
        pytest.param(
            [class_("slow", LOCAL), volume("v", phase="Bound", storageClassName="slow")],
            "",
            id="a volume bound to another claim",
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume("v", storageClassName="slow", claimRef={"namespace": "default", "name": "data"}),
            ],
            "a b c",
            id="a volume reserved for the claim",
        ),
        *(
            pytest.param(
                [class_("slow", LOCAL), volume("v", claimRef=DATA, **different)],
                "",
                id=f"a volume reserved for the claim, with another {field}",
            )
            for field, different in NOT_AS_CLAIMED.items()
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume("v", claimRef=DATA, storageClassName="slow", **in_zone("2")),
                volume("w", phase="Available", storageClassName="slow"),
            ],
            "b",
            id="a volume reserved for the claim, and a free one elsewhere",
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume(
                    "v",
                    phase="Available",
                    storageClassName="slow",
                    claimRef={"namespace": "far", "name": "data"},
                ),
            ],
            "",
            id="a volume reserved for another claim",
        ),
        pytest.param(
            [class_("slow", LOCAL), volume("v", phase="Available", storageClassName="fast")],
            "",
            id="a volume of another class",
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume("v", phase="Available", storageClassName="slow", capacity={"storage": "9Gi"}),
            ],
            "",
            id="a volume that is too small",
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume("v", phase="Available", storageClassName="slow", accessModes=["ReadOnlyMany"]),
            ],
            "",
            id="a volume with other access modes",
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume("v", phase="Available", storageClassName="slow", volumeMode="Block"),
            ],
            "",
            id="a volume with another mode",
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume("v", phase="Available", storageClassName="slow", volumeAttributesClassName="gold"),
            ],
            "",
            id="a volume with another attributes class",
        ),
    ],
)
def test_nodes_for_an_unbound_claim(objects: list[Any], want: str) -> None:
    unbound = world(claim("data", phase="Pending", storageClassName="slow"), *objects)
    assert unbound.passing(using("data")) == want
    assert set(unbound.reasons(using("data")).values()) <= {NOTHING_TO_BIND}


def test_a_claim_with_a_selected_node_rejects_other_nodes() -> None:
    provisioning = claim(
        "data",
        phase="Pending",
        storageClassName="slow",
        annotations={"volume.kubernetes.io/selected-node": "b"},
    )
    assert world(provisioning, class_("slow")).passing(using("data")) == "b"
    assert world(provisioning, class_("slow", **topology("1"))).passing(using("data")) == ""
    assert world(provisioning, class_("slow", LOCAL)).passing(using("data")) == ""


def test_a_claim_may_select_its_volume_by_labels() -> None:
    unbound = claim("data", storageClassName="slow", selector={"matchLabels": {"tier": "gold"}})
    silver = volume("v", phase="Available", storageClassName="slow", labels={"tier": "silver"})
    gold = volume("w", phase="Available", storageClassName="slow", labels={"tier": "gold"}, **in_zone("3"))
    assert world(unbound, class_("slow", LOCAL), silver, gold).passing(using("data")) == "c"


def test_two_claims_need_two_volumes() -> None:
    claims = [claim(name, storageClassName="slow") for name in ("data", "logs")]
    volumes = [
        volume(f"v{number}", phase="Available", storageClassName="slow", **in_zone(zone))
        for number, zone in enumerate("112")
    ]
    unbound = world(*claims, class_("slow", LOCAL), *volumes)
    assert unbound.passing(using("data", "logs")) == "a"
    assert unbound.passing(using("data")) == "a b"


def test_a_small_claim_takes_the_volume_of_a_large_one_where_there_is_no_other() -> None:
    large, small = (
        claim(name, storageClassName="slow", resources={"requests": {"storage": size}})
        for name, size in (("large", "12Gi"), ("small", "10Gi"))
    )
    volumes = [
        volume(
            name, phase="Available", storageClassName="slow", capacity={"storage": size}, **in_zone(*zones)
        )
        for name, size, zones in (("v", "12Gi", ("1", "2")), ("w", "11Gi", ("2", "3")))
    ]
    unbound = world(large, small, class_("slow", LOCAL), *volumes)
    assert unbound.passing(using("large")) == "a b"
    assert unbound.passing(using("small")) == "a b c"
    assert unbound.passing(using("large", "small")) == "b"


def test_results_follow_changes_of_volumes() -> None:
    changing = world(claim("data", "v"), volume("v", **in_zone("1")))
    assert changing.passing(using("data")) == "a"
    changing.storage.set_volume(volume("v", **in_zone("2")))
    assert changing.passing(using("data")) == "b"


def test_results_follow_removals() -> None:
    storage = world(
        claim("data", storageClassName="slow"),
        class_("slow", LOCAL),
        volume("v", phase="Available", storageClassName="slow"),
    )
    assert storage.passing(using("data")) == "a b c"
    storage.storage.remove_volume("v")
    assert storage.reasons(using("data")) == on_all_nodes(NOTHING_TO_BIND)
    storage.storage.remove_class("slow")
    assert storage.reasons(using("data")) == on_all_nodes("pod has unbound immediate PersistentVolumeClaims")
    storage.storage.remove_claim(Key("default", "data"))
    assert storage.reasons(using("data")) == on_all_nodes('persistentvolumeclaim "data" not found')


def test_volume_binding_and_volume_zone_can_be_disabled() -> None:
    zone = "topology.kubernetes.io/zone"
    objects = claim("data", "v"), volume("v", labels={zone: "1"}, **in_zone("1"))
    nodes = f"a zone=1 {zone}=1", f"b zone=2 {zone}=1", f"c zone=1 {zone}=2"

    def passing(**enabled: bool) -> str:
        return world(*objects, nodes=nodes, enabled=PredicateArguments(**enabled)).passing(using("data"))

    assert passing() == "a"
    assert passing(volume_binding=False) == "a b"
    assert passing(volume_zone=False) == "a c"


def test_pods_that_share_an_unbound_claim_need_one_node() -> None:
    shared = world(claim("data", phase="Pending", storageClassName="slow"), class_("slow"))
    assert shared.filter_result(using("data")).invalidation_scope is InvalidationScope.OTHER_NODES
    shared.put(using("data", name="first"), "b")
    assert shared.reasons(using("data")) == {"a": NOTHING_TO_BIND, "c": NOTHING_TO_BIND}
    shared.take("first")
    assert shared.passing(using("data")) == "a b c"


def test_a_read_write_once_pod_claim_is_used_by_one_pod() -> None:
    once = world(claim("data", "v", accessModes=["ReadWriteOncePod"]), volume("v"))
    assert once.filter_result(using("data")).invalidation_scope is InvalidationScope.OTHER_NODES
    once.put(using("data", name="first"), "b", AllocationState.RELEASING)
    assert once.failures(using("data")) == dict.fromkeys("abc", CLAIM_IN_USE)
    assert once.passing(using("data"), Capacity.FUTURE_IDLE) == "a b c"
    once.take("first")
    assert once.passing(using("data")) == "a b c"
