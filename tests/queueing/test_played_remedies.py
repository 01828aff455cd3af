"""Each remedy of an explanation is true: after its changes the workload starts with the pods that it says."""

from collections.abc import Sequence
from typing import Any, Final, get_args

import pytest

from quorate.api.explanation import Explanation
from tests.queueing.notation import Json
from tests.queueing.played_remedies import Wait, explained, false_remedies, generated_waits
from tests.queueing.resting_histories import HistoryKind
from tests.queueing.resting_world import RestingWorld

BLOCK = 5  # worlds of one test: about 15 waits with as many remedies


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@pytest.mark.parametrize("kind", get_args(HistoryKind))
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=() if first < 10 else pytest.mark.slow if first < 20 else pytest.mark.long)
        for first in range(0, 100, BLOCK)
    ],
)
def test_every_remedy_lets_the_workload_start(first: int, kind: HistoryKind) -> None:
    seeds = range(first, first + BLOCK)
    assert [
        text for seed in seeds for wait in generated_waits(seed, kind) for text in false_remedies(wait)
    ] == []


def queue_of(**cpus: int) -> Json:
    flavors = [{"name": name, "quotas": {"cpu": {"nominal": cpu}}} for name, cpu in cpus.items()]
    return {"resourceGroups": [{"covered": ["cpu"], "flavors": flavors}]}


QUEUE: Final = queue_of(one=4)


def waiting(workload: Json, queue: Json = QUEUE, steps: Sequence[Json] = (), **given: Any) -> Explanation:
    """Return the explanation of ``workload`` while 3 of 4 cpu are used at priority 5, after ``steps``."""
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
    for step in steps:
        world.run(step)
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


NODES: Final = {
    "one": {"labels": {"pool": "a", "rack": "r1"}, "allocatable": {"cpu": 2, "pods": 10}},
    "two": {"labels": {"pool": "b", "rack": "r2"}, "allocatable": {"cpu": 2, "pods": 10}},
}
CHECKED: Final[Json] = {"config": {"nodeFit": {"mode": "Require"}}, "nodes": NODES}
PLACED: Final[Json] = {
    "flavors": {"one": {"topologyName": "dc"}},
    "topologies": {"dc": {"levels": ["rack", "kubernetes.io/hostname"]}},
    "nodes": NODES,
}


@pytest.mark.parametrize(
    ("pod_set", "others", "want"),
    [
        pytest.param(
            {"count": 3, "requests": {"cpu": 2}},
            CHECKED,
            ("1 more node must have 2 cpu free", 3, ()),
            id="more pods than nodes with room",
        ),
        pytest.param(
            {"count": 2, "requests": {"cpu": 6}},
            CHECKED,
            ("2 more nodes must have 6 cpu free", 2, ()),
            id="no node is large enough",
        ),
        pytest.param(
            {"count": 1, "requests": {"cpu": 1}, "nodeSelector": {"pool": "c"}},
            CHECKED,
            ("1 more node with pool=c must have 1 cpu free", 1, ()),
            id="no node has the label",
        ),
        pytest.param(
            {"count": 40, "requests": {"cpu": 2}},
            CHECKED,
            ("8 more nodes must have 10 cpu free", 40, ()),
            id="larger nodes instead of many",
        ),
        pytest.param(
            {"count": 2, "requests": {"cpu": 2}, "topology": {"required": "rack"}},
            PLACED,
            ("2 more nodes must have 2 cpu free, in one rack", 2, ("rack",)),
            id="a rack for all pods",
        ),
        pytest.param(
            {"count": 2, "requests": {"cpu": 2}, "topology": {"required": "pool"}},
            PLACED | {"topologies": {"dc": {"levels": ["pool", "rack", "kubernetes.io/hostname"]}}},
            ("2 more nodes must have 2 cpu free, in one pool", 2, ("pool",)),
            id="a pool for all pods, in any racks",
        ),
        pytest.param(
            {"count": 2, "requests": {"cpu": 2}, "topology": {"required": "kubernetes.io/hostname"}},
            PLACED,
            ("1 more node must have 4 cpu free", 2, ()),
            id="a node for all pods",
        ),
        pytest.param(
            {"count": 3, "requests": {"cpu": 2}, "topology": {"preferred": "rack"}},
            PLACED,
            ("1 more node must have 2 cpu free", 3, ()),
            id="any rack",
        ),
        pytest.param(
            {"count": 40, "requests": {"cpu": 2}, "topology": {"preferred": "rack"}},
            PLACED,
            ("8 more nodes must have 10 cpu free", 40, ()),
            id="many nodes in any racks",
        ),
        pytest.param(
            {"count": 40, "requests": {"cpu": 2}, "topology": {"unconstrained": True}},
            PLACED,
            ("8 more nodes must have 10 cpu free", 40, ()),
            id="many nodes anywhere",
        ),
    ],
)
def test_remedies_of_nodes(pod_set: Json, others: Json, want: tuple[str, int, tuple[str, ...]]) -> None:
    waits = {"name": "waits", "queue": "q", "podSets": [pod_set]}
    given: Json = {"flavors": {"one": {}}, "workloads": [waits], **others}
    remedy = waiting({}, queue_of(one=100), **given).remedies[0]
    (change,) = remedy.all_of
    assert change.nodes is not None
    assert (remedy.text, remedy.pods, change.nodes.same) == want


