"""The laws of evictions over generated worlds, with any order of the actions."""

from typing import Any

import pytest
from hypothesis import example, given

from tests.gang.eviction_laws import NODES, TOP, Case, Json, broken_laws, cases
from tests.gang.loop_search import CONFIGURATIONS
from tests.search import examples


def case_of(given: Json, actions: str, *tiers: list[str], profile: str, one_by_one: bool = False) -> Case:
    conf = {"actions": actions, "tiers": list(tiers), "configurations": CONFIGURATIONS}
    return Case(given, conf, profile, one_by_one)


def members(group: str, *cpu: int, on: str = "", **fields: Any) -> list[Json]:
    """Return a pod of ``group`` for each amount of ``cpu``; with ``on``, they run on these nodes."""
    pods = [
        {"name": f"{group}-{at}", "group": group, "cpu": amount, **fields} for at, amount in enumerate(cpu)
    ]
    for pod, node in zip(pods, on.split(), strict=bool(on)):
        pod.update(node=node, phase="Running")
    return pods


# Pods are evicted for both waiting gangs in one session, and not for all members of ``first``.
TWO_NOMINATED_GANGS = case_of(
    {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [{"name": "n0", "cpu": 2}, {"name": "n1", "cpu": 1}, {"name": "n2", "cpu": 4}],
        "queues": [{"name": "q"}],
        "podGroups": [
            {"name": "low", "queue": "q", "priorityClassName": "low", "phase": "Running", "created": 0},
            {"name": "first", "queue": "q", "minMember": 2, "priorityClassName": "high", "created": 1},
            {"name": "second", "queue": "q", "minMember": 2, "priorityClassName": "high", "created": 2},
        ],
        "pods": [
            *members("low", 2, 1, 2, 2, on="n0 n1 n2 n2"),
            *members("first", 1, 1),
            *members("second", 2, 1),
        ],
    },
    "preempt, allocate",
    [*TOP, *NODES],
    profile="compat",
)

# Without the plugin ``gang`` the room of the first victim suffices for members of both waiting gangs.
MEMBERS_START_ONE_BY_ONE = case_of(
    {
        "nodes": [{"name": "n0", "cpu": 4}],
        "queues": [
            {"name": "one", "deserved": {"cpu": 1}},
            {"name": "also-one", "deserved": {"cpu": 1}},
            {"name": "three", "deserved": {"cpu": 3}},
        ],
        "podGroups": [
            {"name": "running", "queue": "one", "phase": "Running", "created": 0},
            {"name": "first", "queue": "three", "minMember": 2, "phase": "Inqueue", "created": 1},
            {"name": "second", "queue": "also-one", "phase": "Inqueue", "created": 2},
        ],
        "pods": [
            *members("running", 2, 2, on="n0 n0"),
            *members("first", 1, 1),
            *members("second", 1, 1),
        ],
    },
    "reclaim, allocate, preempt",
    ["priority", "conformance"],
    ["capacity", *NODES],
    profile="compat",
    one_by_one=True,
)

# Without the plugin ``gang`` pods were evicted for ``never``, one member of which fits no node; then it was
# rolled back before the other member started.
PARTLY_PLANNED = case_of(
    {
        "nodes": [{"name": "n0", "cpu": 3}, {"name": "n1", "cpu": 1}],
        "queues": [{"name": "q", "weight": 1, "deserved": {"cpu": 2}, "capability": {"cpu": 2}}],
        "podGroups": [
            {"name": "surplus", "queue": "q", "minResources": {"cpu": 1}, "phase": "Running", "created": 0},
            {
                "name": "never",
                "queue": "q",
                "minMember": 2,
                "minResources": {"cpu": 2},
                "phase": "Pending",
                "created": 1,
            },
        ],
        "pods": [
            *members("surplus", 1, 1, 1, on="n0 n0 n1"),
            *members("never", 1, 4),
        ],
    },
    "enqueue, allocate, preempt",
    ["priority", "conformance", "capacity", *NODES],
    profile="design",
    one_by_one=True,
)

