"""At rest, a new process admits nothing more and preempts nothing more, in whatever order workloads arrived.

``python -m tests.rest_search queueing`` looks at 10,000 worlds, and makes counterexamples small; so do
``queueing-blocked``, ``queueing-searching`` and ``queueing-backfilling`` for worlds of one kind.
"""

from typing import get_args

import pytest

from tests.queueing.notation import Json
from tests.queueing.resting_histories import History, Kind, failure
from tests.queueing.resting_world import RestingWorld, one_queue

BLOCK = 10  # worlds of one test


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.large
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=() if first < 20 else pytest.mark.slow if first < 80 else pytest.mark.long)
        for first in range(0, 1_000, BLOCK)
    ],
)
def test_at_rest_a_new_process_decides_nothing(first: int, kind: Kind) -> None:
    histories = {seed: History(seed, kind) for seed in range(first, first + BLOCK)}
    failures = {seed: failure(history.given, history.steps) for seed, history in histories.items()}
    assert {seed: text for seed, text in failures.items() if text} == {}


def test_a_workload_of_a_host_and_a_flavor_that_are_gone_is_no_fault() -> None:
    given = one_queue([{"name": "w"}], config={"nodeFit": {"mode": "Require"}})
    steps = [{"run": None}, {"remove": {"nodes": ["n1"]}}, {"remove": {"flavors": ["one"]}}]
    assert failure(given, steps) == ""


def test_a_host_fails_after_a_second_pass_that_changed_no_places() -> None:
    """No pod is on the first host that fails, and nothing replaces the second one."""
    given = one_queue(
        [
            {
                "name": "w",
                "podSets": [{"count": 2, "requests": {"cpu": 2}, "topology": {"unconstrained": True}}],
            }
        ],
        flavors={"one": {"topologyName": "dc"}},
        topologies={"dc": {"levels": ["kubernetes.io/hostname"]}},
        nodes={name: {"allocatable": {"cpu": 3, "pods": 9}} for name in ("n1", "n2")},
        clusterQueues={"cq": {"quota": [{"one": {"cpu": 4}}]}},
    )
    steps = [{"run": None}, {"unhealthy": {"w": ["n3"]}}, {"run": None}, {"run": None}]
    world = RestingWorld(given)
    for step in steps:
        world.run(step)
    world.rest()
    assert world.workloads["w"].status.unhealthy_nodes == ()
    world.run({"remove": {"nodes": ["n2"]}})
    world.rest()
    evicted = world.condition("w", "Evicted")
    assert evicted is not None
    assert (evicted.status, evicted.reason) == ("True", "NodeFailures")


