"""Kubernetes' own pod groups: the laws of their placement, and agreement with kube-scheduler.

``native-worlds.jsonl`` has worlds that were generated from seeds and played through kube-apiserver and
kube-scheduler 1.36.3 with the gates of pod groups: nodes, groups, priorities, topologies, arrivals and
deletions, one step after the other, with all pods of a group before the group.  After each step it has for
each group how many pods have a node, how many were disrupted, and the status of PodGroupScheduled.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from quorate.api import codec, native_groups
from quorate.api.meta import Condition, Key, at_epoch
from quorate.api.scheduler_configuration import load_scheduler_configuration
from quorate.api.volcano import PodGroupCondition
from quorate.gang.actions import native_preemption
from quorate.gang.cache.native_groups import (
    as_volcano_group,
    native_key,
    native_name,
    native_topology,
    scheduled_condition,
)
from quorate.gang.session_run import run_session
from tests.gang.native_world import CONFIGURATION, PRIORITIES, NativeWorld
from tests.search import examples

Json = dict[str, Any]

HERE: Final = Path(__file__).parent
LEAST_AGREEMENT: Final = 0.95
WORLDS: Final[list[Json]] = [
    json.loads(line) for line in (HERE / "native-worlds.jsonl").read_text().splitlines()
]
DIFFERENCES: Final[list[Json]] = yaml.safe_load((HERE / "native-differences.yaml").read_text())
FIELDS: Final = ("bound", "disrupted")


def disagreements(world: Json) -> tuple[int, int]:
    """Return how many outcomes of groups differ from kube-scheduler's, and how many there are."""
    played, differ, total = NativeWorld(world), 0, 0
    for step, wanted in zip(world["steps"], world["outcome"], strict=True):
        rows = played.play(step)
        total += len(wanted)
        differ += sum(
            any(rows[name][field] != row[field] for field in FIELDS) for name, row in wanted.items()
        )
    return differ, total


def test_groups_start_wait_and_are_disrupted_as_with_kube_scheduler() -> None:
    counts = {world["seed"]: disagreements(world) for world in WORLDS}
    assert len(counts) == 200
    differing = {seed for seed, (differ, _) in counts.items() if differ}
    assert differing == {seed for entry in DIFFERENCES for seed in entry["seeds"]}
    total = sum(total for _, total in counts.values())
    assert 1 - sum(differ for differ, _ in counts.values()) / total >= LEAST_AGREEMENT


@st.composite
def worlds(draw: st.DrawFn) -> Json:
    nodes = [
        {"name": f"n{index}", "cpu": draw(st.sampled_from((2, 4, 8))), "rack": f"r{index % 2}"}
        for index in range(draw(st.integers(1, 4)))
    ]
    steps: list[Json] = []
    for index in range(draw(st.integers(1, 6))):
        pods = draw(st.integers(1, 4))
        group: Json = {"name": f"g{index}", "pods": pods, "cpu": draw(st.integers(1, 4))}
        if draw(st.booleans()):
            group["minCount"] = draw(st.integers(1, pods))
        if draw(st.booleans()):
            group["topology"] = "rack"
        if draw(st.booleans()):
            group["priority"] = draw(st.sampled_from(sorted(PRIORITIES)))
        group["disruption"] = draw(st.sampled_from(("Pod", "PodGroup")))
        steps.append({"add": group})
    return {"nodes": nodes, "steps": steps}


def gained(rows: Json, before: Json, groups: Json, priority: int) -> bool:
    """Return True if a group of ``priority`` or a higher one, which may take the room, has more pods."""
    return any(
        row["bound"] > before.get(name, {"bound": 0})["bound"]
        and PRIORITIES.get(groups[name].get("priority", ""), 0) >= priority
        for name, row in rows.items()
    )


# The third group, for which nothing may be evicted, takes the room that is evicted for the last one.
ROOM_FOR_A_MORE_IMPORTANT_GROUP: Json = {
    "nodes": [{"name": "n0", "cpu": 4, "rack": "r0"}],
    "steps": [
        {"add": {"name": "g0", "pods": 1, "cpu": 4, "disruption": "Pod"}},
        {"add": {"name": "g1", "pods": 1, "cpu": 4, "topology": "rack", "priority": "high",
                 "disruption": "Pod"}},
        {"add": {"name": "g2", "pods": 1, "cpu": 1, "priority": "mid", "disruption": "Pod"}},
    ],
}  # fmt: skip


