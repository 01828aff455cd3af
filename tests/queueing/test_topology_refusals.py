"""Why flavors and topologies refuse workloads, with Kueue's texts."""

import pytest

from quorate.api.meta import Key, find_condition
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.workload import explain_workload
from quorate.queueing.inadmissible_reasons import EvaluationFailed, PlacementRefused
from quorate.queueing.typed_reasons import reason_of
from tests.queueing.notation import Json
from tests.queueing.world import World

HOST = "kubernetes.io/hostname"


def message(topology: Json, *flavors: str, levels: tuple[str, ...] = ("rack", HOST)) -> str:
    """Return why a workload with one pod that requests ``topology`` waits in a queue with ``flavors``."""
    labels = {"pool": "tas", "rack": "r", HOST: "a"}
    topology_flavor = {"topologyName": "dc", "nodeLabels": {"pool": "tas"}}
    pod_set: Json = {"name": "main", "count": 1, "requests": {"cpu": 1}}
    if topology:
        pod_set["topology"] = topology
    world = World(
        {
            "topologies": {"dc": {"levels": [*levels]}},
            "flavors": {"tas": topology_flavor, "plain": {}},
            "nodes": {"a": {"labels": labels, "allocatable": {"cpu": 2, "pods": 10}}},
            "clusterQueues": {"cq": {"quota": [{name: {"cpu": 10} for name in flavors}]}},
            "workloads": [{"name": "w", "queue": "cq", "podSets": [pod_set]}],
        }
    )
    world.run("cycle")
    condition = find_condition(world.workloads["w"].status.conditions, "QuotaReserved")
    assert condition is not None
    return condition.message


PREFIX = "couldn't assign flavors to pod set main: "


@pytest.mark.parametrize(
    ("topology", "flavors", "want"),
    [
        pytest.param(
            {"required": "rack"}, ("plain",),
            'Flavor "plain" does not support TopologyAwareScheduling', id="a flavor without a topology",
        ),
        pytest.param(
            {"required": "row"}, ("tas",), 'Flavor "tas" does not contain the requested level',
            id="a level of another topology",
        ),
        pytest.param(
            {"required": "rack", "sliceLevel": "row", "sliceSize": 1}, ("tas",),
            'Flavor "tas" does not contain the requested level', id="slices of another topology",
        ),
        pytest.param(
            {"required": "row"}, ("plain", "tas"),
            'Flavor "plain" does not support TopologyAwareScheduling, '
            'Flavor "tas" does not contain the requested level', id="two flavors",
        ),
    ],
)  # fmt: skip
def test_flavors_that_cannot_serve_a_request(topology: Json, flavors: tuple[str, ...], want: str) -> None:
    assert message(topology, *flavors) == PREFIX + want


def test_a_plain_workload_gets_no_topology_flavor_of_a_mixed_queue() -> None:
    world = World(
        {
            "topologies": {"dc": {"levels": [HOST]}},
            "flavors": {"tas": {"topologyName": "dc", "nodeLabels": {"pool": "tas"}}, "plain": {}},
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 10}, "plain": {"cpu": 0}}]}},
            "workloads": [
                {
                    "name": "w",
                    "queue": "cq",
                    "podSets": [{"name": "main", "count": 1, "requests": {"cpu": 1}}],
                }
            ],
        }
    )
    world.run("cycle")
    condition = find_condition(world.workloads["w"].status.conditions, "QuotaReserved")
    assert condition is not None
    assert 'Flavor "tas" supports only TopologyAwareScheduling' in condition.message


@pytest.mark.parametrize(
    ("topology", "want"),
    [
        pytest.param(
            {"required": HOST, "sliceLevel": "rack", "sliceSize": 1},
            f"podset slice topology rack is above the podset topology {HOST}", id="slices above the request",
        ),
    ],
)  # fmt: skip
def test_levels_in_the_wrong_order(topology: Json, want: str) -> None:
    assert want in message(topology, "tas")