# The gang that lost a pod still has a part of its ``minResources`` reserved, and the new pod needs it.
RECREATED_BEFORE_THE_PREEMPTOR = case_of(
    {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [{"name": "n0", "cpu": 2}],
        "queues": [{"name": "q"}],
        "podGroups": [
            {
                "name": "running",
                "queue": "q",
                "minMember": 2,
                "priorityClassName": "low",
                "minResources": {"cpu": 2},
                "phase": "Running",
                "created": 0,
            },
            {
                "name": "urgent",
                "queue": "q",
                "priorityClassName": "high",
                "minResources": {"cpu": 1},
                "phase": "Pending",
                "created": 1,
            },
        ],
        "pods": [
            *members("running", 1, 1, on="n0 n0"),
            *members("urgent", 1),
        ],
    },
    "enqueue, preempt, reclaim, backfill, allocate",
    ["priority", "conformance"],
    ["capacity", *NODES],
    profile="design",
)

# Only the share of the queue is evicted for ``second``: no pod leaves its node; pods leave that of ``first``.
RESERVED_BESIDE_A_NOMINATED_NODE = case_of(
    {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [{"name": "n0", "cpu": 1}, {"name": "n1", "cpu": 2}, {"name": "n2", "cpu": 3}],
        "queues": [{"name": "q", "capability": {"cpu": 3}}],
        "podGroups": [
            {"name": "low", "queue": "q", "priorityClassName": "low", "phase": "Running", "created": 0},
            {
                "name": "first",
                "queue": "q",
                "priorityClassName": "high",
                "minResources": {"cpu": 1},
                "phase": "Pending",
                "created": 1,
            },
            {
                "name": "second",
                "queue": "q",
                "priorityClassName": "high",
                "minResources": {"cpu": 2},
                "phase": "Pending",
                "created": 2,
            },
        ],
        "pods": [
            *members("low", 1, 3, on="n0 n2"),
            *members("first", 1),
            *members("second", 2),
        ],
    },
    "backfill, enqueue, reclaim, allocate, preempt",
    [*TOP, "proportion", *NODES],
    profile="design",
)

# Without the plugin ``gang`` one victim suffices for a member; the HyperNode lacks room for the minimum.
MINIMUM_WITHIN_A_HYPER_NODE = case_of(
    {
        "nodes": [{"name": "n0", "cpu": 1}, {"name": "n1", "cpu": 2}, {"name": "n2", "cpu": 1}],
        "hyperNodes": [{"name": "h", "tier": 1, "nodes": "n0 n1 n2"}],
        "queues": [{"name": "q"}],
        "podGroups": [
            {"name": "surplus", "queue": "q", "minResources": {"cpu": 2}, "phase": "Running", "created": 0},
            {"name": "other", "queue": "q", "phase": "Running", "created": 1},
            {
                "name": "tight",
                "queue": "q",
                "minMember": 2,
                "networkTopology": {"highestTierAllowed": 1},
                "phase": "Inqueue",
                "created": 2,
            },
        ],
        "pods": [
            *members("surplus", 1, 1, 1, on="n0 n1 n1"),
            *members("other", 1, on="n2"),
            *members("tight", 1, 1),
        ],
    },
    "allocate, preempt",
    ["priority", "conformance"],
    ["capacity", *NODES],
    profile="design",
)


# In profile compat preempt evicts nothing for ``waiting``; reclaim, after it, evicted for it.
RECLAIMED_WITHIN_A_HYPER_NODE = case_of(
    {
        "nodes": [{"name": "n0", "cpu": 1, "memory": 1}, {"name": "n1", "cpu": 1, "memory": 1}],
        "hyperNodes": [{"name": "h", "tier": 1, "nodes": "n0 n1"}],
        "queues": [
            {"name": "memory", "deserved": {"memory": 1}},
            {"name": "nothing", "deserved": {"cpu": 0}},
        ],
        "podGroups": [
            {"name": "running", "queue": "nothing", "minMember": 2, "phase": "Running", "created": 0},
            {
                "name": "waiting",
                "queue": "memory",
                "networkTopology": {"highestTierAllowed": 1},
                "phase": "Pending",
                "created": 1,
            },
        ],
        "pods": [
            *members("running", 1, 1, on="n0 n1"),
            *members("waiting", 1, memory=1),
        ],
    },
    "preempt, reclaim, allocate, backfill, enqueue",
    TOP,
    ["capacity", *NODES],
    profile="compat",
)

