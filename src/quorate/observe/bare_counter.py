"""Counters under names that do not end in ``_total``, as some of Volcano's are.

The library adds the ending to every counter.  So these are shown without a type, which Prometheus takes as
it takes any other: ``rate`` asks for none.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge

from quorate.observe.catalogue import Family


class BareCounter(Gauge):
    _type = "unknown"


def counter_of(family: Family, labels: tuple[str, ...], registry: CollectorRegistry) -> Counter | BareCounter:
    """The counter of ``family`` under exactly its name."""
    kind = Counter if family.name.endswith("_total") else BareCounter
    return kind(family.name, family.help, labels, registry=registry)
