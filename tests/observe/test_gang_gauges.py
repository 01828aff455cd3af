"""Series of the resources of queues."""

from fractions import Fraction

from quorate.gang.reports import QueueReport
from quorate.gang.session.callbacks import QueueShare
from quorate.observe.gang_gauges import queue_gauges
from quorate.quota.amount import UNLIMITED

GPU = "nvidia.com/gpu"

A_QUEUE = QueueReport(
    weight=3,
    allocated={"cpu": 1500, GPU: 2, "pods": 4},
    request={"cpu": 2500, "memory": 1024},
    reserved={"cpu": 500, GPU: 1},
    capability={"memory": 4096},
    share=QueueShare({"cpu": Fraction(5000, 3)}, {"memory": 2048, "cpu": UNLIMITED}, Fraction(9, 10), False),
)


def series(queue: QueueReport) -> dict[str, float]:
    """Return each value by series name without prefix and labels without the queue."""
    return {
        " ".join(
            [sample.name.removeprefix("volcano_queue_"), *list(sample.labels.values())[1:]]
        ): sample.value
        for family in queue_gauges({"a": queue})
        for sample in family.samples
        if sample.labels["queue_name"] == "a"
    }


def test_a_queue_has_all_its_series() -> None:
    assert series(A_QUEUE) == {
        "weight": 3,
        "allocated_milli_cpu": 1500,
        "allocated_memory_bytes": 0,
        f"allocated_scalar_resources {GPU}": 2000,
        "allocated_scalar_resources pods": 4,
        "request_milli_cpu": 2500,
        "request_memory_bytes": 1024,
        "inqueue_milli_cpu": 500,
        "inqueue_memory_bytes": 0,
        f"inqueue_scalar_resources {GPU}": 1000,
        "capacity_memory_bytes": 4096,
        "deserved_milli_cpu": 5000 / 3,
        "deserved_memory_bytes": 0,
        "real_capacity_memory_bytes": 2048,
        "share": 0.9,
        "overused": 0,
    }


def test_without_a_share_there_are_no_series_of_deserved_resources() -> None:
    unshared = QueueReport(weight=1, allocated={}, request={}, reserved={}, capability={}, share=None)
    assert sorted(series(unshared)) == [
        "allocated_memory_bytes",
        "allocated_milli_cpu",
        "inqueue_memory_bytes",
        "inqueue_milli_cpu",
        "request_memory_bytes",
        "request_milli_cpu",
        "weight",
    ]
