"""Waits until admission by the size of a workload, and how much of its quota a queue uses."""

import pytest
from msgspec.structs import replace

from quorate.api.kueue import Admission, PodSet, PodSetAssignment, Workload, WorkloadSpec, WorkloadStatus
from quorate.api.meta import ObjectMeta, at_epoch
from quorate.api.quantity import Quantity
from quorate.observe.queueing_metrics import utilisation
from quorate.observe.workload_transitions import Sample, size_class, wait_by_size
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.conditions import new_condition
from tests.queueing.world import World

PENDING = Workload(metadata=ObjectMeta(name="w", namespace="ns", creation_timestamp=at_epoch(0)))


def a_queue(cpu: int, *running: int) -> ClusterQueueState:
    jobs = [
        {"name": f"w{number}", "queue": "q", "requests": {"cpu": size}} for number, size in enumerate(running)
    ]
    queues = {"q": {"quota": [{"default": {"cpu": cpu, "memory": 0}}]}}
    world = World({"flavors": ["default"], "clusterQueues": queues, "workloads": jobs})
    world.run({"cycle": len(jobs) + 1})
    return world.state.ledger.cluster_queues["q"]


def admitted(cpu: int) -> Workload:
    used = {"cpu": Quantity.of_units(cpu)}
    usage = PodSetAssignment(name="main", flavors={"cpu": "default"}, resource_usage=used, count=1)
    status = WorkloadStatus(
        admission=Admission(cluster_queue="q", pod_set_assignments=(usage,)),
        conditions=(new_condition(c.ADMITTED, "True", "Admitted", "", 30),),
    )
    return replace(PENDING, status=status, spec=WorkloadSpec(pod_sets=(PodSet(name="main", count=1),)))


@pytest.mark.parametrize(
    ("cpu", "size"), [(0, "small"), (10, "small"), (11, "medium"), (50, "medium"), (51, "large")]
)
def test_the_size_of_a_workload_is_its_part_of_the_nominal_quota(cpu: int, size: str) -> None:
    queue = a_queue(100)
    assert size_class(admitted(cpu), queue) == size
    waited = Sample("quorate_admission_wait_by_size_seconds", {"size": size}, 30.0)
    assert list(wait_by_size(PENDING, admitted(cpu), queue)) == [waited]
    assert list(wait_by_size(admitted(cpu), admitted(cpu), queue)) == []


def test_what_borrows_all_of_its_quota_is_large() -> None:
    assert size_class(admitted(1), a_queue(0)) == "large"


@pytest.mark.parametrize(("cpu", "running", "want"), [(8, (), 0.0), (8, (2, 2), 0.5), (0, (), 0.0)])
def test_the_utilisation_of_a_queue_is_the_part_of_its_nominal_quota_in_use(
    cpu: int, running: tuple[int, ...], want: float
) -> None:
    assert utilisation(a_queue(cpu, *running)) == want
