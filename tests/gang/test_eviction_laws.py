"""The laws of evictions over generated worlds, with any order of the actions."""

import pytest
from hypothesis import example, given

from tests.gang.eviction_laws import NODES, TOP, Case, broken_laws, cases
from tests.gang.loop_search import CONFIGURATIONS
from tests.search import examples

# Pods are evicted for both waiting gangs in one session, and not for all members of ``first``.
TWO_NOMINATED_GANGS = Case(
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
            {"name": "low-0", "group": "low", "cpu": 2, "node": "n0", "phase": "Running"},
            {"name": "low-1", "group": "low", "cpu": 1, "node": "n1", "phase": "Running"},
            {"name": "low-2", "group": "low", "cpu": 2, "node": "n2", "phase": "Running"},
            {"name": "low-3", "group": "low", "cpu": 2, "node": "n2", "phase": "Running"},
            {"name": "first-0", "group": "first", "cpu": 1},
            {"name": "first-1", "group": "first", "cpu": 1},
            {"name": "second-0", "group": "second", "cpu": 2},
            {"name": "second-1", "group": "second", "cpu": 1},
        ],
    },
    {"actions": "preempt, allocate", "tiers": [[*TOP, *NODES]], "configurations": CONFIGURATIONS},
    "compat",
    one_by_one=False,
)

# Without the plugin ``gang`` the room of the first victim suffices for members of both waiting gangs.
MEMBERS_START_ONE_BY_ONE = Case(
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
            {"name": "running-0", "group": "running", "cpu": 2, "node": "n0", "phase": "Running"},
            {"name": "running-1", "group": "running", "cpu": 2, "node": "n0", "phase": "Running"},
            {"name": "first-0", "group": "first", "cpu": 1},
            {"name": "first-1", "group": "first", "cpu": 1},
            {"name": "second-0", "group": "second", "cpu": 1},
            {"name": "second-1", "group": "second", "cpu": 1},
        ],
    },
    {
        "actions": "reclaim, allocate, preempt",
        "tiers": [["priority", "conformance"], ["capacity", *NODES]],
        "configurations": CONFIGURATIONS,
    },
    "compat",
    one_by_one=True,
)

# Without the plugin ``gang`` pods were evicted for ``never``, one member of which fits no node; then it was
# rolled back before the other member started.
PARTLY_PLANNED = Case(
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
            {"name": "surplus-0", "group": "surplus", "cpu": 1, "node": "n0", "phase": "Running"},
            {"name": "surplus-1", "group": "surplus", "cpu": 1, "node": "n0", "phase": "Running"},
            {"name": "surplus-2", "group": "surplus", "cpu": 1, "node": "n1", "phase": "Running"},
            {"name": "never-0", "group": "never", "cpu": 1},
            {"name": "never-1", "group": "never", "cpu": 4},
        ],
    },
    {
        "actions": "enqueue, allocate, preempt",
        "tiers": [["priority", "conformance", "capacity", *NODES]],
        "configurations": CONFIGURATIONS,
    },
    "design",
    one_by_one=True,
)

# The gang that lost a pod still has a part of its ``minResources`` reserved, and the new pod needs it.
RECREATED_BEFORE_THE_PREEMPTOR = Case(
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
            {"name": "running-0", "group": "running", "cpu": 1, "node": "n0", "phase": "Running"},
            {"name": "running-1", "group": "running", "cpu": 1, "node": "n0", "phase": "Running"},
            {"name": "urgent-0", "group": "urgent", "cpu": 1},
        ],
    },
    {
        "actions": "enqueue, preempt, reclaim, backfill, allocate",
        "tiers": [["priority", "conformance"], ["capacity", *NODES]],
        "configurations": CONFIGURATIONS,
    },
    "design",
    one_by_one=False,
)

# Only the share of the queue is evicted for ``second``: no pod leaves its node; pods leave that of ``first``.
RESERVED_BESIDE_A_NOMINATED_NODE = Case(
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
            {"name": "low-0", "group": "low", "cpu": 1, "node": "n0", "phase": "Running"},
            {"name": "low-1", "group": "low", "cpu": 3, "node": "n2", "phase": "Running"},
            {"name": "first-0", "group": "first", "cpu": 1},
            {"name": "second-0", "group": "second", "cpu": 2},
        ],
    },
    {
        "actions": "backfill, enqueue, reclaim, allocate, preempt",
        "tiers": [[*TOP, "proportion", *NODES]],
        "configurations": CONFIGURATIONS,
    },
    "design",
    one_by_one=False,
)

