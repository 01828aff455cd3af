"""The inadmissible reasons that a round gives, with all their amounts and names.

``test_inadmissible_reasons`` checks their texts.
"""

import pytest

from quorate.api.meta import Key
from quorate.queueing.decisions import Hold
from quorate.queueing.inadmissible_reasons import (
    AffinityMismatched,
    AwaitingOtherPreemption,
    AwaitingPodsReady,
    AwaitingPreemption,
    InadmissibleReason,
    NamespaceMismatched,
    NoLongerFits,
    QuotaExceeded,
    QuotaShort,
    ResourceUncovered,
    Shortage,
    TaintUntolerated,
    TargetsOverlap,
)
from tests.queueing.notation import Json
from tests.queueing.world import World


def key(name: str) -> Key:
    return Key("default", name)


def reasons_of_one_round(given: Json, name: str) -> tuple[InadmissibleReason, ...]:
    """Return why ``name`` is pending after a single round, in which each queue has one head."""
    world = World({"flavors": ["default"], **given})
    decisions = world.admission_cycle.start_round(world.state.ledger.cluster_queues.values()).run(world.now)
    (hold,) = [one for one in decisions if isinstance(one, Hold) and one.key == key(name)]
    return hold.reasons


def queue(cpu: int, **others: object) -> Json:
    return {"quota": [{"default": {"cpu": cpu}}], **others}


# Two queues that own 4 cpus each and can use all 8.
PAIR: Json = {"a": queue(4, cohort="c"), "b": queue(4, cohort="c")}
RECLAIMING: Json = {
    name: queue(4, cohort="c", preemption={"reclaimWithinCohort": "Any"}) for name in ("a", "b")
}
BUSY = {"name": "busy", "queue": "b", "requests": {"cpu": 5}, "admitted": "default"}
FIXED_TARGETS = {"featureGates": {"RecomputeAssignmentUponPreemptionTargetsOverlap": False}}
DRIVER_AND_WORKERS = [
    {"name": "driver", "requests": {"cpu": 1}},
    {"name": "workers", "count": 3, "requests": {"cpu": 2}},
]


