"""Laws of network topology: limits hold, and a place that exists is found."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.gang.actions.hyper_node_rooms import MAX_EVICTION_TRIALS
from quorate.gang.outcome import Outcome
from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]

CONF: Json = {"actions": "allocate, backfill", "tiers": [["gang"], ["predicates", "nodeorder"]]}


class Tree(NamedTuple):
    """Free cpus by node, leaf and block: HyperNodes of tiers 1 and 2."""

    blocks: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def nodes(self) -> dict[str, int]:
        return {
            f"n{block}{leaf}{at}": cpus
            for block, leaves in enumerate(self.blocks)
            for leaf, nodes in enumerate(leaves)
            for at, cpus in enumerate(nodes)
        }

    @property
    def hyper_nodes(self) -> list[Json]:
        made: list[Json] = []
        for block, leaves in enumerate(self.blocks):
            for leaf, nodes in enumerate(leaves):
                names = " ".join(f"n{block}{leaf}{at}" for at, _ in enumerate(nodes))
                made.append({"name": f"l{block}{leaf}", "tier": 1, "nodes": names})
            names = " ".join(f"l{block}{leaf}" for leaf, _ in enumerate(leaves))
            made.append({"name": f"b{block}", "tier": 2, "hyperNodes": names})
        return made

    def domains(self, highest: int) -> Sequence[Sequence[str]]:
        """Return the nodes of each HyperNode up to a tier, the lowest first."""
        by_prefix = [sorted({name[:length] for name in self.nodes}) for length in (3, 2)]
        return [
            [name for name in self.nodes if name.startswith(prefix)]
            for prefixes in by_prefix[:highest]
            for prefix in prefixes
        ]


LEAVES = st.lists(st.integers(0, 5), min_size=1, max_size=2).map(tuple)
BLOCKS = st.lists(LEAVES, min_size=1, max_size=2).map(tuple)
TREES = st.builds(Tree, st.lists(BLOCKS, min_size=1, max_size=2).map(tuple))
ONE_TO_THREE = st.integers(1, 3)


def world_of(tree: Tree, group: Json, pods: Sequence[Json]) -> World:
    given = {
        "nodes": [{"name": name, "cpu": cpus} for name, cpus in tree.nodes.items()],
        "hyperNodes": tree.hyper_nodes,
        "podGroups": [{"name": "g", "phase": "Inqueue", **group}],
        "pods": [{"group": "g", **each} for each in pods],
    }
    return World(given, settings_of(CONF, "design"), restarting=False)


def places(world: World) -> dict[str, str]:
    outcome: Outcome = world.session()
    return {bind.task.name: bind.node for bind in outcome.binds}


@given(TREES, st.integers(1, 6), ONE_TO_THREE, st.integers(0, 3), st.integers(1, 6))
def test_equal_pods_are_placed_within_one_hyper_node_whenever_one_takes_them(
    tree: Tree, count: int, cpu: int, highest: int, least: int
) -> None:
    minimum = min(count, least)
    group = {"minMember": minimum, "networkTopology": {"highestTierAllowed": highest}}
    found = places(world_of(tree, group, [{"name": "p", "count": count, "cpu": cpu}]))
    rooms = {
        tier: [sum(tree.nodes[name] // cpu for name in domain) for domain in tree.domains(tier)]
        for tier in range(highest + 1)
    }
    sufficient = [tier for tier in sorted(rooms) if max(rooms[tier], default=0) >= minimum]
    assert len(found) >= (minimum if sufficient else 0)
    assert bool(found) == bool(sufficient)
    if not found:
        return
    allowed = sufficient[0] if minimum == count else highest  # surplus members may need a higher tier
    assert any(set(found.values()) <= set(domain) for domain in tree.domains(allowed))
    assert all(pods * cpu <= tree.nodes[name] for name, pods in Counter(found.values()).items())


def possible(tree: Tree, groups: int, size: int, cpu: int, highest: int) -> bool:
    """Return True if some choice of one HyperNode for each sub group has room for all of them (exhaustive).

    Nested HyperNodes have room together if each has room for the sub groups in it and below it.
    """
    domains = [frozenset(domain) for domain in tree.domains(highest)]
    rooms = {domain: sum(tree.nodes[name] // cpu for name in domain) for domain in domains}
    return any(
        all(sum(size for each in choice if each <= domain) <= rooms[domain] for domain in set(choice))
        for choice in combinations_with_replacement(domains, groups)
    )


@given(TREES, ONE_TO_THREE, ONE_TO_THREE, ONE_TO_THREE, st.integers(1, 2))
def test_equal_sub_groups_are_placed_whenever_a_choice_of_hyper_nodes_takes_them(
    tree: Tree, groups: int, size: int, cpu: int, highest: int
) -> None:
    policy = {
        "name": "w",
        "subGroupSize": size,
        "minSubGroups": groups,
        "matchLabelKeys": ["part"],
        "networkTopology": {"highestTierAllowed": highest},
    }
    group = {"minMember": groups * size, "subGroupPolicy": [policy]}
    pods = [
        {"name": f"p{number}", "count": size, "cpu": cpu, "labels": {"part": str(number)}}
        for number in range(groups)
    ]
    found = places(world_of(tree, group, pods))
    assert len(found) == (groups * size if possible(tree, groups, size, cpu, highest) else 0)
    domains = [set(domain) for domain in tree.domains(highest)]
    for number in range(groups):
        used = {node for name, node in found.items() if name.startswith(f"p{number}-")}
        assert any(used <= domain for domain in domains)


LEAVING = st.lists(st.integers(0, 2), min_size=8, max_size=8)


def with_leaving(world: World, tree: Tree, leaving: Sequence[int]) -> dict[str, int]:
    """Add pods that leave their nodes, with these cpus at most; return what is idle."""
    idle = dict(tree.nodes)
    for node, most in zip(tree.nodes, leaving, strict=False):
        used = min(most, idle[node])
        idle[node] -= used
        old = {"name": f"old-{node}", "cpu": used, "node": node, "phase": "Running", "deleting": True}
        world.do("addPods", [old | {"schedulerName": "other"}])
    return idle


@given(TREES, LEAVING, ONE_TO_THREE, st.integers(2, 3), st.integers(0, 2))
def test_no_sub_group_is_bound_in_part(
    tree: Tree, leaving: Sequence[int], groups: int, size: int, needed: int
) -> None:
    policy = {"name": "w", "subGroupSize": size, "minSubGroups": min(needed, groups)}
    policy |= {"matchLabelKeys": ["part"], "networkTopology": {"highestTierAllowed": 1}}
    pods = [
        {"name": f"p{number}", "count": size, "cpu": 1, "labels": {"part": str(number)}}
        for number in range(groups)
    ]
    world = world_of(tree, {"minMember": 1, "subGroupPolicy": [policy]}, pods)
    with_leaving(world, tree, leaving)
    bound = Counter(name.partition("-")[0] for name in places(world))
    assert all(count == size for count in bound.values()), bound


@given(TREES, LEAVING, st.integers(2, 6), st.integers(1, 2), st.booleans())
def test_a_soft_request_makes_no_pod_wait_for_others_to_leave(
    tree: Tree, leaving: Sequence[int], count: int, cpu: int, all_needed: bool
) -> None:
    minimum = count if all_needed else 1
    group = {"minMember": minimum, "networkTopology": {"mode": "soft", "highestTierAllowed": 1}}
    world = world_of(tree, group, [{"name": "p", "count": count, "cpu": cpu}])
    idle = with_leaving(world, tree, leaving)
    now = sum(cpus // cpu for cpus in idle.values())
    assert len(places(world)) == (min(now, count) if now >= minimum else 0)


TWO_TIERS = [["priority", "gang", "conformance"], ["capacity", "predicates", "nodeorder"]]
# The nodes of the pods of a gang, by number, what each pod requests, whether it is a possible victim, and
# whether it needs all its pods.
Running = tuple[Sequence[int], int, bool, bool]
RUNNING = st.tuples(
    st.lists(st.integers(0, 7), min_size=1, max_size=3), ONE_TO_THREE, st.booleans(), st.booleans()
)


def with_running(
    tree: Tree, gangs: Sequence[Running], mine: Json, others: Json
) -> tuple[Json, dict[str, int], dict[str, int]]:
    """Return the gangs that fit, as objects, what they leave idle, and what is idle without victims.

    ``mine`` and ``others``: fields of the groups that are no victims, and of the victims.
    """
    idle, victims = dict(tree.nodes), Counter[str]()
    names, objects = list(idle), {"podGroups": list[Json](), "pods": list[Json]()}
    for number, (places_of_pods, cpu, is_victim, needs_all) in enumerate(gangs):
        nodes = [names[place % len(names)] for place in places_of_pods]
        used = Counter({node: nodes.count(node) * cpu for node in nodes})
        if any(idle[node] < amount for node, amount in used.items()):
            continue
        idle = {node: cpus - used[node] for node, cpus in idle.items()}
        victims.update(used if is_victim else {})
        least = len(nodes) if needs_all else 1
        group = {"name": f"r{number}", "minMember": least, "phase": "Running", "created": number}
        objects["podGroups"].append(group | (others if is_victim else mine))
        objects["pods"] += [
            {"name": f"r{number}-{at}", "group": f"r{number}", "cpu": cpu, "node": node, "phase": "Running"}
            for at, node in enumerate(nodes)
        ]
    return objects, idle, {node: cpus + victims[node] for node, cpus in idle.items()}


def world_with_victims(
    tree: Tree, gangs: Sequence[Running], pods: Json, highest: int, minimum: int, action: str
) -> tuple[World, dict[str, int], dict[str, int]]:
    """Return a world in which a gang of ``pods`` waits, what is idle, and what is idle without victims."""
    mine: Json = {"queue": "own", "priorityClassName": "high"}
    others: Json = {
        "queue": "own" if action.endswith("preempt") else "lent", "priorityClassName": "low",
    }  # fmt: skip
    objects, idle, emptied = with_running(tree, gangs, mine, others)
    topology = {"highestTierAllowed": highest}
    gang = {"name": "g", "minMember": minimum, "phase": "Inqueue", "created": 99, "networkTopology": topology}
    given_ = {
        "priorityClasses": {"low": 1, "high": 2},
        "queues": [{"name": "own", "deserved": {"cpu": 99}}, {"name": "lent", "deserved": {"cpu": "1m"}}],
        "nodes": [{"name": name, "cpu": cpus} for name, cpus in tree.nodes.items()],
        "hyperNodes": tree.hyper_nodes,
        "podGroups": [*objects["podGroups"], gang | mine],
        "pods": [*objects["pods"], {"name": "g", "group": "g", **pods}],
    }
    conf = {"actions": f"allocate, {action}", "tiers": TWO_TIERS}
    return World(given_, settings_of(conf, "design"), restarting=False), idle, emptied


@given(
    TREES,
    st.lists(RUNNING, max_size=7),
    st.integers(1, 5),
    ONE_TO_THREE,
    ONE_TO_THREE,
    st.integers(1, 5),
    st.sampled_from(("preempt", "gangpreempt", "reclaim", "gangreclaim")),
)
def test_evictions_make_room_within_one_hyper_node_whenever_they_can_and_are_none_otherwise(
    tree: Tree,
    gangs: Sequence[Running],
    count: int,
    cpu: int,
    highest: int,
    least: int,
    action: str,
) -> None:
    minimum, pods = min(count, least), {"count": count, "cpu": cpu}
    world, idle, emptied = world_with_victims(tree, gangs, pods, highest, minimum, action)

    def has_room(free: dict[str, int]) -> bool:
        domains = tree.domains(highest)
        return any(sum(free[name] // cpu for name in domain) >= minimum for domain in domains)

    evicted = {eviction.beneficiary.name for eviction in world.session().evictions}
    assert evicted == ({"g"} if has_room(emptied) and not has_room(idle) else set())
    world.do("reap", "all")
    assert not world.session().evictions
    assert (world.placed("g") >= minimum) == has_room(emptied)
    used = {pod.node_name for pod in world.pods.values() if pod.node_name and pod.metadata.name[:2] == "g-"}
    assert any(used <= set(domain) for domain in tree.domains(highest))


@pytest.mark.parametrize("action", ["preempt", "gangpreempt", "reclaim", "gangreclaim"])
@pytest.mark.parametrize("needs_all", [False, True], ids=["single pods", "whole gangs"])
def test_evictions_are_within_the_only_one_of_many_hyper_nodes_that_they_make_large_enough(
    action: str, *, needs_all: bool
) -> None:
    """In each other HyperNode the victim leaves half of the node to a pod that stays."""
    tree = Tree((((2,),) * (MAX_EVICTION_TRIALS + 2),))
    names = list(tree.nodes)
    gangs = [
        ([at], 1, name == max(names) or half == 0, needs_all)
        for at, name in enumerate(names)
        for half in range(2)
    ]
    world, *_ = world_with_victims(tree, gangs, {"cpu": 2}, 1, 1, action)
    assert world.session().evictions
    world.do("reap", "all")
    world.session()
    assert world.binds == {"g": max(names)}