# Without the plugin ``gang`` one victim suffices for a member; the HyperNode lacks room for the minimum.
MINIMUM_WITHIN_A_HYPER_NODE = Case(
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
            {"name": "surplus-0", "group": "surplus", "cpu": 1, "node": "n0", "phase": "Running"},
            {"name": "surplus-1", "group": "surplus", "cpu": 1, "node": "n1", "phase": "Running"},
            {"name": "surplus-2", "group": "surplus", "cpu": 1, "node": "n1", "phase": "Running"},
            {"name": "other-0", "group": "other", "cpu": 1, "node": "n2", "phase": "Running"},
            {"name": "tight-0", "group": "tight", "cpu": 1},
            {"name": "tight-1", "group": "tight", "cpu": 1},
        ],
    },
    {
        "actions": "allocate, preempt",
        "tiers": [["priority", "conformance"], ["capacity", *NODES]],
        "configurations": CONFIGURATIONS,
    },
    "design",
    one_by_one=False,
)


# In profile compat preempt evicts nothing for ``waiting``; reclaim, after it, evicted for it.
RECLAIMED_WITHIN_A_HYPER_NODE = Case(
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
            {"name": "running-0", "group": "running", "cpu": 1, "node": "n0", "phase": "Running"},
            {"name": "running-1", "group": "running", "cpu": 1, "node": "n1", "phase": "Running"},
            {"name": "waiting-0", "group": "waiting", "cpu": 1, "memory": 1},
        ],
    },
    {
        "actions": "preempt, reclaim, allocate, backfill, enqueue",
        "tiers": [TOP, ["capacity", *NODES]],
        "configurations": CONFIGURATIONS,
    },
    "compat",
    one_by_one=False,
)

# Evicted for ``anywhere``, which has no nominated node, ``running`` left its share to the older ``tight``.
SHARE_FOR_A_GANG_WITHIN_A_HYPER_NODE = Case(
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
            {"name": "running-0", "group": "running", "cpu": 1, "node": "n0", "phase": "Running"},
            {"name": "tight-0", "group": "tight", "cpu": 1},
            {"name": "anywhere-0", "group": "anywhere", "cpu": 1},
        ],
    },
    {
        "actions": "allocate, preempt, reclaim, backfill, enqueue",
        "tiers": [[*TOP, "proportion", *NODES]],
        "configurations": CONFIGURATIONS,
    },
    "design",
    one_by_one=False,
)

# Only the share of the queue is evicted for ``younger``; the pod of ``older`` must not have others evicted.
SHARE_FOR_THE_YOUNGER_GANG = Case(
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
            {"name": "running-0", "group": "running", "cpu": 1, "node": "n0", "phase": "Running"},
            {"name": "older-0", "group": "older", "cpu": 1, "preemptionPolicy": "Never"},
            {"name": "younger-0", "group": "younger", "cpu": 1},
        ],
    },
    {
        "actions": "allocate, preempt",
        "tiers": [[*TOP, "proportion", *NODES]],
        "configurations": CONFIGURATIONS,
    },
    "design",
    one_by_one=False,
)

# One member can be on n1 only, which the others would take in the session after the evictions.
UNEQUAL_MEMBERS = Case(
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
            *(
                {"name": f"victim-{at}", "group": "victim", "cpu": 2, "memory": 0, "node": f"n{at}",
                 "phase": "Running"}
                for at in range(2)
            ),
            {"name": "other-0", "group": "other", "cpu": 2, "memory": 0},
            *({"name": f"gang-{at}", "group": "gang", "cpu": 1, "memory": 1} for at in range(3)),
            {"name": "gang-3", "group": "gang", "cpu": 1, "memory": 1, "nodeSelector": {"zone": "y"}},
        ],
    },
    {
        "actions": "allocate, preempt, reclaim, backfill, enqueue",
        "tiers": [[*TOP, *NODES]],
        "configurations": CONFIGURATIONS,
    },
    "compat",
    one_by_one=False,
)  # fmt: skip


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@examples(500)
@example(TWO_NOMINATED_GANGS)
@example(MEMBERS_START_ONE_BY_ONE)
@example(PARTLY_PLANNED)
@example(RECREATED_BEFORE_THE_PREEMPTOR)
@example(RESERVED_BESIDE_A_NOMINATED_NODE)
@example(SHARE_FOR_THE_YOUNGER_GANG)
@example(UNEQUAL_MEMBERS)
@given(cases())
@pytest.mark.large
def test_evictions_keep_the_laws(case: Case) -> None:
    assert broken_laws(case) == []


@pytest.mark.no_cover  # as above
@examples(250)
@example(MINIMUM_WITHIN_A_HYPER_NODE)
@example(RECLAIMED_WITHIN_A_HYPER_NODE)
@example(SHARE_FOR_A_GANG_WITHIN_A_HYPER_NODE)
@given(cases(has_hyper_nodes=True))
def test_evictions_within_hyper_nodes_keep_the_laws(case: Case) -> None:
    assert broken_laws(case) == []