# Evicted for ``anywhere``, which has no nominated node, ``running`` left its share to the older ``tight``.
SHARE_FOR_A_GANG_WITHIN_A_HYPER_NODE = case_of(
    {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [{"name": "n0", "cpu": 1}, {"name": "n1", "cpu": 1}],
        "hyperNodes": [{"name": "h", "tier": 1, "nodes": "n1"}],
        "queues": [{"name": "q", "capability": {"cpu": 1}}],
        "podGroups": [
            {"name": "running", "queue": "q", "priorityClassName": "low", "phase": "Running", "created": 0},
            {
                "name": "tight",
                "queue": "q",
                "priorityClassName": "high",
                "networkTopology": {"highestTierAllowed": 1},
                "phase": "Pending",
                "created": 1,
            },
            {"name": "anywhere", "queue": "q", "priorityClassName": "high", "phase": "Pending", "created": 2},
        ],
        "pods": [
            *members("running", 1, on="n0"),
            *members("tight", 1),
            *members("anywhere", 1),
        ],
    },
    "allocate, preempt, reclaim, backfill, enqueue",
    [*TOP, "proportion", *NODES],
    profile="design",
)

# Only the share of the queue is evicted for ``younger``; the pod of ``older`` must not have others evicted.
SHARE_FOR_THE_YOUNGER_GANG = case_of(
    {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [{"name": "n0", "cpu": 1}, {"name": "n1", "cpu": 1}],
        "queues": [{"name": "q", "capability": {"cpu": 1}}],
        "podGroups": [
            {"name": "running", "queue": "q", "priorityClassName": "low", "phase": "Running", "created": 0},
            {"name": "older", "queue": "q", "priorityClassName": "high", "phase": "Inqueue", "created": 1},
            {"name": "younger", "queue": "q", "priorityClassName": "high", "phase": "Inqueue", "created": 2},
        ],
        "pods": [
            *members("running", 1, on="n0"),
            *members("older", 1, preemptionPolicy="Never"),
            *members("younger", 1),
        ],
    },
    "allocate, preempt",
    [*TOP, "proportion", *NODES],
    profile="design",
)

# One member can be on n1 only, which the others would take in the session after the evictions.
UNEQUAL_MEMBERS = case_of(
    {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [
            {"name": "n0", "cpu": 2, "labels": {"zone": "x"}, "memory": 1},
            {"name": "n1", "cpu": 3, "labels": {"zone": "y"}, "memory": 3},
            {"name": "n2", "cpu": 1, "labels": {"zone": "x"}, "memory": 1},
        ],
        "queues": [{"name": "q0", "weight": 1, "deserved": {"cpu": 0}}],
        "podGroups": [
            {"name": "victim", "queue": "q0", "minMember": 1, "priorityClassName": "low",
             "phase": "Running", "created": 0},
            {"name": "other", "queue": "q0", "minMember": 1, "priorityClassName": "low",
             "phase": "Pending", "created": 1},
            {"name": "gang", "queue": "q0", "minMember": 4, "priorityClassName": "high",
             "phase": "Pending", "created": 2},
        ],
        "pods": [
            *members("victim", 2, 2, on="n0 n1", memory=0),
            *members("other", 2, memory=0),
            *members("gang", 1, 1, 1, memory=1),
            {"name": "gang-3", "group": "gang", "cpu": 1, "memory": 1, "nodeSelector": {"zone": "y"}},
        ],
    },
    "allocate, preempt, reclaim, backfill, enqueue",
    [*TOP, *NODES],
    profile="compat",
)  # fmt: skip

# While reclaim evicted for ``third``, the idle node was for ``first`` and ``second``; then allocate gave it
# to both members of ``first`` instead, and left room for ``third``.
IDLE_NODE_LEFT_TO_ANOTHER_GANG = case_of(
    {
        "nodes": [{"name": "n0", "cpu": 3}, {"name": "n1", "cpu": 3}],
        "queues": [{"name": "q0"}, {"name": "q1"}, {"name": "q2"}],
        "podGroups": [
            {"name": "running", "queue": "q0", "minMember": 1, "phase": "Running", "created": 0},
            {"name": "third", "queue": "q2", "minMember": 1, "phase": "Pending", "created": 1},
            {"name": "second", "queue": "q1", "minMember": 1, "phase": "Pending", "created": 2},
            {"name": "first", "queue": "q0", "minMember": 1, "phase": "Pending", "created": 3},
        ],
        "pods": [
            *members("running", 1, 1, 1, on="n0 n0 n0"),
            *members("third", 1),
            *members("second", 2),
            *members("first", 1, 1),
        ],
    },
    "preempt, reclaim, allocate, backfill, enqueue",
    [*TOP, *NODES],
    profile="compat",
)