@examples(200)
@given(world=worlds())
@example(ROOM_FOR_A_MORE_IMPORTANT_GROUP)
def test_groups_are_placed_and_disrupted_by_their_terms(world: Json) -> None:
    played = NativeWorld(world)
    groups = {step["add"]["name"]: step["add"] for step in world["steps"]}
    racks = {node["name"]: node["rack"] for node in world["nodes"]}
    before: dict[str, Json] = {}
    for step in world["steps"]:
        rows = played.play(step)
        newest = step["add"]
        for name, row in rows.items():
            group, was = groups[name], before.get(name, {"bound": 0, "disrupted": 0})
            lost = row["disrupted"] - was["disrupted"]
            if not row["disrupted"]:
                assert row["bound"] == 0 or row["bound"] >= group.get("minCount", 1)
            if lost:
                assert PRIORITIES.get(group.get("priority", ""), 0) < PRIORITIES[newest["priority"]]
                assert "topology" not in newest
                assert gained(rows, before, groups, PRIORITIES[newest["priority"]])
                if group["disruption"] == "PodGroup":
                    assert lost == was["bound"]
            if "topology" in group:
                nodes = (pod.node_name for pod in played.pods.values() if pod.node_name)
                named = {pod.node_name for key, pod in played.pods.items() if key.name.startswith(f"{name}-")}
                assert len({racks[node] for node in named & set(nodes)}) <= 1
        before = rows