def test_a_queue_removed_by_force_leaves_its_places_to_other_trees() -> None:
    queue = {"quota": [{"one": {"cpu": 8}}]}
    given = one_queue(
        [{"name": "runs"}, {"name": "waits", "queue": "other", "created": 1}],
        config={"nodeFit": {"mode": "Require"}},
        clusterQueues={"cq": queue, "other": queue},
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    assert failure(given, [{"run": None}, {"remove": {"clusterQueues": ["cq"]}}]) == ""


def test_a_strict_queue_tries_the_workload_that_a_sample_makes_its_head() -> None:
    """The local queue of ``small`` has used more than the other one, until nothing of it runs any more."""
    given = one_queue(
        [
            {"name": "runs"},
            {"name": "large", "namespace": "other", "created": 15, "requests": {"cpu": 3}},
            {"name": "small", "created": 1},
        ],
        config={"admissionFairSharing": {"usageHalfLifeTime": "10s", "usageSamplingInterval": "5s"}},
        clusterQueues={
            "cq": {
                "quota": [{"one": {"cpu": 1}}],
                "strategy": "StrictFIFO",
                "admissionMode": "UsageBasedAdmissionFairSharing",
            }
        },
    )
    assert failure(given, [{"run": 3}, {"active": {"runs": False}}]) == ""


def test_a_queue_that_begins_to_borrow_gives_back_room() -> None:
    """``waits`` has quota, and room if ``runs`` leaves, which it may reclaim once ``borrows`` is admitted."""
    given = one_queue(
        [
            {"name": "runs", "queue": "other", "requests": {"cpu": 3}},
            {"name": "waits", "created": 1, "requests": {"cpu": 2}},
            {"name": "borrows", "queue": "other", "priority": 1, "created": 2, "create": "later"},
        ],
        config={"nodeFit": {"mode": "Require"}},
        nodes={"n1": {"allocatable": {"cpu": 4, "pods": 9}}},
        clusterQueues={
            "cq": {
                "cohort": "both",
                "quota": [{"one": {"cpu": 2}}],
                "preemption": {"reclaimWithinCohort": "Any"},
            },
            "other": {"cohort": "both", "quota": [{"one": {"cpu": 3}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    assert failure(given, [{"run": None}, {"create": ["borrows"]}]) == ""


def test_a_lost_host_of_a_workload_without_its_queue_is_no_fault() -> None:
    given = one_queue(
        [{"name": "w", "podSets": [{"requests": {"cpu": 1}, "hostPort": 80}]}],
        config={"nodeFit": {"mode": "Require"}},
    )
    steps = [{"run": None}, {"remove": {"nodes": ["n1"]}}, {"remove": {"clusterQueues": ["cq"]}}]
    assert failure(given, steps) == ""


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"update": {"namespaces": {"other": {"team": "y"}}}}, id="has other labels"),
        pytest.param({"remove": {"namespaces": ["other"]}}, id="is gone"),
    ],
)
def test_the_head_of_a_strict_queue_blocks_others_no_more_if_its_namespace(step: Json) -> None:
    given = one_queue(
        [{"name": "large", "namespace": "other", "priority": 1, "requests": {"cpu": 2}}, {"name": "small"}],
        namespaces={"default": {"team": "x"}, "other": {"team": "x"}},
        clusterQueues={
            "cq": {
                "quota": [{"one": {"cpu": 1}}],
                "strategy": "StrictFIFO",
                "namespaceSelector": {"team": "x"},
            }
        },
    )
    assert failure(given, [{"run": None}, step]) == ""


def test_fewer_pods_are_tried_again_once_nodes_have_room() -> None:
    """With all its pods ``fewer`` lacks quota, and with one of them the node, which another tree uses."""
    given = one_queue(
        [
            {"name": "runs", "queue": "other"},
            {
                "name": "fewer",
                "create": "later",
                "podSets": [{"count": 2, "minCount": 1, "requests": {"cpu": 1}}],
            },
        ],
        config={"nodeFit": {"mode": "Require"}},
        clusterQueues={"cq": {"quota": [{"one": {"cpu": 1}}]}, "other": {"quota": [{"one": {"cpu": 1}}]}},
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    steps = [{"run": None}, {"create": ["fewer"]}, {"run": None}, {"finish": ["runs"]}]
    assert failure(given, steps) == ""


def test_the_head_of_a_strict_queue_keeps_no_nodes_from_other_queues() -> None:
    """``large`` has nodes for its driver and two of its three workers, for which no preemption can help."""
    workers = {"name": "workers", "count": 3, "requests": {"cpu": 1}, "hostPort": 80}
    given = one_queue(
        [
            {"name": "large", "podSets": [{"name": "driver", "requests": {"cpu": 1}}, workers]},
            {
                "name": "small",
                "queue": "other",
                "created": 1,
                "podSets": [{"name": "driver", "requests": {"cpu": 1}}, {"requests": {"cpu": 2}}],
            },
        ],
        config={"nodeFit": {"mode": "Require"}},
        nodes={name: {"allocatable": {"cpu": 3, "pods": 9}} for name in ("n1", "n2")},
        clusterQueues={
            "cq": {"quota": [{"one": {"cpu": 5}}], "strategy": "StrictFIFO"},
            "other": {"quota": [{"one": {"cpu": 3}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    assert failure(given, [{"run": None}]) == ""


def test_the_law_notices_a_workload_that_waits_although_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.queueing.queue_trees.QueueTrees.flush_requeues", lambda self: None)
    given = one_queue([{"name": "runs"}, {"name": "waits", "created": 1}])
    assert failure(given, [{"run": None}, {"finish": ["runs"]}]) == "Reserve waits"


@pytest.mark.parametrize(
    "seed", [10_400_638, 10_401_899, 10_404_517, 10_601_858, 10_605_700, 10_804_982, 10_806_359, 10_807_794]
)
def test_planned_starts_in_histories_that_failed(seed: int) -> None:
    history = History(seed, "backfilling")
    assert failure(history.given, history.steps) == ""
