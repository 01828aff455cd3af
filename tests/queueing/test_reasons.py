"""The causes of a refusal, as a cycle gives them: every number in them, and every name.

How causes are worded is in ``test_causes``; here it is what they know.
"""

import pytest

from quorate.api.meta import Key
from quorate.queueing.decisions import Hold
from quorate.queueing.inadmissible_reasons import (
    AffinityMismatched,
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


def causes_of_one_round(given: Json, name: str) -> tuple[InadmissibleReason, ...]:
    """Why ``name`` is refused in a single round, in which each queue has one head."""
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
DRIVER_AND_WORKERS = [
    {"name": "driver", "requests": {"cpu": 1}},
    {"name": "workers", "count": 3, "requests": {"cpu": 2}},
]


@pytest.mark.parametrize(
    ("given", "causes"),
    [
        pytest.param(
            {"clusterQueues": PAIR, "workloads": [BUSY, {"name": "w", "queue": "a", "requests": {"cpu": 4}}]},
            (QuotaShort("main", "default", "cpu", needed=4000, available=3000, maximum=8000),),
            id="short for now",
        ),
        pytest.param(
            {"clusterQueues": PAIR, "workloads": [BUSY, {"name": "w", "queue": "a", "requests": {"cpu": 9}}]},
            (
                QuotaExceeded(
                    "main", "default", "cpu", previous=0, requested=9000, available=3000, maximum=8000
                ),
            ),
            id="never",
        ),
        pytest.param(
            {
                "clusterQueues": PAIR,
                "workloads": [BUSY, {"name": "w", "queue": "a", "podSets": DRIVER_AND_WORKERS}],
            },
            (QuotaShort("workers", "default", "cpu", needed=7000, available=3000, maximum=8000),),
            id="with what the pod set before it takes",
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
            id="never, with what the pod set before it takes",
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
            id="every flavor by its own",
        ),
        pytest.param(
            {
                "clusterQueues": {"a": queue(1)},
                "workloads": [{"name": "w", "queue": "a", "requests": {"example.com/gpu": 1}}],
            },
            (ResourceUncovered("main", "example.com/gpu"),),
            id="a resource nobody offers",
        ),
        pytest.param(
            {
                "clusterQueues": {"a": queue(1, namespaceSelector={"team": "x"})},
                "workloads": [{"name": "w", "queue": "a", "requests": {"cpu": 1}}],
            },
            (NamespaceMismatched("default", "a"),),
            id="a stranger",
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
            id="somebody before it in the round",
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
            id="those that make room",
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
            (TargetsOverlap(key("victim"), key("first")),),
            id="somebody who preempts the same one",
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
            id="one that is not ready",
        ),
    ],
)
def test_causes(given: Json, causes: tuple[InadmissibleReason, ...]) -> None:
    assert causes_of_one_round(given, "w") == causes


@pytest.mark.parametrize(
    ("cause", "needed", "short_by"),
    [
        (QuotaShort("main", "f", "cpu", needed=7, available=3, maximum=8), 7, 4),
        (QuotaExceeded("main", "f", "cpu", previous=2, requested=7, available=3, maximum=8), 9, 6),
        (Shortage("f", "cpu", needed=5, available=4, maximum=8), 5, 1),
    ],
)
def test_the_numbers_of_what_is_lacking(
    cause: QuotaShort | QuotaExceeded | Shortage, needed: int, short_by: int
) -> None:
    assert (cause.needed, cause.short_by) == (needed, short_by)
