"""Volcano's series of how queues share a cluster.

Names, labels and units are Volcano's (1.15), so that dashboards made for it keep working: cpu and devices in
thousandths, memory in bytes.  What has no limit has no series of what it is limited to.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from prometheus_client.core import GaugeMetricFamily

from quorate.gang.reports import QueueReport
from quorate.observe.catalogue import Family
from quorate.placement.resources import MEMORY
from quorate.quota.amount import CPU, PODS, Amount

_QUEUE: Final = ("queue_name",)


def _amounts(name: str, text: str) -> tuple[Family, Family, Family]:
    """A series for cpu, one for memory, and one for everything else."""
    return (
        Family(f"volcano_queue_{name}_milli_cpu", "gauge", _QUEUE, f"{text}, in thousandths of a cpu"),
        Family(f"volcano_queue_{name}_memory_bytes", "gauge", _QUEUE, f"{text}, of memory"),
        Family(
            f"volcano_queue_{name}_scalar_resources",
            "gauge",
            (*_QUEUE, "resource"),
            f"{text}, in thousandths of a device; pods by the whole",
        ),
    )


FAMILIES: Final[tuple[Family, ...]] = (
    *_amounts("allocated", "What the pods of a queue hold"),
    *_amounts("request", "What the pods of a queue hold and ask for"),
    *_amounts("deserved", "What a queue deserves"),
    *_amounts("capacity", "The capability of a queue"),
    *_amounts("real_capacity", "What a queue can have at most"),
    Family("volcano_queue_share", "gauge", _QUEUE, "How much a queue has of what it deserves"),
    Family("volcano_queue_weight", "gauge", _QUEUE, "The weight of a queue"),
    Family("volcano_queue_overused", "gauge", _QUEUE, "1 if a queue has what it deserves, or more"),
)


def queue_gauges(reports: Mapping[str, QueueReport]) -> Iterator[GaugeMetricFamily]:
    """The series of all queues of which there are reports."""
    families = {
        family.name: GaugeMetricFamily(family.name, family.help, labels=family.labels) for family in FAMILIES
    }
    for queue in sorted(reports):
        for name, labels, value in _readings(reports[queue]):
            families[f"volcano_queue_{name}"].add_metric([queue, *labels], value)
    yield from families.values()


Reading = tuple[str, tuple[str, ...], float]


def _readings(queue: QueueReport) -> Iterator[Reading]:
    """Name without prefix, labels but for the queue, value."""
    yield "weight", (), queue.weight
    yield from _of_amounts("allocated", queue.allocated)
    yield from _of_amounts("request", queue.request)
    yield from _of_amounts("capacity", queue.capability, limits=True)
    if queue.share is not None:
        yield from _of_amounts("deserved", queue.share.deserved)
        yield from _of_amounts("real_capacity", queue.share.at_most, limits=True)
        yield "share", (), float(queue.share.share)
        yield "overused", (), float(queue.share.overused)


def _of_amounts(
    kind: str, amounts: Mapping[str, Amount | Fraction], *, limits: bool = False
) -> Iterator[Reading]:
    """``limits``: cpu and memory that are not named are unlimited rather than nothing."""
    for resource, series in ((CPU, "milli_cpu"), (MEMORY, "memory_bytes")):
        amount = amounts.get(resource)
        if isinstance(amount, int | Fraction):
            yield f"{kind}_{series}", (), float(amount)
        elif amount is None and not limits:
            yield f"{kind}_{series}", (), 0.0
    for resource, amount in sorted(amounts.items()):
        if resource not in (CPU, MEMORY) and isinstance(amount, int | Fraction):
            factor = 1 if resource == PODS else 1000
            yield f"{kind}_scalar_resources", (resource,), float(amount * factor)