def room_without_less_important_pods(world: Json, played: NativeWorld, group: Json) -> int:
    """Return how many pods of ``group`` fit the nodes beside the pods that it may not evict."""
    priority = PRIORITIES.get(group.get("priority", ""), 0)
    free = {node["name"]: node["cpu"] for node in world["nodes"]}
    for key, pod in played.pods.items():
        other = next(step["add"] for step in world["steps"] if step["add"]["name"] == key.name.split("-")[0])
        if pod.node_name and PRIORITIES.get(other.get("priority", ""), 0) >= priority:
            free[pod.node_name] -= other["cpu"]
    return sum(cpu // group["cpu"] for cpu in free.values())


@examples(200)
@given(world=worlds())
def test_a_group_waits_only_if_no_evictions_make_room_for_its_minimum(world: Json) -> None:
    played, added = NativeWorld(world), list[Json]()
    for step in world["steps"]:
        rows = played.play(step)
        added.append(step["add"])
        for group in added:
            row, least = rows[group["name"]], group.get("minCount", 1)
            has_members = group["pods"] - row["disrupted"] >= least
            if has_members and row["bound"] == 0 and "topology" not in group:
                assert room_without_less_important_pods(world, played, group) < least


def test_a_group_without_victims_is_tried_again_when_a_pod_ends() -> None:
    world = NativeWorld({"nodes": [{"name": "n0", "cpu": 8}]})
    world.play({"add": {"name": "equal", "pods": 1, "cpu": 4, "priority": "high"}})
    world.play({"add": {"name": "low", "pods": 4, "cpu": 1, "priority": "low"}})
    urgent = {"name": "urgent", "pods": 1, "cpu": 6, "minCount": 1, "priority": "high"}
    assert world.play({"add": urgent})["urgent"]["bound"] == 0
    rows = world.play({"delete": "equal"})
    assert (rows["urgent"]["bound"], rows["low"]["bound"], rows["low"]["disrupted"]) == (1, 2, 2)


def test_a_group_without_victims_is_tried_again_when_the_protection_of_pods_ends() -> None:
    plugins = ("priority", "gang", "conformance", "cdp", "predicates", "nodeorder")
    tiers = [{"plugins": [{"name": name} for name in plugins]}]
    text = yaml.safe_dump({"actions": "allocate, preempt", "tiers": tiers})
    nodes = {"nodes": [{"name": "n0", "cpu": 2}]}
    world = NativeWorld(nodes, load_scheduler_configuration(text).configuration)
    world.play({"add": {"name": "low", "pods": 2, "cpu": 1, "priority": "low"}})
    world.run_for("60s")
    urgent = {"name": "urgent", "pods": 1, "cpu": 2, "minCount": 1, "priority": "high"}
    assert world.play({"add": urgent})["urgent"]["bound"] == 0
    world.pass_time(61)
    assert (world.bound("urgent"), world.bound("low")) == (1, 0)


def test_searches_that_found_no_victims_are_repeated_when_a_write_fails() -> None:
    world, now = NativeWorld({"nodes": [{"name": "n0", "cpu": 2}]}), 2_000.0
    model = world.model
    world.add_volcano_group("low", 2, 1, "low")
    binds = run_session(model, CONFIGURATION, now).binds
    assert len(binds) == 2
    for bind in binds:
        version = model.version
        model.assumed.bind_failed(bind)
        assert model.version != version
    world.settle()
    world.add_volcano_group("urgent", 2, 1, "high")
    evictions = run_session(model, CONFIGURATION, now).evictions
    assert evictions
    version = model.version
    model.assumed.eviction_failed(evictions[0])
    assert model.version != version


@pytest.mark.parametrize("disruption", ["Pod", "PodGroup"])
@pytest.mark.parametrize(("of_group", "of_pods", "bound"), [("high", "low", 0), ("low", "high", 1)])
def test_pods_are_evicted_by_the_priority_of_their_group(
    of_group: str, of_pods: str, bound: int, disruption: str
) -> None:
    world = NativeWorld({"nodes": [{"name": "n0", "cpu": 2}]})
    first = {"name": "first", "priority": of_group, "podPriority": of_pods, "disruption": disruption}
    world.play({"add": {"pods": 1, "cpu": 2, "minCount": 1, **first}})
    urgent = {"name": "urgent", "pods": 1, "cpu": 2, "minCount": 1, "priority": "mid"}
    assert world.play({"add": urgent})["urgent"]["bound"] == bound


@pytest.mark.parametrize("most_placements", [pytest.param(5_000, id="few"), pytest.param(0, id="many")])
def test_no_more_pods_are_evicted_than_a_group_needs(
    most_placements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_preemption, "MAX_PLACEMENTS", most_placements)
    nodes = [{"name": f"n{index}", "cpu": 8} for index in range(3)]
    world = NativeWorld({"nodes": nodes})
    world.play({"add": {"name": "low", "pods": 24, "cpu": 1, "priority": "low"}})
    urgent = {"name": "urgent", "pods": 2, "cpu": 3, "minCount": 2, "priority": "high"}
    rows = world.play({"add": urgent})
    assert rows["urgent"]["bound"] == 2
    assert (rows["low"]["bound"], rows["low"]["disrupted"]) == (18, 6)


@pytest.mark.parametrize("members", [1, 2])
def test_more_important_pods_are_evicted_where_the_least_important_ones_are_of_no_use(
    members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_preemption, "MAX_VICTIMS", 2)
    monkeypatch.setattr(native_preemption, "VICTIMS_PER_MEMBER", 1)
    large = [{"name": f"n{number}", "cpu": 6} for number in range(1, 4)]
    world = NativeWorld({"nodes": [{"name": "n0", "cpu": 5}, *large]})
    world.play({"add": {"name": "mid", "pods": 3, "cpu": 6, "priority": "mid", "disruption": "Pod"}})
    world.play({"add": {"name": "low", "pods": 5, "cpu": 1, "priority": "low", "disruption": "Pod"}})
    urgent = {"name": "urgent", "pods": members, "cpu": 6, "minCount": members, "priority": "high"}
    rows = world.play({"add": urgent})
    assert (rows["urgent"]["bound"], rows["mid"]["disrupted"], rows["low"]["disrupted"]) == (
        members,
        members,
        0,
    )


def test_a_group_that_never_fits_evicts_nothing() -> None:
    world = NativeWorld({"nodes": [{"name": "n0", "cpu": 8}]})
    world.play({"add": {"name": "low", "pods": 8, "cpu": 1, "priority": "low"}})
    urgent = {"name": "urgent", "pods": 3, "cpu": 4, "minCount": 3, "priority": "high"}
    rows = world.play({"add": urgent})
    assert (rows["urgent"]["bound"], rows["low"]["disrupted"]) == (0, 0)


@pytest.mark.parametrize(
    ("disruption", "left"),
    [pytest.param("Pod", 2, id="by pod, below its minimum"), pytest.param("PodGroup", 0, id="as a whole")],
)
def test_a_volcano_group_evicts_a_native_group(disruption: str, left: int) -> None:
    world = NativeWorld({"nodes": [{"name": f"n{index}", "cpu": 2} for index in range(2)]})
    native = {"name": "native", "pods": 4, "cpu": 1, "minCount": 4, "priority": "low"}
    world.play({"add": native | {"disruption": disruption}})
    world.add_volcano_group("urgent", 2, 1, "high")
    world.settle()
    assert (world.bound("urgent"), world.bound("native")) == (2, left)


def test_a_native_group_evicts_a_volcano_group_as_a_whole() -> None:
    world = NativeWorld({"nodes": [{"name": f"n{index}", "cpu": 2} for index in range(2)]})
    world.add_volcano_group("low", 3, 1, "low")
    world.settle()
    assert world.bound("low") == 3
    rows = world.play({"add": {"name": "urgent", "pods": 1, "cpu": 2, "minCount": 1, "priority": "high"}})
    assert (rows["urgent"]["bound"], world.bound("low")) == (1, 0)


def a_group(**spec: Any) -> native_groups.PodGroup:
    metadata = {"name": "g", "namespace": "team", "uid": "u", "annotations": spec.pop("annotations", {})}
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    return codec.convert(native_groups.PodGroup, {"metadata": metadata, "spec": policy | spec})


def test_a_native_group_has_a_key_that_no_volcano_group_can_have() -> None:
    assert native_key(Key("team", "g")) == Key("team", "scheduling.k8s.io/g")
    assert native_name(native_key(Key("team", "g"))) == Key("team", "g")
    assert native_name(Key("team", "g")) is None


def test_a_native_group_is_admitted_into_its_queue() -> None:
    group = as_volcano_group(a_group(annotations={"scheduling.volcano.sh/queue-name": "research"}))
    assert (group.spec.min_member, group.spec.queue, group.status.phase) == (3, "research", "Inqueue")
    basic = as_volcano_group(a_group(schedulingPolicy={"basic": {}}))
    assert (basic.spec.min_member, basic.spec.queue) == (1, "default")


def test_topology_of_a_native_group() -> None:
    constraints = {"topology": [{"key": "rack"}]}
    topology = native_topology(a_group(schedulingConstraints=constraints).spec)
    assert topology is not None
    assert str(topology.limit) == "label rack"
    assert native_topology(a_group().spec) is None


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param([], None, id="nothing is known yet"),
        pytest.param([("Unschedulable", "NotEnoughTasks", "2 of 3")],
                     ("False", "Unschedulable", "NotEnoughTasks: 2 of 3"), id="the group waits"),
        pytest.param([("Scheduled", "ready", "1 more waits")],
                     ("True", "Scheduled", "1 more waits"), id="the group is placed"),
        pytest.param([("Scheduled", "ready", ""), ("Unschedulable", "NotEnoughTasks", "2 of 3")],
                     ("True", "Scheduled", ""), id="a group that was placed stays so"),
    ],
)  # fmt: skip
def test_the_condition_of_a_native_group(
    conditions: list[tuple[str, str, str]], want: tuple[str, str, str] | None
) -> None:
    stored = tuple(
        PodGroupCondition(type=type_, status="True", reason=reason, message=message)
        for type_, reason, message in conditions
    )
    condition = scheduled_condition(stored)
    got = None if condition is None else (condition.status, condition.reason, condition.message)
    assert got == want


@pytest.mark.parametrize("type_", ["PodGroupScheduled", "PodGroupInitiallyScheduled"])
def test_a_new_leader_reads_what_was_written(type_: str) -> None:
    written = Condition(
        type=type_,
        status="False",
        reason="Unschedulable",
        message="NotEnoughTasks: 2 of 3",
        last_transition_time=at_epoch(0.0),
    )
    status = native_groups.PodGroupStatus(conditions=(written,))
    group = native_groups.PodGroup(metadata=a_group().metadata, spec=a_group().spec, status=status)
    read = scheduled_condition(as_volcano_group(group).status.conditions)
    assert read == structs.replace(written, type="PodGroupScheduled")
