"""When the mode of the check against nodes changes, and what the check costs where nothing is checked."""

import cProfile
import pstats
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api.configuration import load_configuration
from quorate.api.meta import find_condition
from quorate.queueing.nodes.topology_flavors import NODE_FIT
from tests.api.configuration.files import a_file
from tests.queueing.world import World


def a_world(**given: Any) -> World:
    return World(
        {
            "flavors": {"spot": {}},
            "nodes": {"a": {"allocatable": {"cpu": 2, "pods": 10}}},
            "clusterQueues": {"cq": {"quota": [{"spot": {"cpu": 9}}]}},
            "workloads": [{"name": "w", "queue": "cq", "requests": {"cpu": 3}}],
            **given,
        }
    )


def annotate(world: World, mode: str) -> None:
    flavor = world.state.flavors["spot"]
    world.state.put_flavor(replace(flavor, metadata=replace(flavor.metadata, annotations={NODE_FIT: mode})))


def test_a_workload_is_tried_again_when_the_mode_of_its_flavor_changes() -> None:
    world = a_world(config={"nodeFit": {"mode": "Require"}})
    world.run({"cycle": 2})
    assert not world.state.ledger.reservations
    annotate(world, "Report")
    world.run({"cycle": 1})
    assert len(world.state.ledger.reservations) == 1


@pytest.mark.parametrize("mode", ["Off", "Report", "Require"])
def test_the_mode_is_that_of_the_newest_flavor(mode: str) -> None:
    world = a_world()
    topology, spot = world.state.ledger.topology, frozenset({"spot"})
    for each in ("Require", "Report", "Off", mode):
        annotate(world, each)
        assert topology.node_fit(spot) == each
    assert (topology.placing, topology.reporting) == (
        {"spot"} if mode == "Require" else set(),
        {"spot"} if mode == "Report" else set(),
    )
    world.state.remove_flavor("spot")
    assert (topology.node_fit(spot), topology.placing, topology.reporting) == ("Off", set(), set())


@pytest.mark.parametrize(
    ("given", "is_called"),
    [
        pytest.param({"config": {"nodeFit": {"mode": "Off"}}}, False, id="the check is off"),
        pytest.param({"nodes": {}}, False, id="a cluster without nodes"),
        pytest.param({}, True, id="a cluster with nodes"),
        pytest.param(
            {"config": {"nodeFit": {"mode": "Off"}}, "flavors": {"spot": {"nodeFit": "Report"}}},
            True,
            id="on for one flavor",
        ),
    ],
)
def test_placing_is_not_called_where_no_pod_needs_a_node(given: dict[str, Any], is_called: bool) -> None:
    world = a_world(**given)
    profile = cProfile.Profile()
    profile.runcall(world.run, {"cycle": 1})
    assert len(world.state.ledger.reservations) == 1
    called = {
        name
        for (file, _, name), *_ in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
        if file.endswith("/queueing/topology/placing.py") or name == "node_fit"
    }
    assert bool(called & {"place_pod_sets", "topology_mismatch", "node_fit"}) is is_called


@pytest.mark.parametrize(
    ("text", "mode"), [("Off", "Off"), ('"Off"', "Off"), ("Report", "Report"), ("Require", "Require")]
)
def test_a_configuration_has_the_mode_also_without_quotes(text: str, mode: str) -> None:
    loaded = load_configuration(a_file(f"nodeFit: {{mode: {text}}}"))
    assert (loaded.configuration.node_fit.mode, loaded.warnings) == (mode, ())


@pytest.mark.parametrize(
    ("mode", "known", "message"),
    [
        ("Report", False, ""),
        (
            "Report",
            True,
            'admitted by quota, but 1 of 1 pods fits no node: persistentvolumeclaim "data" not found',
        ),
        (
            "Require",
            False,
            "couldn't assign flavors to pod set main: 1 of 1 pods fits no node: "
            "the volumes of the cluster are not known yet",
        ),
    ],
)
def test_pods_with_claims_wait_until_volumes_are_known_and_are_not_reported(
    mode: str, known: bool, message: str
) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    pod_set = {"name": "main", "count": 1, "requests": {"cpu": 1}, "spec": {"volumes": volumes}}
    world = a_world(
        config={"nodeFit": {"mode": mode}}, workloads=[{"name": "w", "queue": "cq", "podSets": [pod_set]}]
    )
    world.state.nodes.set_has_volumes(known)
    world.run({"cycle": 1})
    type_ = "quorate.dev/NodeFit" if mode == "Report" else "QuotaReserved"
    condition = find_condition(world.workloads["w"].status.conditions, type_)
    assert ("" if condition is None else condition.message) == message
