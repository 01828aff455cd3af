"""The worlds of the benchmark of topologies: their workloads, and that each gets what it asks for."""

from bench.limits import load
from bench.topology.__main__ import MEASURES
from bench.topology.worlds import CheckedQueues, model, node, pod_set
from bench.virtual_time import Simulation
from bench.worlds import BASELINE, RACK, TOPOLOGIES

from quorate.placement.topology.request import TopologyRequest
from quorate.queueing.topology.placing import place_pod_sets


def test_the_world_has_the_workloads_of_the_baseline_in_three_kinds_of_requests() -> None:
    for number, plain in enumerate(BASELINE.classes):
        thirds = TOPOLOGIES.classes[3 * number : 3 * number + 3]
        assert [each.name for each in thirds] == [
            f"{plain.name}-{request}" for request in ("required", "preferred", "balanced")
        ]
        assert sum(each.per_queue for each in thirds) == plain.per_queue
        assert {(each.cpu, each.priority, each.runs_ms) for each in thirds} == {
            (plain.cpu, plain.priority, plain.runs_ms)
        }


def test_every_workload_of_the_world_gets_places_and_ends() -> None:
    world = TOPOLOGIES._replace(cohorts=1, queues=1).scaled(0.01)
    outcome = Simulation(world).run(lambda _: None)
    assert outcome.waits_ms.keys() == {each.name for each in world.classes}
    assert sum(len(waits) for waits in outcome.waits_ms.values()) == world.workloads


def test_a_rack_has_fifty_nodes() -> None:
    found = model()
    for number in range(60):
        found.put_node(node(number))
    for pods, refused in ((50, False), (51, True)):
        placement = place_pod_sets(found, [pod_set(pods, 96_000, TopologyRequest(required=RACK))])
        assert bool(placement.failures) is refused, pods


def test_queues_that_check_nodes_admit_what_fits() -> None:
    for mode in ("Off", "Report", "Require"):
        assert CheckedQueues(mode, 3).admit(6) > 0, mode  # asserts that all six were admitted


def test_every_measure_has_a_limit() -> None:
    assert load().measures.keys() >= MEASURES.keys()