def test_nodes_that_two_pod_sets_may_use_are_in_one_rack() -> None:
    """In racks of their own, a driver and a worker would leave no node for the other worker."""
    driver = {"name": "driver", "count": 3, "requests": {"cpu": 1}, "topology": {"preferred": "rack"}}
    workers = {"name": "workers", "count": 3, "requests": {"cpu": 2}, "topology": {"preferred": "rack"}}
    given: Json = {
        "flavors": {"one": {"topologyName": "dc", "nodeLabels": {"pool": "one"}}},
        "topologies": PLACED["topologies"],
        "nodes": {},
        "workloads": [{"name": "waits", "queue": "q", "podSets": [driver, workers]}],
    }
    remedy = waiting({}, queue_of(one=100), **given).remedies[0]
    assert [change.nodes and change.nodes.same for change in remedy.all_of] == [("rack",), ("rack",)]


def test_nodes_for_fewer_pods_start_no_more_of_them_whichever_nodes_are_used() -> None:
    """The driver fits on the node of pool one, and as well on the node that a remedy asks for."""
    tolerations = [{"key": "spot", "operator": "Exists"}]
    driver = {"name": "driver", "requests": {"cpu": 2}, "tolerations": tolerations}
    workers = {"name": "workers", "count": 3, "minCount": 1, "requests": {"cpu": 1}}
    anywhere = {"topology": {"unconstrained": True}}
    given: Json = {
        "flavors": {
            "one": {"topologyName": "dc", "nodeTaints": [{"key": "spot", "effect": "NoSchedule"}]},
            "two": {"topologyName": "dc", "nodeLabels": {"pool": "two"}},
        },
        "topologies": PLACED["topologies"],
        "nodes": {"one": NODES["one"]},
        "workloads": [{"name": "waits", "queue": "q", "podSets": [driver | anywhere, workers | anywhere]}],
    }
    explanation = waiting({}, queue_of(one=2, two=0), **given)
    remedy = explanation.remedies[-1]
    assert [change.action for change in remedy.all_of] == ["ProvideNodes", "ProvideNodes", "RaiseQuota"]
    assert remedy.pods == 2


def test_lower_requests_that_the_nodes_have() -> None:
    waits = {"name": "waits", "queue": "q", "podSets": [{"count": 2, "requests": {"cpu": 6}}]}
    explanation = waiting({}, queue_of(one=100), flavors={"one": {}}, workloads=[waits], **CHECKED)
    assert explanation.enough == (
        "either 2 more nodes must have 6 cpu free",
        "or let each pod of pod set main request at most 2 cpu",
    )


def test_quota_and_nodes_are_needed_together() -> None:
    waits = {"name": "waits", "queue": "q", "requests": {"cpu": 6}}
    remedy = waiting({}, flavors={"one": {}}, workloads=[waits], **CHECKED).remedies[0]
    assert [change.action for change in remedy.all_of] == ["ProvideNodes", "RaiseQuota"]