# A further member of ``first`` started on the idle node, with the share that was evicted for ``second``.
def share_for_a_second_nominated_gang(**limit: Json) -> Case:
    given: Json = {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [
            {"name": "n0", "cpu": 2},
            *({"name": name, "cpu": 1} for name in ("n1", "n2", "n3")),
        ],
        "hyperNodes": [{"name": "h", "tier": 1, "nodes": "n0 n1 n2 n3"}],
        "queues": [{"name": "q", "weight": 1, "capability": {"cpu": 4}}],
        "podGroups": [
            {
                "name": "running",
                "queue": "q",
                "minMember": 1,
                "priorityClassName": "low",
                "minResources": {"cpu": 1},
                "phase": "Running",
                "created": 0,
            },
            {
                "name": "second",
                "queue": "q",
                "minMember": 1,
                "priorityClassName": "low",
                "phase": "Pending",
                "created": 1,
                **limit,
            },
            {
                "name": "first",
                "queue": "q",
                "minMember": 1,
                "priorityClassName": "high",
                "phase": "Pending",
                "created": 2,
                **limit,
            },
        ],
        "pods": [
            *members("running", 1, 1, 1, 1, on="n0 n0 n1 n2"),
            *members("second", 1),
            *members("first", 1, 1),
        ],
    }
    actions = "allocate, preempt, reclaim, backfill, enqueue"
    return case_of(given, actions, [*TOP, "proportion", *NODES], profile="design", one_by_one=True)


# The nodes of ``other`` are given to ``owed``; ``other`` has room for a member on n2, too.
ROOM_BESIDE_A_LATE_EVICTION = case_of(
    {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [
            {"name": "n0", "cpu": 1, "scalars": {"nvidia.com/gpu": 1}},
            {"name": "n1", "cpu": 1, "labels": {"zone": "y"}},
            {"name": "n2", "cpu": 3},
        ],
        "queues": [
            {"name": "q0", "weight": 2, "deserved": {"cpu": 2}},
            {"name": "q1", "weight": 1, "deserved": {"cpu": 4}},
        ],
        "podGroups": [
            {"name": "owed", "queue": "q1", "minMember": 2, "priorityClassName": "high",
             "minResources": {"cpu": 2}, "phase": "Inqueue", "created": 0},
            {"name": "large", "queue": "q0", "priorityClassName": "high", "phase": "Inqueue", "created": 1},
            {"name": "other", "queue": "q0", "priorityClassName": "high", "phase": "Inqueue", "created": 2},
        ],
        "pods": [
            {"name": "owed-0", "group": "owed", "cpu": 1, "scalars": {"nvidia.com/gpu": 1}},
            {"name": "owed-1", "group": "owed", "cpu": 1, "nodeSelector": {"zone": "y"}},
            *members("large", 2, 2),
            *members("other", 1, 1),
        ],
    },
    "preempt, allocate, reclaim, backfill",
    TOP,
    ["capacity", *NODES],
    profile="design",
    one_by_one=True,
)  # fmt: skip


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@examples(200)
@example(TWO_NOMINATED_GANGS)
@example(MEMBERS_START_ONE_BY_ONE)
@example(PARTLY_PLANNED)
@example(RECREATED_BEFORE_THE_PREEMPTOR)
@example(RESERVED_BESIDE_A_NOMINATED_NODE)
@example(SHARE_FOR_THE_YOUNGER_GANG)
@example(UNEQUAL_MEMBERS)
@example(IDLE_NODE_LEFT_TO_ANOTHER_GANG)
@example(share_for_a_second_nominated_gang())
@example(ROOM_BESIDE_A_LATE_EVICTION)
@given(cases())
@pytest.mark.large
def test_evictions_keep_the_laws(case: Case) -> None:
    assert broken_laws(case) == []


@pytest.mark.no_cover  # as above
@examples(150)
@example(MINIMUM_WITHIN_A_HYPER_NODE)
@example(RECLAIMED_WITHIN_A_HYPER_NODE)
@example(SHARE_FOR_A_GANG_WITHIN_A_HYPER_NODE)
@example(share_for_a_second_nominated_gang(networkTopology={"highestTierAllowed": 1}))
@given(cases(has_hyper_nodes=True))
def test_evictions_within_hyper_nodes_keep_the_laws(case: Case) -> None:
    assert broken_laws(case) == []
