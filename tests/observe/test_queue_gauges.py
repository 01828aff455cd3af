"""How queues share a cluster, as Prometheus is told."""

from fractions import Fraction
from pathlib import Path

from quorate.gang.policy import QueueShare
from quorate.gang.queue_report import QueueReport
from quorate.observe.catalogue import Family
from quorate.observe.queue_gauges import FAMILIES, queue_gauges
from quorate.quota.amount import UNLIMITED

GPU = "nvidia.com/gpu"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"

# As Volcano exports them.
LISTED = {
    *(
        f"volcano_queue_{amount}_{unit}"
        for amount in ("allocated", "request", "deserved", "capacity", "real_capacity")
        for unit in ("milli_cpu", "memory_bytes", "scalar_resources")
    ),
    *(f"volcano_queue_{name}" for name in ("share", "weight", "overused")),
}
A_QUEUE = QueueReport(
    weight=3,
    allocated={"cpu": 1500, GPU: 2, "pods": 4},
    request={"cpu": 2500, "memory": 1024},
    capability={"memory": 4096},
    share=QueueShare({"cpu": Fraction(5000, 3)}, {"memory": 2048, "cpu": UNLIMITED}, Fraction(9, 10), False),
)


def told(queue: QueueReport) -> dict[str, float]:
    """Each series, without prefix, with its labels but for the queue."""
    return {
        " ".join(
            [sample.name.removeprefix("volcano_queue_"), *list(sample.labels.values())[1:]]
        ): sample.value
        for family in queue_gauges({"a": queue})
        for sample in family.samples
        if sample.labels["queue_name"] == "a"
    }


def test_every_series_is_listed() -> None:
    assert {family.name for family in FAMILIES} == LISTED


def test_the_reference_page_lists_every_series_as_the_code_declares_it() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()

    def row(family: Family) -> str:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        return f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"

    assert [line for line in lines if line.startswith("| `volcano_")] == [*map(row, FAMILIES)]


def test_a_queue_as_it_stands() -> None:
    assert told(A_QUEUE) == {
        "weight": 3,
        "allocated_milli_cpu": 1500,
        "allocated_memory_bytes": 0,
        f"allocated_scalar_resources {GPU}": 2000,
        "allocated_scalar_resources pods": 4,
        "request_milli_cpu": 2500,
        "request_memory_bytes": 1024,
        "capacity_memory_bytes": 4096,
        "deserved_milli_cpu": 5000 / 3,
        "deserved_memory_bytes": 0,
        "real_capacity_memory_bytes": 2048,
        "share": 0.9,
        "overused": 0,
    }


def test_where_no_plugin_shares_nobody_deserves_anything() -> None:
    unshared = QueueReport(weight=1, allocated={}, request={}, capability={}, share=None)
    assert sorted(told(unshared)) == [
        "allocated_memory_bytes",
        "allocated_milli_cpu",
        "request_memory_bytes",
        "request_milli_cpu",
        "weight",
    ]