@pytest.mark.parametrize(
    ("queue", "local_queues", "cluster_queue", "want"),
    [
        pytest.param(
            "taem-a",
            ("team-a", "lab"),
            None,
            (
                "set the label kueue.x-k8s.io/queue-name of its job to team-a (did you mean team-a?)",
                "create the LocalQueue default/taem-a for cluster queue cq",
            ),
            id="a local queue with a similar name",
        ),
        pytest.param(
            "mine",
            (),
            None,
            ("create the LocalQueue default/mine for cluster queue cq",),
            id="no local queue",
        ),
        pytest.param(
            "lab",
            ("team",),
            "gone",
            (
                "set the label kueue.x-k8s.io/queue-name of its job to team",
                "delete the LocalQueue default/lab, and create it for cluster queue cq",
            ),
            id="no cluster queue",
        ),
    ],
)
def test_remedies_of_missing_queues(
    queue: str, local_queues: Sequence[str], cluster_queue: str | None, want: tuple[str, ...]
) -> None:
    waits = {"name": "waits", "queue": queue, "requests": {"cpu": 1}}
    given = {name: {"clusterQueue": "cq"} for name in local_queues}
    given[queue] = {"clusterQueue": cluster_queue or "cq"}
    steps = [] if cluster_queue else [{"remove": {"localQueues": [queue]}}]
    explanation = waiting({}, steps=steps, localQueues=given, workloads=[waits])
    assert tuple(remedy.text for remedy in explanation.remedies) == want


def test_a_workload_that_has_used_its_execution_time_has_no_remedy() -> None:
    waits = {"name": "waits", "queue": "q", "requests": {"cpu": 1}, "maximumExecutionTimeSeconds": 5}
    stopped: Json = {"update": {"clusterQueues": {"cq": {"stopPolicy": "HoldAndDrain"}}}}
    steps: list[Json] = [{"run": None}, {"advance": "4s"}, stopped, {"advance": "5s"}, {"stop": ["waits"]}]
    assert waiting({}, steps=steps, workloads=[waits]).remedies == ()


def test_a_topology_request_in_a_queue_without_quota_has_no_remedy() -> None:
    pod_set = {"count": 3, "requests": {}, "topology": {"preferred": "rack"}}
    waits = {"name": "waits", "queue": "q", "podSets": [pod_set]}
    assert waiting({}, {"resourceGroups": []}, workloads=[waits], **PLACED).remedies == ()


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


def test_the_pods_that_a_preemption_is_for_may_be_fewer_than_all() -> None:
    keeps = {"name": "keeps", "queue": "q", "priority": 5, "requests": {"cpu": 1}}
    yields = {"name": "yields", "queue": "q", "requests": {"cpu": 3}}
    pod_set = {"count": 4, "minCount": 1, "requests": {"cpu": 1}}
    waits = {
        "name": "waits",
        "queue": "q",
        "created": 1,
        "priority": 1,
        "podSets": [pod_set],
        "create": "later",
    }
    queue = {**QUEUE, "preemption": {"withinClusterQueue": "LowerPriority"}}
    world = RestingWorld(
        {
            "flavors": {"one": {}},
            "clusterQueues": {"cq": queue},
            "localQueues": {"q": {"clusterQueue": "cq"}},
            "workloads": [keeps, yields, waits],
        }
    )
    for step in ({"run": None}, {"create": ["waits"]}, {"run": None}):
        world.run(step)
    explanation = explained(world, "waits")
    assert explanation is not None
    (remedy,) = explanation.remedies
    assert (remedy.text, remedy.pods) == ("the pods of the evicted workloads must end", 3)
    assert false_remedies(Wait(0, world, "waits", explanation)) == []


@pytest.mark.parametrize(
    ("allocatable", "want"),
    [
        pytest.param({"cpu": 8}, "with a nominalQuota of 2; no node has nvidia.com/gpu", id="on no node"),
        pytest.param({"cpu": 8, "nvidia.com/gpu": 4}, "with a nominalQuota of 2", id="on a node"),
    ],
)
def test_a_lacking_quota_says_whether_nodes_have_the_resource(allocatable: Json, want: str) -> None:
    requests = {"cpu": 1, "nvidia.com/gpu": 2}
    explanation = waiting({"requests": requests}, nodes={"n1": {"allocatable": allocatable}})
    assert (
        explanation.enough[0] == f"either add nvidia.com/gpu to a resource group of cluster queue cq, {want}"
    )
