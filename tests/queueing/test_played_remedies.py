"""Each remedy of an explanation is true: after its changes the workload starts with the pods that it says."""

from typing import Any, Final, get_args

import pytest

from quorate.api.explanation import Explanation
from tests.queueing.notation import Json
from tests.queueing.played_remedies import Wait, explained, false_remedies, generated_waits
from tests.queueing.resting_histories import Kind
from tests.queueing.resting_world import RestingWorld

BLOCK = 10  # worlds of one test: about 30 waits with as many remedies


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=() if first < 20 else pytest.mark.slow if first < 60 else pytest.mark.long)
        for first in range(0, 200, BLOCK)
    ],
)
def test_every_remedy_lets_the_workload_start(first: int, kind: Kind) -> None:
    seeds = range(first, first + BLOCK)
    assert [
        text for seed in seeds for wait in generated_waits(seed, kind) for text in false_remedies(wait)
    ] == []


def queue_of(**cpus: int) -> Json:
    flavors = [{"name": name, "quotas": {"cpu": {"nominal": cpu}}} for name, cpu in cpus.items()]
    return {"resourceGroups": [{"covered": ["cpu"], "flavors": flavors}]}


QUEUE: Final = queue_of(one=4)


def waiting(workload: Json, queue: Json = QUEUE, **given: Any) -> Explanation:
    """Return the explanation of ``workload`` while 3 of 4 cpu are used at priority 5."""
    runs = {"name": "runs", "queue": "q", "requests": {"cpu": 3}, "priority": 5}
    world = RestingWorld(
        {
            "flavors": {"one": {}, "two": {"nodeTaints": [{"key": "spot", "effect": "NoSchedule"}]}},
            "clusterQueues": {"cq": queue},
            "localQueues": {"q": {"clusterQueue": "cq"}},
            "workloads": [runs, {"name": "waits", "queue": "q", "created": 1, **workload}],
            **given,
        }
    )
    world.rest()
    explanation = explained(world, "waits")
    assert explanation is not None
    assert false_remedies(Wait(0, world, "waits", explanation)) == []
    return explanation


FREE: Final = "more cpu of flavor one must become free"
ONE_LESS: Final = "let each pod of pod set main request at most"


@pytest.mark.parametrize(
    ("workload", "queue", "want"),
    [
        pytest.param(
            {"requests": {"cpu": 2}}, QUEUE, (f"either 1 {FREE}", f"or {ONE_LESS} 1 cpu"), id="a shortage"
        ),
        pytest.param(
            {"podSets": [{"count": 4, "minCount": 2, "requests": {"cpu": 1}}]},
            QUEUE,
            (f"either 3 {FREE}", f"or 1 {FREE}: then it starts with 2 of 4 pods", f"or {ONE_LESS} 250m cpu"),
            id="fewer pods are enough",
        ),
        pytest.param(
            {"podSets": [{"requests": {"cpu": 1}}, {"name": "workers", "count": 2, "requests": {"cpu": 1}}]},
            QUEUE,
            (f"2 {FREE}",),
            id="all pod sets together",
        ),
        pytest.param(
            {"requests": {"cpu": 6}},
            QUEUE,
            (
                f"either raise nominalQuota of cpu of flavor one in cluster queue cq by 2 and 3 {FREE}",
                f"or {ONE_LESS} 1 cpu",
            ),
            id="more than the quota",
        ),
        pytest.param(
            {"requests": {"cpu": 2}},
            queue_of(one=4, two=1),
            (
                f"either 1 {FREE}",
                "or add a toleration of spot=:NoSchedule to pod set main and "
                "raise nominalQuota of cpu of flavor two in cluster queue cq by 1",
                f"or {ONE_LESS} 1 cpu",
            ),
            id="one of two flavors",
        ),
        pytest.param(
            {"requests": {"cpu": 2}, "priority": 2},
            QUEUE | {"preemption": {"withinClusterQueue": "LowerPriority"}},
            (f"either 1 {FREE}", f"or {ONE_LESS} 1 cpu", "or raise its priority to 6"),
            id="a higher priority",
        ),
        pytest.param(
            {"requests": {"cpu": 1, "gpu": 2}},
            QUEUE,
            (
                "either add gpu to a resource group of cluster queue cq, with a nominalQuota of 2",
                "or remove the request for gpu from pod set main",
            ),
            id="a resource without quota",
        ),
    ],
)  # fmt: skip
def test_remedies_in_words(workload: Json, queue: Json, want: tuple[str, ...]) -> None:
    assert waiting(workload, queue).enough[: len(want)] == want


def test_a_higher_priority_is_no_remedy_without_preemption() -> None:
    never = "a higher priority does not help: withinClusterQueue of cluster queue cq is Never"
    assert waiting({"requests": {"cpu": 2}}).enough[-1] == never


def test_remedies_name_the_rivals() -> None:
    rival = {"name": "rival", "queue": "q", "created": 2, "requests": {"cpu": 2}}
    runs = {"name": "runs", "queue": "q", "requests": {"cpu": 3}}
    waits = {"name": "waits", "queue": "q", "created": 1, "requests": {"cpu": 2}}
    explanation = waiting({}, workloads=[runs, waits, rival])
    assert explanation.rivals == 1
    assert (
        "provided that the other workload pending in its cluster queue or cohorts cannot start first"
        in explanation.enough
    )
