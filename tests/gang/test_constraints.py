"""Gangs with pods that have constraints on nodes."""

from collections import Counter
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.volumes import PersistentVolume, PersistentVolumeClaim
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import load_scheduler_configuration
from tests.gang import objects
from tests.gang.world import World

SETTINGS = load_scheduler_configuration(
    """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: nodeorder
"""
).configuration
PREEMPTING = load_scheduler_configuration(
    """
actions: "allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: predicates
  - name: nodeorder
"""
).configuration
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def world(nodes: str, *, members: int, minimum: int, **spec: Any) -> World:
    """Return nodes like ``a1``, in the zone of their first letter, and a group of equal pods."""
    given = {
        "nodes": [{"name": name, "cpu": 8, "labels": {ZONE: name[0], HOST: name}} for name in nodes.split()],
        "podGroups": [{"name": "gang", "minMember": minimum, "phase": "Inqueue"}],
    }
    world = World(given, SETTINGS, restarting=False)
    world.put_pods(member(f"m{number}", **spec) for number in range(members))
    return world


def member(name: str, group: str = "gang", **spec: Any) -> Pod:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "labels": {"job": group, "index": name},
        "annotations": {"scheduling.k8s.io/group-name": group, "volcano.sh/preemptable": "true"},
    }
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    content = {"schedulerName": "volcano", "containers": [container], **spec}
    return codec.convert(Pod, {"metadata": metadata, "spec": content})


def selecting(side: str, key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"job": "gang"}}}
    return {"affinity": {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def by_zone(world: World) -> Counter[str]:
    return Counter(node[0] for node in world.binds.values())


def test_members_with_anti_affinity_get_a_node_each() -> None:
    apart = world("a1 a2 b1", members=3, minimum=3, **selecting("podAntiAffinity", HOST))
    apart.session()
    assert sorted(apart.binds.values()) == ["a1", "a2", "b1"]


@pytest.mark.parametrize(
    ("selector", "starts"),
    [
        pytest.param({"labelSelector": {}}, False, id="an empty selector matches a pod without labels"),
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}},
            False,
            id="a requirement that a label is absent does too",
        ),
        pytest.param({}, True, id="an absent selector matches no pod"),
    ],
)
def test_a_selector_may_match_a_pod_without_labels(selector: dict[str, Any], starts: bool) -> None:
    term = {"topologyKey": HOST, **selector}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    apart = world("a1", members=1, minimum=1, affinity=affinity)
    bare = {"metadata": {"name": "bare", "namespace": "default", "uid": "bare"}}
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    bound = {"nodeName": "a1", "containers": [container]}
    apart.put_pods([codec.convert(Pod, {**bare, "spec": bound, "status": {"phase": "Running"}})])
    apart.session()
    assert bool(apart.binds) == starts


def test_a_gang_with_anti_affinity_and_too_few_nodes_is_not_placed() -> None:
    apart = world("a1 a2", members=3, minimum=3, **selecting("podAntiAffinity", HOST))
    outcome = apart.session()
    assert apart.binds == {}
    assert apart.condition("gang", "Unschedulable") is not None
    said = outcome.statuses[0].conditions[-1].message
    assert "2 node(s) didn't match pod anti-affinity rules" in said
    apart.do("addNodes", [{"name": "b1", "cpu": 8, "labels": {HOST: "b1"}}])
    apart.session()
    assert len(apart.binds) == 3


def test_members_with_affinity_follow_the_first() -> None:
    near = world("a1 a2 b1 b2", members=6, minimum=6, **selecting("podAffinity", ZONE))
    near.session()
    assert sorted(by_zone(near).values()) == [6]


@pytest.mark.parametrize(
    ("members", "minimum", "want"),
    [
        pytest.param(6, 6, {"a": 6}, id="all fit in the zone of the best node"),
        pytest.param(10, 10, {"b": 10}, id="all fit in another zone only"),
        pytest.param(14, 9, {"b": 12}, id="enough of them fit in another zone only"),
        pytest.param(13, 13, {}, id="they fit nowhere"),
    ],
)
def test_a_gang_with_affinity_starts_where_all_of_it_fits(
    members: int, minimum: int, want: dict[str, int]
) -> None:
    near = world("", members=members, minimum=minimum, **selecting("podAffinity", ZONE))
    rooms = {"a1": 8, "b1": 4, "b2": 4, "b3": 4}
    near.do(
        "addNodes", [{"name": name, "cpu": cpu, "labels": {ZONE: name[0]}} for name, cpu in rooms.items()]
    )
    near.session()
    assert by_zone(near) == want


