"""The messages of gangs that wait for a place in the network."""

from typing import Any

import pytest

from quorate.gang.pending_reasons import can_never_fit, equivalence_key
from quorate.gang.pod_group_conditions import stable_part
from quorate.gang.reports import waiting_groups
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of

Json = dict[str, Any]

PLACE: Json = {"actions": "allocate", "tiers": [["gang"], ["predicates"]]}
ADMIT: Json = {"actions": "enqueue, allocate", "tiers": [["gang"], ["predicates"]]}
WORLD: Json = {
    "nodes": [{"name": f"n{number}", "cpu": 4} for number in range(1, 5)],
    "hyperNodes": [
        {"name": "leaf-1", "tier": 1, "nodes": "n1 n2"},
        {"name": "leaf-2", "tier": 1, "nodes": "n3"},
    ],
}
TIER_1: Json = {"highestTierAllowed": 1}
POLICY: Json = {"name": "w", "subGroupSize": 3, "minSubGroups": 1, "matchLabelKeys": ["part"]}
OTHER: Json = {"name": "other", "cpu": 4, "phase": "Running", "schedulerName": "other"}


def pods(count: int, cpu: int, **more: Any) -> Json:
    return {"name": "g", "count": count, "group": "g", "cpu": cpu, **more}


@pytest.mark.parametrize(
    ("group", "pods", "message"),
    [
        pytest.param(
            {"minMember": 4, "networkTopology": TIER_1}, [pods(4, 2), OTHER | {"node": "n1"}],
            "needs 4 pods within one HyperNode of tier ≤ 1: the largest of 2 has room for 2 (leaf-1)",
            id="room that others use",
        ),
        pytest.param(
            {"minMember": 4, "networkTopology": TIER_1}, [pods(4, 3)],
            "needs 4 pods within one HyperNode of tier ≤ 1: the largest of 2 has room for 2 (leaf-1), "
            "so it can never fit",
            id="room that does not exist",
        ),
        pytest.param(
            {"minMember": 1, "networkTopology": {"highestTierAllowed": 0}}, [pods(1, 1)],
            "needs 1 pod within one HyperNode of tier ≤ 0: there is none with nodes",
            id="no such tier",
        ),
        pytest.param(
            {"minMember": 1, "networkTopology": {"highestTierName": "rack"}}, [pods(1, 1)],
            "needs 1 pod within one HyperNode of tier rack: there is none with nodes",
            id="no tier of the name",
        ),
        pytest.param(
            {"minMember": 3, "phase": "Running", "networkTopology": TIER_1},
            [pods(2, 3), {"name": "h", "group": "g", "cpu": 3, "node": "n3", "phase": "Running"}],
            "needs 2 more pods within one HyperNode of tier ≤ 1 that contains its other pods: "
            "the largest of 1 has room for 1 (leaf-2), so it can never fit",
            id="beside pods that run",
        ),
        pytest.param(
            {"minMember": 3, "subGroupPolicy": [POLICY | {"networkTopology": TIER_1}]},
            [pods(3, 3, labels={"part": "0"})],
            "sub group w/0 needs 3 pods within one HyperNode of tier ≤ 1: the largest of 2 has room for 2 "
            "(leaf-1), so it can never fit",
            id="a sub group",
        ),
        pytest.param(
            {"minMember": 2, "subGroupPolicy": [POLICY]}, [pods(2, 1, labels={"part": "0"})],
            "sub groups w: 0 of 1 exist with all 3 members",
            id="too few pods of a sub group",
        ),
        pytest.param(
            {"minMember": 5, "networkTopology": {"mode": "soft"}}, [pods(5, 4)],
            "1 of 5 members found no node: 0/4 nodes are available: 4 Insufficient cpu (need 4, 4 at most)",
            id="soft, and too few nodes",
        ),
    ],
)  # fmt: skip
def test_message_of_a_gang_that_is_not_placed(group: Json, pods: list[Json], message: str) -> None:
    given = WORLD | {"podGroups": [{"name": "g", "phase": "Inqueue", **group}], "pods": pods}
    world = World(given, settings_of(PLACE, "design"), restarting=False)
    reason = world.session().pending_reasons.get(key_of("g"))
    condition = world.groups[key_of("g")].status.conditions[0]
    assert condition.message == message
    assert reason is None or can_never_fit(reason) == message.endswith("it can never fit")


@pytest.mark.parametrize(
    ("group", "message"),
    [
        pytest.param(
            {"minResources": {"cpu": 9}, "networkTopology": TIER_1},
            "needs cpu: 9 within one HyperNode of tier ≤ 1: the largest of 2 has 8 (leaf-1), "
            "so it can never fit",
            id="more than any has",
        ),
        pytest.param(
            {"minResources": {"nvidia.com/gpu": 1}, "networkTopology": TIER_1},
            "needs nvidia.com/gpu: 1 within one HyperNode of tier ≤ 1: none exists with nodes that have it, "
            "so it can never fit",
            id="a resource that none has",
        ),
        pytest.param(
            {"networkTopology": {"highestTierAllowed": 0}},
            "must be within one HyperNode of tier ≤ 0, and none exists with nodes, so it can never fit",
            id="no such tier",
        ),
        pytest.param({"minResources": {"cpu": 8}, "networkTopology": TIER_1}, "", id="as much as one has"),
        pytest.param({"networkTopology": {"mode": "soft", **TIER_1}}, "", id="soft"),
    ],
)
def test_explanation_of_a_group_that_is_not_admitted(group: Json, message: str) -> None:
    given = WORLD | {"podGroups": [{"name": "g", "minMember": 1, **group}]}
    world = World(given, settings_of(ADMIT, "design"), restarting=False)
    report = waiting_groups(world.model, world.settings, world.now)[key_of("g")]
    reason = report.checks["topology"]
    assert ("" if reason is None else str(reason)) == message
    assert report.admitted == (not message)


def test_the_condition_is_not_written_again_when_only_the_room_changes() -> None:
    group = {"name": "g", "phase": "Inqueue", "minMember": 4, "networkTopology": TIER_1}
    given = WORLD | {"podGroups": [group], "pods": [pods(4, 2), OTHER | {"node": "n1"}]}
    world = World(given, settings_of(PLACE, "design"), restarting=False)
    before = world.session().pending_reasons[key_of("g")]
    world.do("addPods", [OTHER | {"name": "more", "cpu": 2, "node": "n2"}])
    outcome = world.session()
    after = outcome.pending_reasons[key_of("g")]
    assert str(before) != str(after)
    assert outcome.statuses == ()
    assert equivalence_key(before) == equivalence_key(after)
    assert stable_part(str(before)) == stable_part(str(after))