@pytest.mark.parametrize(
    ("given", "reasons"),
    [
        pytest.param(
            {"clusterQueues": PAIR, "workloads": [BUSY, {"name": "w", "queue": "a", "requests": {"cpu": 4}}]},
            (QuotaShort("main", "default", "cpu", needed=4000, available=3000, maximum=8000),),
            id="insufficient unused quota",
        ),
        pytest.param(
            {"clusterQueues": PAIR, "workloads": [BUSY, {"name": "w", "queue": "a", "requests": {"cpu": 9}}]},
            (
                QuotaExceeded(
                    "main", "default", "cpu", previous=0, requested=9000, available=3000, maximum=8000
                ),
            ),
            id="above the maximum capacity",
        ),
        pytest.param(
            {
                "clusterQueues": PAIR,
                "workloads": [BUSY, {"name": "w", "queue": "a", "podSets": DRIVER_AND_WORKERS}],
            },
            (QuotaShort("workers", "default", "cpu", needed=7000, available=3000, maximum=8000),),
            id="with the request of an earlier pod set",
        ),
        pytest.param(
            {
                "clusterQueues": {"a": queue(6)},
                "workloads": [{"name": "w", "queue": "a", "podSets": DRIVER_AND_WORKERS}],
            },
            (
                QuotaExceeded(
                    "workers", "default", "cpu", previous=1000, requested=6000, available=6000, maximum=6000
                ),
            ),
            id="above the maximum capacity with the request of an earlier pod set",
        ),
        pytest.param(
            {
                "flavors": {
                    "spot": {"nodeTaints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
                    "slow": {"nodeLabels": {"type": "slow"}},
                },
                "clusterQueues": {"a": {"quota": [{"spot": {"cpu": 1}}, {"slow": {"cpu": 1}}]}},
                "workloads": [
                    {
                        "name": "w",
                        "queue": "a",
                        "podSets": [{"requests": {"cpu": 1}, "nodeSelector": {"type": "fast"}}],
                    }
                ],
            },
            (TaintUntolerated("main", "spot", "k", "v", "NoSchedule"), AffinityMismatched("main", "slow")),
            id="one reason per flavor",
        ),
        pytest.param(
            {
                "clusterQueues": {"a": queue(1)},
                "workloads": [{"name": "w", "queue": "a", "requests": {"example.com/gpu": 1}}],
            },
            (ResourceUncovered("main", "example.com/gpu"),),
            id="a resource that no group covers",
        ),
        pytest.param(
            {
                "clusterQueues": {"a": queue(1, namespaceSelector={"team": "x"})},
                "workloads": [{"name": "w", "queue": "a", "requests": {"cpu": 1}}],
            },
            (NamespaceMismatched("default", "a"),),
            id="namespace mismatch",
        ),
        pytest.param(
            {
                "clusterQueues": PAIR,
                "workloads": [
                    {"name": "first", "queue": "b", "requests": {"cpu": 4}},
                    {"name": "w", "queue": "a", "requests": {"cpu": 5}},
                ],
            },
            (
                NoLongerFits(
                    key("first"), (Shortage("default", "cpu", needed=5000, available=4000, maximum=8000),)
                ),
            ),
            id="no longer fits after an earlier head",
        ),
        pytest.param(
            {
                "clusterQueues": {"cq": queue(4, preemption={"withinClusterQueue": "LowerPriority"})},
                "workloads": [
                    {
                        "name": "x",
                        "queue": "cq",
                        "priority": -1,
                        "requests": {"cpu": 2},
                        "admitted": "default",
                    },
                    {
                        "name": "y",
                        "queue": "cq",
                        "priority": -1,
                        "requests": {"cpu": 2},
                        "admitted": "default",
                    },
                    {"name": "w", "queue": "cq", "requests": {"cpu": 3}},
                ],
            },
            (
                QuotaShort("main", "default", "cpu", needed=3000, available=0, maximum=4000),
                AwaitingPreemption((key("x"), key("y"))),
            ),
            id="pending preemption",
        ),
        pytest.param(
            {
                "config": FIXED_TARGETS,
                "clusterQueues": RECLAIMING | {"hog": queue(0, cohort="c")},
                "workloads": [
                    {"name": "victim", "queue": "hog", "requests": {"cpu": 8}, "admitted": "default"},
                    {"name": "first", "queue": "b", "priority": 1, "requests": {"cpu": 4}},
                    {"name": "w", "queue": "a", "requests": {"cpu": 4}},
                ],
            },
            (TargetsOverlap(key("victim"), key("first")),),
            id="overlapping preemption targets",
        ),
        pytest.param(
            {
                "clusterQueues": RECLAIMING | {"hog": queue(0, cohort="c")},
                "workloads": [
                    {"name": "victim", "queue": "hog", "requests": {"cpu": 8}, "admitted": "default"},
                    {"name": "first", "queue": "b", "priority": 1, "requests": {"cpu": 4}},
                    {"name": "w", "queue": "a", "requests": {"cpu": 4}},
                ],
            },
            (AwaitingOtherPreemption((key("victim"),)),),
            id="what the targets of another workload free is enough",
        ),
        pytest.param(
            {
                "clusterQueues": RECLAIMING | {"hog": queue(0, cohort="c")},
                "workloads": [
                    {
                        "name": "v",
                        "queue": "hog",
                        "priority": -2,
                        "requests": {"cpu": 4},
                        "admitted": "default",
                    },
                    {"name": "u", "queue": "hog", "requests": {"cpu": 4}, "admitted": "default"},
                    {"name": "first", "queue": "b", "priority": 1, "requests": {"cpu": 4}},
                    {"name": "w", "queue": "a", "requests": {"cpu": 4}},
                ],
            },
            (
                QuotaShort("main", "default", "cpu", needed=4000, available=0, maximum=8000),
                AwaitingPreemption((key("u"),)),
            ),
            id="the targets of another workload are not enough, so it gets targets of its own",
        ),
        pytest.param(
            {
                "config": {"waitForPodsReady": {"timeout": "5m", "blockAdmission": True}},
                "clusterQueues": {"a": queue(4)},
                "workloads": [
                    {
                        "name": "unready",
                        "queue": "a",
                        "requests": {"cpu": 1},
                        "admitted": "default",
                        "podsReady": False,
                    },
                    {"name": "w", "queue": "a", "requests": {"cpu": 1}},
                ],
            },
            (AwaitingPodsReady(key("unready")),),
            id="blocked by an unready workload",
        ),
        pytest.param(
            {
                "clusterQueues": {
                    "a": {
                        "cohort": "c",
                        "quota": [{"default": {"cpu": {"nominal": 6, "borrowingLimit": 0}, "memory": 5}}],
                        "preemption": {"withinClusterQueue": "LowerPriority"},
                        "flavorFungibility": {
                            "whenCanBorrow": "TryNextFlavor",
                            "whenCanPreempt": "TryNextFlavor",
                            "preference": "PreemptionOverBorrowing",
                        },
                    },
                    "b": {"cohort": "c", "quota": [{"default": {"cpu": 4, "memory": 2}}]},
                },
                "workloads": [
                    {"name": "low", "queue": "a", "requests": {"cpu": 4, "memory": 4}, "admitted": "default"},
                    {"name": "w", "queue": "a", "priority": 1, "requests": {"cpu": 3, "memory": 3}},
                ],
            },
            (QuotaShort("main", "default", "cpu", 3000, 2000, 6000), AwaitingPreemption((key("low"),))),
            id="one resource borrows and one needs preemption",
        ),
    ],
)
def test_the_reasons_of_a_pending_workload(given: Json, reasons: tuple[InadmissibleReason, ...]) -> None:
    assert reasons_of_one_round(given, "w") == reasons


@pytest.mark.parametrize(
    ("reason", "needed", "short_by"),
    [
        (QuotaShort("main", "f", "cpu", needed=7, available=3, maximum=8), 7, 4),
        (QuotaExceeded("main", "f", "cpu", previous=2, requested=7, available=3, maximum=8), 9, 6),
        (Shortage("f", "cpu", needed=5, available=4, maximum=8), 5, 1),
    ],
)
def test_needed_and_missing_amounts(
    reason: QuotaShort | QuotaExceeded | Shortage, needed: int, short_by: int
) -> None:
    assert (reason.needed, reason.short_by) == (needed, short_by)