def test_a_master_is_placed_where_its_workers_fit() -> None:
    together = world("", members=0, minimum=10)
    rooms = {"a1": 8, "b1": 4, "b2": 4, "b3": 4}
    nodes = [{"name": name, "cpu": cpu, "labels": {ZONE: name[0]}} for name, cpu in rooms.items()]
    together.do("addNodes", nodes)
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"index": "master"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    together.put_pods([member("master")])
    together.put_pods(member(f"worker-{number}", affinity=affinity) for number in range(9))
    together.session()
    assert by_zone(together) == {"b": 10}


def test_a_gang_with_affinity_starts_where_releasing_pods_free_capacity() -> None:
    near = world("a1 b1", members=6, minimum=6, **selecting("podAffinity", ZONE))
    for name, node, cpu in (("stays", "a1", "3"), ("leaves", "b1", "5")):
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        near.put_pods([member(name, group=name, nodeName=node, containers=[container])])
    near.put_pods([objects.leaving(near.pods[Key("default", "leaves")], near.now)])
    near.session()
    assert (near.binds, set(near.pipelined.values())) == ({}, {"b1"})


def test_members_are_placed_after_the_targets_of_their_affinity_whatever_their_names() -> None:
    together = world("a1 b1", members=0, minimum=3)
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"index": "z-master"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    together.put_pods(member(name, affinity=affinity) for name in ("a-worker", "b-worker"))
    together.put_pods([member("z-master")])
    together.session()
    assert by_zone(together) == {"a": 3}


def test_members_are_spread_over_zones() -> None:
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"job": "gang"}},
    }
    spread = world("a1 a2 a3 b1 c1", members=6, minimum=6, topologySpreadConstraints=[constraint])
    spread.session()
    assert by_zone(spread) == {"a": 2, "b": 2, "c": 2}


def test_a_gang_waits_for_its_volume_claim_and_is_placed_at_the_volume() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    waiting = world("a1 b1", members=2, minimum=2, volumes=volumes)
    outcome = waiting.session()
    assert waiting.binds == {}
    assert 'persistentvolumeclaim "data" not found' in outcome.statuses[0].conditions[-1].message

    expressions = [{"key": ZONE, "operator": "In", "values": ["b"]}]
    reach = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    volume = {"metadata": {"name": "v"}, "spec": {"nodeAffinity": reach}}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = {
        "metadata": {"name": "data", "namespace": "default", "annotations": bound},
        "spec": {"volumeName": "v"},
        "status": {"phase": "Bound"},
    }
    waiting.model.storage.set_volume(codec.convert(PersistentVolume, volume))
    waiting.model.storage.set_claim(codec.convert(PersistentVolumeClaim, claim))
    waiting.session()
    assert waiting.binds == {"m0": "b1", "m1": "b1"}


def test_volume_requirements_are_removed_with_the_pod() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    gone = world("a1", members=1, minimum=1, volumes=volumes)
    gone.remove_pods([Key("default", "m0")])
    gone.model.storage.remove_claim(Key("default", "data"))
    gone.session()
    assert gone.binds == {}


def test_affinity_terms_select_namespaces_by_label() -> None:
    term = {
        "topologyKey": ZONE,
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchLabels": {"team": "store"}},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    near = world("a1 b1", members=2, minimum=2, affinity=affinity)
    database = {
        "metadata": {"name": "db", "namespace": "data", "uid": "db", "labels": {"app": "db"}},
        "spec": {"nodeName": "b1", "containers": [{"name": "main"}]},
    }
    near.put_pods([codec.convert(Pod, database)])
    near.session()
    assert near.binds == {}
    near.model.constraints.set_namespace("data", {"team": "store"})
    near.session()
    assert near.binds == {"m0": "b1", "m1": "b1"}


def test_evicting_a_pod_frees_its_port() -> None:
    ports = [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]
    given = {
        "nodes": [{"name": "a1", "cpu": 8}],
        "priorityClasses": {"high": 10, "low": 1},
        "podGroups": [
            {"name": "gang", "minMember": 1, "phase": "Inqueue", "priorityClassName": "low"},
            {"name": "urgent", "minMember": 1, "phase": "Inqueue", "priorityClassName": "high"},
        ],
    }
    world = World(given, PREEMPTING, restarting=False)
    world.put_pods([member("m0", containers=ports, priority=1)])
    world.session()
    world.do("start", None)
    world.start_step()
    world.put_pods([member("u0", group="urgent", containers=ports, priority=10)])
    world.session()
    assert (world.evictions, world.pipelined, world.binds) == (["m0"], {"u0": "a1"}, {})
    world.session()
    assert (world.evictions, world.binds) == (["m0"], {}), "the port is taken until the pod is gone"
    world.do("reap", None)
    world.session()
    assert world.binds == {"u0": "a1"}