@pytest.mark.parametrize(
    ("pods", "running", "others", "slices", "want", "never"),
    [
        pytest.param(
            4, 0, 0, {}, "needs 4, 3 free, short by 1, at most 3", True, id="more than an empty rack has"
        ),
        pytest.param(
            3, 2, 0, {}, "needs 3, 1 free, short by 2, at most 3", False, id="an empty rack has room"
        ),
        pytest.param(
            4, 2, 0, {}, "needs 4, 1 free, short by 3, at most 3", True, id="neither now nor ever"
        ),
        pytest.param(
            4, 0, 0, {"sliceLevel": "rack", "sliceSize": 2}, "needs 4, 2 free, short by 2, at most 2", True,
            id="slices are counted in pods",
        ),
        pytest.param(
            3, 0, 2, {}, "needs 3, 1 free, short by 2, at most 3", False, id="pods without places may end"
        ),
        pytest.param(
            4, 0, 2, {}, "needs 4, 1 free, short by 3, at most 3", True, id="never, whichever pods end"
        ),
        pytest.param(
            3, 1, 2, {}, "needs 3, 0 free, short by 3, at most 3", False, id="pods of both kinds may end"
        ),
    ],
)  # fmt: skip
def test_the_numbers_of_a_refusal(
    pods: int, running: int, others: int, slices: Json, want: str, *, never: bool
) -> None:
    """One rack of three hosts with room for a pod each; ``running`` pods of another workload are there.

    ``others``: pods there that belong to no workload.
    """

    def workload(name: str, count: int) -> Json:
        pod_set = {"name": "main", "count": count, "requests": {"cpu": 6}}
        return {
            "name": name,
            "queue": "cq",
            "podSets": [pod_set | {"topology": {"required": "rack"} | slices}],
        }

    nodes = {
        name: {"labels": {"pool": "tas", "rack": "r", HOST: name}, "allocatable": {"cpu": 8, "pods": 10}}
        for name in ("a", "b", "c")
    }
    world = World(
        {
            "topologies": {"dc": {"levels": ["rack", HOST]}},
            "flavors": {"tas": {"topologyName": "dc", "nodeLabels": {"pool": "tas"}}},
            "nodes": nodes,
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 100}}]}},
            "workloads": [*([workload("running", running)] if running else []), workload("w", pods)],
        }
    )
    topology = world.state.ledger.topology
    for name in [*nodes][:others]:
        topology.put_unreadable_pod(Key("default", f"other-{name}"), name, {"cpu": 6000})
    for _ in range(3):
        world.run("cycle")
    condition = find_condition(world.workloads["w"].status.conditions, "quorate.dev/Waiting")
    assert condition is not None
    assert condition.message == f"pod set main: pods: {want}"
    facts = run(pending_facts(world.state, Key("default", "w")))
    assert facts is not None
    assert facts.exceeds_nodes == never


def test_the_numbers_of_a_refused_leader_are_about_the_leader() -> None:
    topology = {"required": "kubernetes.io/hostname", "group": "g"}
    pod_sets = [
        {"name": "workers", "count": 3, "requests": {"cpu": 1}, "topology": topology},
        {
            "name": "leader",
            "count": 1,
            "requests": {"cpu": 1},
            "topology": topology,
            "nodeSelector": {"d": "x"},
        },
    ]
    world = World(
        {
            "topologies": {"dc": {"levels": ["kubernetes.io/hostname"]}},
            "flavors": {"tas": {"topologyName": "dc", "nodeLabels": {"pool": "tas"}}},
            "nodes": {"a": {"labels": {"pool": "tas"}, "allocatable": {"cpu": 9, "pods": 10}}},
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 10}}]}},
            "workloads": [{"name": "w", "queue": "cq", "podSets": pod_sets}],
        }
    )
    world.run("cycle")
    key = Key("default", "w")
    found = explain_workload(world.state, world.workloads["w"], run(pending_facts(world.state, key)))
    (reason,) = found.reasons
    assert (reason.pod_set, reason.needed, reason.free, reason.at_most) == ("leader", "1", "0", "0")


