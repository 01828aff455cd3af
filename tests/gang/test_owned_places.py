"""Places that nodes hold for the members of a gang: its own gang has them, and no other."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.kueue.placed_workload import PlacedWorkload
from quorate.api.kueue.topology import topology_assignment
from quorate.api.meta import Key
from quorate.gang.cache.model import Model
from quorate.placement.cluster.audit import audit_cluster
from tests.gang import objects
from tests.gang.vectors import settings_of
from tests.gang.world import World

HOST: Final = "kubernetes.io/hostname"
PLUGINS: Final = [
    ["priority", "gang", "conformance"],
    ["overcommit", "proportion", "predicates", "nodeorder"],
]
CONF: Final = {"actions": "enqueue, allocate, backfill", "tiers": PLUGINS}
NODES: Final = ("a", "b")


def a_workload(owner: str, hosts: Mapping[str, int], name: str = "w") -> PlacedWorkload:
    """Return a workload with pods of 1 cpu on ``hosts``; ``owner``: of it, by uid."""
    pods = sum(hosts.values())
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    domains = [((host,), number) for host, number in hosts.items()]
    places = codec.decode(dict[str, Any], codec.encode(topology_assignment((HOST,), domains)))
    assigned = {
        "name": "main",
        "count": pods,
        "resourceUsage": {"cpu": str(pods)},
        "topologyAssignment": places,
    }
    reference = {"apiVersion": "v1", "kind": "Owner", "name": owner, "uid": owner, "controller": True}
    body = {
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [reference]},
        "spec": {"podSets": [pod_set]},
        "status": {"admission": {"podSetAssignments": [assigned]}},
    }
    return codec.decode(PlacedWorkload, codec.encode(body))


def a_world(profile: str, phase: str = "", **given: Any) -> World:
    """Return two nodes of 8 cpu, and two groups of 12 pods of 1 cpu: the older one has no places."""
    groups = [
        {"name": name, "minMember": 12, "minResources": {"cpu": 12}, "created": at, "phase": phase}
        for at, name in enumerate(("other", "own"))
    ]
    nodes = [{"name": name, "cpu": 8, "labels": {HOST: name}} for name in NODES]
    given = {"nodes": nodes, "podGroups": groups, **given}
    return World(given, settings_of(CONF, profile), restarting=False)


def members(group: str, count: int = 12, **fields: Any) -> dict[str, Any]:
    return {"group": group, "name": group, "count": count, "cpu": 1, **fields}


@pytest.mark.parametrize("profile", ["design", "compat"])
def test_a_gang_is_admitted_for_the_room_that_is_held_for_it(profile: str) -> None:
    world = a_world(profile)
    world.model.set_workload(a_workload("default/own", {"a": 6, "b": 6}))
    world.session()
    assert {name: world.phase(name) for name in ("other", "own")} == {"other": "Pending", "own": "Inqueue"}


@pytest.mark.parametrize("profile", ["design", "compat"])
def test_an_older_gang_does_not_get_the_room_before_the_members_are_bound(profile: str) -> None:
    world = a_world(profile, "Inqueue", pods=[members("other"), members("own")])
    world.model.set_workload(a_workload("default/own", {"a": 6, "b": 6}))
    world.session()
    assert dict(world.bound_for) == {"own": 12}


def idle(model: Model) -> list[int]:
    assert not any(audit_cluster(model.cluster)), "sums differ from what is on the nodes"
    row = model.cluster.row("cpu")
    free = model.cluster.allocatable[row] - model.cluster.used[row]
    return [int(free[index]) // 1000 for node in NODES if (index := model.cluster.index(node)) is not None]


@pytest.mark.parametrize("profile", ["design", "compat"])
def test_pods_of_a_group_take_places_though_they_name_none(profile: str) -> None:
    world = a_world(profile, "Inqueue", pods=[members("own")])
    world.model.set_workload(a_workload("default/own", {"a": 6, "b": 6}))
    assert idle(world.model) == [2, 2]
    world.session()
    assert dict(world.bound_for) == {"own": 12}
    assert sum(idle(world.model)) == 4, "the pods hold the room, and nothing is held beside them"
    world.remove_pods([key for key in world.pods if key.name in ("own-0", "own-1")])
    assert sum(idle(world.model)) == 4, "it is held for pods that take their place"
    world.model.remove_workload(Key("default", "w"))
    assert sum(idle(world.model)) == 6


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(
                st.just("pod"),
                st.integers(0, 3),
                st.sampled_from(["", "a", "b"]),
                st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
            ),
            st.tuples(st.just("gone"), st.integers(0, 3)),
            st.tuples(st.just("places"), st.integers(0, 3), st.integers(0, 3)),
            st.tuples(st.just("no places")),
            st.tuples(st.just("lent")),
        ),
        max_size=12,
    )
)
def test_what_is_held_follows_from_the_objects_in_any_order(steps: list[tuple[Any, ...]]) -> None:
    """The model after any events is that of a new process; lending the room changes nothing."""
    world = a_world("design", "Inqueue")
    workload: PlacedWorkload | None = None
    for step in steps:
        match step:
            case "pod", index, node, phase:
                world.put_pods(
                    objects.pods(members("own", name=f"p-{index}", node=node, phase=phase) | {"count": 1}, {})
                )
            case "gone", index:
                world.remove_pods(key for key in world.pods if key.name == f"p-{index}-0")
            case "places", at_a, at_b:
                hosts = {host: number for host, number in (("a", at_a), ("b", at_b)) if number}
                workload = a_workload("default/own", hosts) if hosts else None
                if workload is None:
                    world.model.remove_workload(Key("default", "w"))
                else:
                    world.model.set_workload(workload)
            case ("no places",):
                workload = None
                world.model.remove_workload(Key("default", "w"))
            case ("lent",):
                with world.model.room_lent_to(world.model.gangs[Key("default", "own")]):
                    pass
        fresh = world.fresh_model()
        if workload is not None:
            fresh.set_workload(workload)
        assert held(world.model) == held(fresh), step


def held(model: Model) -> tuple[list[int], int, dict[str, int]]:
    room = model.gangs[Key("default", "own")].rooms.held
    return idle(model), room.pods, {name: amount for name, amount in room.amounts.items() if amount}
