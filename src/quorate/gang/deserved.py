"""Weighted water filling: the amounts that each queue deserves of a cluster.

Each resource is divided by itself, in exact fractions.  First, every queue gets its part by weight, at most
what it requests and may have, or its guarantee if that is more.  The rest is then divided among the queues
that can still take some, in proportion to their weights, until nothing is left or no queue can take more.

Source: the plugin proportion of Volcano, which comes to the same amounts, up to rounding, by repeating the
first step with the rest until hardly anything changes.  There the rounds of one resource end early when only
places for pods are left; here places for pods are a resource like any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from quorate.placement.resources import Amounts, FractionalAmounts


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """What one queue requests and may have."""

    weight: int
    request: Amounts  # a resource that is absent: nothing
    real_capability: Amounts  # a resource that is absent: any amount
    guarantee: Amounts


def deserved(total: Amounts, demands: Mapping[str, QueueDemand]) -> dict[str, dict[str, Fraction]]:
    """Return what each queue of ``demands`` deserves of ``total``, without zeros.

    Guarantees are granted even if their sum exceeds ``total``.  If all weights are 0, no queue deserves
    anything.
    """
    if not any(demand.weight for demand in demands.values()):
        return {name: {} for name in demands}
    resources = {*total, *(resource for demand in demands.values() for resource in demand.guarantee)}
    names = sorted(demands)
    result: dict[str, dict[str, Fraction]] = {name: {} for name in demands}
    for resource in sorted(resources):
        scalars = [_scalar_demand(resource, demands[name]) for name in names]
        for name, amount in zip(names, _divide(total.get(resource, 0), scalars), strict=True):
            if amount:
                result[name][resource] = amount
    return result


@dataclass(frozen=True, slots=True)
class _ScalarDemand:
    """The demand of one queue for one resource."""

    weight: int
    limit: int  # at most, apart from the guarantee
    guarantee: int


def _scalar_demand(resource: str, demand: QueueDemand) -> _ScalarDemand:
    request = demand.request.get(resource, 0)
    return _ScalarDemand(
        weight=demand.weight,
        limit=min(request, demand.real_capability.get(resource, request)),
        guarantee=demand.guarantee.get(resource, 0),
    )


def _divide(amount: int, demands: Sequence[_ScalarDemand]) -> list[Fraction]:
    """Return the part of ``amount`` for each of ``demands``.

    All numbers are scaled by the sum of the weights.  Then integers suffice, and these are ten times as fast
    as fractions.
    """
    scale = sum(demand.weight for demand in demands)
    first = [
        max(min(amount * claim.weight, claim.limit * scale), claim.guarantee * scale) for claim in demands
    ]
    missing = [demand.limit * scale - got for demand, got in zip(demands, first, strict=True)]
    unfilled = [
        (demand.weight, missed)
        for demand, missed in zip(demands, missing, strict=True)
        if demand.weight and missed > 0
    ]
    numerator, denominator = _increase_per_weight(amount * scale - sum(first), unfilled)
    result = []
    for demand, got, missed in zip(demands, first, missing, strict=True):
        if missed <= 0 or not demand.weight:
            result.append(Fraction(got, scale))
        elif missed * denominator <= numerator * demand.weight:
            result.append(Fraction(demand.limit))
        else:
            result.append(Fraction(got * denominator + numerator * demand.weight, scale * denominator))
    return result


def _increase_per_weight(rest: int, unfilled: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return as a fraction what each unit of weight gets of ``rest``.

    ``unfilled``: pairs of weight and missing amount.  The denominator is 0 if every demand is filled and
    something may be left.
    """
    if rest <= 0:
        return 0, 1
    while unfilled:
        weights = sum(weight for weight, _ in unfilled)
        # A demand that is filled now stays filled: what it cannot take increases the parts of the others.
        filled = [missing for weight, missing in unfilled if missing * weights <= rest * weight]
        if not filled:
            return rest, weights
        unfilled = [(weight, missing) for weight, missing in unfilled if missing * weights > rest * weight]
        rest -= sum(filled)
    return 1, 0


def real_capability(
    total: Amounts, guaranteed: Amounts, guarantee: Amounts, capability: Amounts
) -> dict[str, int]:
    """Return what one queue can have of ``total`` at most.

    That is what other queues are not guaranteed, and at most its ``capability``, which has no limit for a
    resource that is absent.  ``guaranteed`` is the sum over all queues, with the ``guarantee`` of the queue
    itself.
    """
    resources = {*total, *guarantee}
    free = {
        name: max(0, total.get(name, 0) - guaranteed.get(name, 0)) + guarantee.get(name, 0)
        for name in resources
    }
    return {name: min(amount, capability.get(name, amount)) for name, amount in free.items()}


def dominant_share(part: FractionalAmounts, whole: FractionalAmounts) -> Fraction:
    """Return the largest share of ``part`` in any resource above 0 of ``whole``, or 0."""
    numerator, denominator = (
        0,
        1,
    )  # compared by cross-multiplication: one fraction is made, not one a resource
    for resource, amount in whole.items():
        if amount > 0:
            has = part.get(resource, 0)
            n = has.numerator * amount.denominator
            d = has.denominator * amount.numerator
            if n * denominator > numerator * d:
                numerator, denominator = n, d
    return Fraction(numerator, denominator)
