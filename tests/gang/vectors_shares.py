"""Vectors of kind ``deserved``: what each queue deserves with proportion."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from quorate.api.quantity import NANOS, parse_quantity
from quorate.gang.cache.from_objects import queue_from_object
from quorate.gang.cache.queue import Queue
from quorate.gang.deserved import QueueDemand, deserved, dominant_share, real_capability
from quorate.placement.resources import Amounts, in_base_units, less_equal, plus
from quorate.quota.amount import CPU
from tests.gang import objects

Json = dict[str, Any]

PRECISION = Fraction(1, 10**6)


def run_deserved(given: Json, expect: Json, profile: str) -> list[str]:
    """Return the differences for the listed queues.  Both profiles have the same rule."""
    total = read(given["total"])
    queues = {queue["name"]: queue_from_object(objects.queue(queue)) for queue in given["queues"]}
    opened = {queue["name"]: read(queue.get("request", {})) for queue in given["queues"]}
    allocated = {queue["name"]: read(queue.get("allocated", {})) for queue in given["queues"]}
    got = deserved(total, claims(total, queues, opened))
    found = [
        f"deserved[{name}]: expected {expected}, got {as_floats(got[name])}"
        for name, expected in expect.get("deserved", {}).items()
        if not close(got[name], expected)
    ]
    for name, expected in expect.get("share", {}).items():
        share = dominant_share(allocated[name], got[name])
        if abs(share - Fraction(expected)) > PRECISION:
            found.append(f"share[{name}]: expected {expected}, got {float(share)}")
    for name, expected in expect.get("overused", {}).items():
        overused = less_equal(got[name], allocated[name])
        if overused is not expected:
            found.append(f"overused[{name}]: expected {expected}, got {overused}")
    return found


def read(quantities: Json) -> dict[str, int]:
    return in_base_units({name: parse_quantity(str(amount)) for name, amount in quantities.items()})


def claims(
    total: Amounts, queues: Mapping[str, Queue], opened: Mapping[str, Amounts]
) -> dict[str, QueueDemand]:
    guaranteed: Amounts = {}
    for queue in queues.values():
        guaranteed = plus(guaranteed, queue.guarantee)
    return {
        name: QueueDemand(
            weight=queue.weight,
            request=opened[name],
            real_capability=real_capability(total, guaranteed, queue.guarantee, queue.capability),
            guarantee=queue.guarantee,
        )
        for name, queue in queues.items()
    }


def close(got: Mapping[str, Fraction], expected: Json) -> bool:
    """Return True within a millionth: vectors round the results of divisions."""
    exactly = {
        name: Fraction(parse_quantity(str(amount)).nanos, NANOS) * (1000 if name == CPU else 1)
        for name, amount in expected.items()
    }
    nothing = Fraction(0)
    pairs = [(got.get(name, nothing), exactly.get(name, nothing)) for name in {*got, *exactly}]
    return all(abs(left - right) <= PRECISION * (left + right) for left, right in pairs)


def as_floats(amounts: Mapping[str, Fraction]) -> dict[str, float]:
    return {name: float(amount) for name, amount in amounts.items()}