def test_a_workload_may_fit_once_a_flavor_of_several_gets_nodes() -> None:
    pod_set = {"count": 1, "requests": {"cpu": 1}, "topology": {"unconstrained": True}}
    world = World(
        {
            "topologies": {"dc": {"levels": [HOST]}},
            "flavors": {name: {"topologyName": "dc", "nodeLabels": {"pool": name}} for name in ("fa", "fb")},
            "nodes": {"other": {"labels": {"pool": "other"}}},
            "clusterQueues": {"cq": {"quota": [{"fa": {"cpu": 9}}, {"fb": {"cpu": 9}}]}},
            "workloads": [{"name": "w", "queue": "cq", "podSets": [pod_set]}],
        }
    )
    world.run("cycle")
    facts = run(pending_facts(world.state, Key("default", "w")))
    assert facts is not None
    assert not facts.can_never_fit


@pytest.mark.parametrize(
    ("topology", "level"),
    [({"required": "rack"}, "rack"), ({}, HOST)],
    ids=["a rack is required", "places by default"],
)
def test_pods_never_start_if_no_node_has_the_labels_of_the_topology(topology: Json, level: str) -> None:
    node = {"labels": {HOST: "a"}, "allocatable": {"cpu": 2, "pods": 10}}
    pod_set: Json = {
        "name": "main",
        "count": 3,
        "requests": {"cpu": 1},
        **({"topology": topology} if topology else {}),
    }
    world = World(
        {
            "topologies": {"dc": {"levels": ["rack", HOST]}},
            "flavors": {"tas": {"topologyName": "dc"}},
            "nodes": {"a": node},
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 10}}]}},
            "workloads": [{"name": "w", "queue": "cq", "podSets": [pod_set]}],
        }
    )
    world.run("cycle")
    workload = world.workloads["w"]
    found = explain_workload(world.state, workload, run(pending_facts(world.state, workload.metadata.key)))
    (reason,) = found.reasons
    assert (found.state, reason.text) == ("NeverFits", f"no topology domains at level: {level}")
    assert (reason.needed, reason.free, reason.short_by, reason.at_most) == ("3", "0", "3", "0")
    assert found.remedies[0].all_of[0].action == "ProvideNodes"


def test_an_invalid_request_has_no_numbers() -> None:
    reason = reason_of(PlacementRefused("main", "failed to assign flavors"))
    assert (reason.resource, reason.needed, reason.free) == ("", "", "")


@pytest.mark.parametrize("quota", [pytest.param(4, id="explained"), pytest.param(10**20, id="decided")])
@pytest.mark.parametrize("huge", ["leader", "workers"])
def test_a_request_beyond_64_bits_fits_no_host(huge: str, quota: int) -> None:
    def pod_set(name: str, count: int) -> Json:
        requests, topology = {"cpu": 10**19 if name == huge else 1}, {"required": "rack", "group": "g"}
        return {"name": name, "count": count, "requests": requests, "topology": topology}

    world = World(
        {
            "topologies": {"dc": {"levels": ["rack", HOST]}},
            "flavors": {"tas": {"topologyName": "dc"}},
            "nodes": {"n": {"labels": {"rack": "r", HOST: "n"}, "allocatable": {"cpu": 4, "pods": 10}}},
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": quota}}]}},
            "workloads": [
                {"name": "w", "queue": "cq", "podSets": [pod_set("leader", 1), pod_set("workers", 2)]}
            ],
        }
    )
    world.run("cycle")
    facts = run(pending_facts(world.state, Key("default", "w")))
    assert facts is not None
    assert facts.hold is not None
    assert not any(isinstance(reason, EvaluationFailed) for reason in facts.hold.reasons)
