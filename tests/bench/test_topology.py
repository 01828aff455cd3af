"""The worlds of the benchmark of topologies: their workloads, and that each gets what it asks for."""

from bench.limits import load
from bench.topology.__main__ import MEASURES
from bench.topology.worlds import CheckedQueues, WaitingQueues, model, node, pod_set
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


KUEUE: dict[str, tuple[int, int, int, str, int, int, object]] = {
    # Of each queue and class: workloads, ms between two of them, pods, cpu of a pod, runtime in ms, priority,
    # and pods of a slice, or the request.
    "small-required": (120, 100, 2, "500m", 200, 50, "required"),
    "small-preferred": (120, 100, 2, "500m", 200, 50, "preferred"),
    "small-balanced": (110, 100, 2, "500m", 200, 50, 1),
    "medium-required": (34, 500, 4, "1250m", 500, 100, "required"),
    "medium-preferred": (33, 500, 4, "1250m", 500, 100, "preferred"),
    "medium-balanced": (33, 500, 4, "1250m", 500, 100, 2),
    "large-required": (17, 1_200, 8, "2500m", 1_000, 200, "required"),
    "large-preferred": (17, 1_200, 8, "2500m", 1_000, 200, "preferred"),
    "large-balanced": (16, 1_200, 8, "2500m", 1_000, 200, 4),
}


def test_the_world_has_the_arrivals_and_requests_of_kueue() -> None:
    """Those of its configuration ``tas`` (v0.19.2)."""
    found: dict[str, tuple[int, int, int, str, int, int, object]] = {}
    for each in TOPOLOGIES.classes:
        body = each.pod_set()
        (container,) = body["template"]["spec"]["containers"]
        cpu, request = container["resources"]["requests"]["cpu"], body["topologyRequest"]
        kind: object = request.get("podSetSliceSize") or next(iter(request))
        assert RACK in request.values()
        assert each.from_ms == 0
        found[each.name] = each.per_queue, each.every_ms, each.pods, cpu, each.runs_ms, each.priority, kind
    assert found == KUEUE
    assert (TOPOLOGIES.cohorts, TOPOLOGIES.queues, TOPOLOGIES.nominal, TOPOLOGIES.borrowing) == (
        5,
        6,
        20,
        100,
    )
    assert TOPOLOGIES.nodes == (10, 64, 96)


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


def test_workloads_wider_than_a_rack_are_evaluated_and_wait() -> None:
    queues = WaitingQueues(60)
    queues.refuse(40)  # asserts that each was refused for want of places
    queues.refuse(5)


def test_every_measure_has_a_limit() -> None:
    assert load().measures.keys() >= MEASURES.keys()
