"""What the claims of a pod ask of its node."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.scheduling import Pod
from quorate.api.core.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from quorate.api.meta import Key
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.cluster import AllocationState
from quorate.placement.filters.failures import CLAIM_IN_USE
from quorate.placement.framework import Capacity, InvalidationScope
from tests.placement.filters.world import ALL, World, node, pod

NODES = ("a zone=1", "b zone=2", "c zone=3")
GI = {"storage": "10Gi"}


def in_zone(*zones: str) -> dict[str, Any]:
    expressions = [{"key": "zone", "operator": "In", "values": list(zones)}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}


def claim(name: str, volume: str = "", *, phase: str = "Bound", **more: Any) -> PersistentVolumeClaim:
    """Bound to ``volume``, or waiting."""
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
    *things: PersistentVolumeClaim | PersistentVolume | StorageClass,
    nodes: Any = NODES,
    enabled_predicates: PredicateArguments = ALL,
) -> World:
    world = World(*nodes, switches=enabled_predicates)
    for one in things:
        match one:
            case PersistentVolumeClaim():
                world.storage.set_claim(one)
            case PersistentVolume():
                world.storage.set_volume(one)
            case StorageClass():
                world.storage.set_class(one)
    return world


def using(*claims: str, name: str = "p", **spec: Any) -> Pod:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return pod(name, volumes=volumes, **spec)


def everywhere(reason: str) -> dict[str, str]:
    return dict.fromkeys("abc", reason)


# -- claims that keep the pod waiting


@pytest.mark.parametrize(
    ("things", "reason"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param(
            [claim("data", deletionTimestamp="2026-01-01T00:00:00Z")],
            'persistentvolumeclaim "data" is being deleted',
            id="a claim that goes",
        ),
        pytest.param(
            [claim("data", "gone", phase="Lost")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
            id="a claim that lost its volume",
        ),
        pytest.param(
            [claim("data", "gone")],
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            id="a volume that is not there",
        ),
        pytest.param(
            [claim("data", storageClassName="fast"), class_("fast", waits=False)],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a volume is being made, wherever",
        ),
        pytest.param(
            [claim("data", storageClassName="fast")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="no such class",
        ),
        pytest.param(
            [claim("data")], "pod has unbound immediate PersistentVolumeClaims", id="no class at all"
        ),
        pytest.param(
            [claim("data", storageClassName="slow", annotations={}, volumeName="wanted"), class_("slow")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim that names its volume waits for the binding",
        ),
    ],
)
def test_the_pod_waits_for_its_claims(things: list[Any], reason: str) -> None:
    assert world(*things).reasons(using("data")) == everywhere(reason)


def test_claims_are_looked_at_first() -> None:
    tainted = node("b", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    missing = 'persistentvolumeclaim "data" not found'
    assert world(nodes=("a", tainted)).reasons(using("data")) == {"a": missing, "b": missing}
    off = world(nodes=("a", tainted), enabled_predicates=PredicateArguments(volume_binding=False))
    assert off.passing(using("data")) == "a"


def test_a_claim_of_a_volume_of_its_own_is_made_for_the_pod() -> None:
    scratch = pod("p", volumes=[{"name": "scratch", "ephemeral": {}}])
    absent = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert world().reasons(scratch) == everywhere(absent)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    mine = claim("p-scratch", "v", ownerReferences=[owner])
    assert world(mine, volume("v")).reasons(scratch) == {}
    other = claim("p-scratch", "v", ownerReferences=[owner | {"uid": "another"}])
    foreign = 'persistentvolumeclaim "p-scratch" was not created for the pod'
    assert world(other, volume("v")).reasons(scratch) == everywhere(foreign)


# -- volumes that exist


def test_a_volume_ties_the_pod_to_the_nodes_that_reach_it() -> None:
    tied = world(claim("data", "v"), volume("v", **in_zone("1", "2")))
    assert tied.reasons(using("data")) == {"c": "node(s) didn't match PersistentVolume's node affinity"}


def test_all_volumes_must_be_reached() -> None:
    tied = world(
        claim("data", "v"),
        volume("v", **in_zone("1", "2")),
        claim("logs", "w"),
        volume("w", **in_zone("2", "3")),
    )
    assert tied.passing(using("data", "logs")) == "b"


def test_a_volume_that_is_reached_from_everywhere_ties_nobody() -> None:
    assert world(claim("data", "v"), volume("v")).passing(using("data")) == "a b c"


@pytest.mark.parametrize(
    ("labels", "nodes", "want"),
    [
        pytest.param(
            {"topology.kubernetes.io/zone": "1"},
            ["a topology.kubernetes.io/zone=1", "b topology.kubernetes.io/zone=2"],
            "a",
            id="its zone",
        ),
        pytest.param(
            {"topology.kubernetes.io/zone": "1__2"},
            [
                "a topology.kubernetes.io/zone=1",
                "b topology.kubernetes.io/zone=2",
                "c topology.kubernetes.io/zone=3",
            ],
            "a b",
            id="one of its zones",
        ),
        pytest.param(
            {"failure-domain.beta.kubernetes.io/zone": "1"},
            ["a topology.kubernetes.io/zone=1", "b topology.kubernetes.io/zone=2"],
            "a",
            id="the label of old means the new one",
        ),
        pytest.param(
            {"topology.kubernetes.io/region": "1"},
            ["a topology.kubernetes.io/zone=1", "b"],
            "b",
            id="a node without any zone or region is not asked",
        ),
        pytest.param({"team": "1"}, ["a topology.kubernetes.io/zone=1"], "a", id="other labels say nothing"),
    ],
)
def test_volumes_with_zones_in_their_labels(labels: dict[str, str], nodes: list[str], want: str) -> None:
    tied = world(claim("data", "v"), volume("v", labels=labels), nodes=nodes)
    assert tied.passing(using("data")) == want
    assert set(tied.reasons(using("data")).values()) <= {"node(s) had no available volume zone"}


# -- volumes that wait for the pod


def topology(*zones: str) -> dict[str, Any]:
    return {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}]}


LOCAL = "kubernetes.io/no-provisioner"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"


@pytest.mark.parametrize(
    ("things", "want"),
    [
        pytest.param([class_("slow")], "a b c", id="a volume can be made anywhere"),
        pytest.param([class_("slow", **topology("1", "3"))], "a c", id="or where the class says"),
        pytest.param([class_("slow", LOCAL)], "", id="or nowhere"),
        pytest.param(
            [class_("slow", LOCAL), volume("v", phase="Available", storageClassName="slow", **in_zone("2"))],
            "b",
            id="one that is there can be taken",
        ),
        pytest.param(
            [
                class_("slow", **topology("1")),
                volume("v", phase="Available", storageClassName="slow", **in_zone("2")),
            ],
            "a b",
            id="or one made",
        ),
        pytest.param(
            [class_("slow", LOCAL), volume("v", phase="Bound", storageClassName="slow")],
            "",
            id="not a used one",
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume("v", storageClassName="slow", claimRef={"namespace": "default", "name": "data"}),
            ],
            "a b c",
            id="one that is kept for the claim",
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
            id="not one that is kept for another",
        ),
        pytest.param(
            [class_("slow", LOCAL), volume("v", phase="Available", storageClassName="fast")],
            "",
            id="not one of another class",
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume("v", phase="Available", storageClassName="slow", capacity={"storage": "9Gi"}),
            ],
            "",
            id="not one that is too small",
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume("v", phase="Available", storageClassName="slow", accessModes=["ReadOnlyMany"]),
            ],
            "",
            id="not one that is used in another way",
        ),
        pytest.param(
            [
                class_("slow", LOCAL),
                volume("v", phase="Available", storageClassName="slow", volumeMode="Block"),
            ],
            "",
            id="not one of another mode",
        ),
    ],
)
def test_where_a_volume_can_be_had(things: list[Any], want: str) -> None:
    waiting = world(claim("data", phase="Pending", storageClassName="slow"), *things)
    assert waiting.passing(using("data")) == want
    assert set(waiting.reasons(using("data")).values()) <= {NOTHING_TO_BIND}


def test_a_volume_that_is_being_made_for_a_node_ties_the_pod_to_it() -> None:
    chosen = claim(
        "data",
        phase="Pending",
        storageClassName="slow",
        annotations={"volume.kubernetes.io/selected-node": "b"},
    )
    assert world(chosen, class_("slow")).passing(using("data")) == "b"


def test_a_claim_may_select_its_volume_by_labels() -> None:
    waiting = claim("data", storageClassName="slow", selector={"matchLabels": {"tier": "gold"}})
    silver = volume("v", phase="Available", storageClassName="slow", labels={"tier": "silver"})
    gold = volume("w", phase="Available", storageClassName="slow", labels={"tier": "gold"}, **in_zone("3"))
    assert world(waiting, class_("slow", LOCAL), silver, gold).passing(using("data")) == "c"


def test_two_claims_take_two_volumes() -> None:
    claims = [claim(name, storageClassName="slow") for name in ("data", "logs")]
    volumes = [
        volume(f"v{number}", phase="Available", storageClassName="slow", **in_zone(zone))
        for number, zone in enumerate("112")
    ]
    waiting = world(*claims, class_("slow", LOCAL), *volumes)
    assert waiting.passing(using("data", "logs")) == "a"
    assert waiting.passing(using("data")) == "a b"


def test_what_follows_from_claims_is_part_of_the_shape() -> None:
    before = world(claim("data", "v"), volume("v", **in_zone("1")))
    assert before.passing(using("data")) == "a"
    before.storage.set_volume(volume("v", **in_zone("2")))
    assert before.passing(using("data")) == "b"


def test_volumes_and_claims_and_classes_go() -> None:
    full = world(
        claim("data", storageClassName="slow"),
        class_("slow", LOCAL),
        volume("v", phase="Available", storageClassName="slow"),
    )
    assert full.passing(using("data")) == "a b c"
    full.storage.remove_volume("v")
    assert full.reasons(using("data")) == everywhere(NOTHING_TO_BIND)
    full.storage.remove_class("slow")
    assert full.reasons(using("data")) == everywhere("pod has unbound immediate PersistentVolumeClaims")
    full.storage.remove_claim(Key("default", "data"))
    assert full.reasons(using("data")) == everywhere('persistentvolumeclaim "data" not found')


def test_volumes_and_their_zones_can_be_switched_off_each() -> None:
    zone = "topology.kubernetes.io/zone"
    things = claim("data", "v"), volume("v", labels={zone: "1"}, **in_zone("1"))
    nodes = f"a zone=1 {zone}=1", f"b zone=2 {zone}=1", f"c zone=1 {zone}=2"

    def passing(**enabled_predicates: bool) -> str:
        return world(
            *things, nodes=nodes, enabled_predicates=PredicateArguments(**enabled_predicates)
        ).passing(using("data"))

    assert passing() == "a"
    assert passing(volume_binding=False) == "a b"
    assert passing(volume_zone=False) == "a c"


def test_pods_that_share_a_claim_go_to_one_node_while_it_has_no_volume() -> None:
    shared = world(claim("data", phase="Pending", storageClassName="slow"), class_("slow"))
    assert shared.filter_result(using("data")).invalidation_scope is InvalidationScope.OTHER_NODES
    shared.put(using("data", name="first"), "b")
    assert shared.reasons(using("data")) == {"a": NOTHING_TO_BIND, "c": NOTHING_TO_BIND}
    shared.take("first")
    assert shared.passing(using("data")) == "a b c"


def test_a_claim_for_one_pod_is_used_by_one_pod() -> None:
    read_write_once_pod = world(claim("data", "v", accessModes=["ReadWriteOncePod"]), volume("v"))
    assert (
        read_write_once_pod.filter_result(using("data")).invalidation_scope is InvalidationScope.OTHER_NODES
    )
    read_write_once_pod.put(using("data", name="first"), "b", AllocationState.RELEASING)
    assert read_write_once_pod.failures(using("data")) == dict.fromkeys("abc", CLAIM_IN_USE)
    assert read_write_once_pod.passing(using("data"), Capacity.FUTURE_IDLE) == "a b c"
    read_write_once_pod.take("first")
    assert read_write_once_pod.passing(using("data")) == "a b c"
