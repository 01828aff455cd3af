"""Weighted water filling: how much of a cluster each queue deserves of what all of them ask for.

Think of vessels, one a queue, each as wide as its weight and as high as what the queue may and wants to have.
In a first pour every vessel gets its part by weight, or what fits, or what it is guaranteed if that is more.
What is left is then poured so that the level rises by the same height in all that have room, until nothing
is left or all are full.  Each resource is poured by itself; all are exact fractions.

Source: the plugin proportion of Volcano, which comes to the same levels, up to rounding, by repeating the
first pour with what is left until hardly anything changes.  There the rounds of one resource end early when
only places for pods are left; here pods take part like anything else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from quorate.placement.resources import Amounts, FractionalAmounts


@dataclass(frozen=True, slots=True)
class Claim:
    """What one queue wants and may have."""

    weight: int
    request: Amounts  # a resource that is missing: nothing
    real_capability: Amounts  # a resource that is missing: any amount
    guarantee: Amounts


def deserved(total: Amounts, claims: Mapping[str, Claim]) -> dict[str, dict[str, Fraction]]:
    """What each queue of ``claims`` deserves of ``total``; resources it deserves nothing of are left out.

    Guarantees are granted even where all together they exceed ``total``.  Without any weight nobody gets
    anything.
    """
    if not any(claim.weight for claim in claims.values()):
        return {name: {} for name in claims}
    resources = {*total, *(resource for claim in claims.values() for resource in claim.guarantee)}
    names = sorted(claims)
    result: dict[str, dict[str, Fraction]] = {name: {} for name in claims}
    for resource in sorted(resources):
        vessels = [_vessel(resource, claims[name]) for name in names]
        for name, level in zip(names, _poured(total.get(resource, 0), vessels), strict=True):
            if level:
                result[name][resource] = level
    return result


@dataclass(frozen=True, slots=True)
class _Vessel:
    weight: int
    holds: int  # at most, its guarantee aside
    guarantee: int


def _vessel(resource: str, claim: Claim) -> _Vessel:
    wanted = claim.request.get(resource, 0)
    return _Vessel(
        weight=claim.weight,
        holds=min(wanted, claim.real_capability.get(resource, wanted)),
        guarantee=claim.guarantee.get(resource, 0),
    )


def _poured(amount: int, vessels: Sequence[_Vessel]) -> list[Fraction]:
    """What is in each vessel at the end.

    Counted in parts of a unit, of which all weights together make one: then whole numbers do, which are ten
    times as fast as fractions.
    """
    parts = sum(vessel.weight for vessel in vessels)
    first = [
        max(min(amount * vessel.weight, vessel.holds * parts), vessel.guarantee * parts) for vessel in vessels
    ]
    rooms = [vessel.holds * parts - got for vessel, got in zip(vessels, first, strict=True)]
    open_ = [
        (each.weight, room) for each, room in zip(vessels, rooms, strict=True) if each.weight and room > 0
    ]
    rise, width = _rise(amount * parts - sum(first), open_)
    levels = []
    for vessel, got, room in zip(vessels, first, rooms, strict=True):
        if room <= 0 or not vessel.weight:
            levels.append(Fraction(got, parts))
        elif room * width <= rise * vessel.weight:
            levels.append(Fraction(vessel.holds))
        else:
            levels.append(Fraction(got * width + rise * vessel.weight, parts * width))
    return levels


def _rise(left: int, rooms: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """By how much, as a fraction, the level rises in vessels (weight, room) when ``left`` is poured into all.

    The denominator is 0 when all are full and something may be left.
    """
    if left <= 0:
        return 0, 1
    while rooms:
        width = sum(weight for weight, _ in rooms)
        # Whoever is full at this level is full in the end: what it cannot take only makes the level rise.
        full = [room for weight, room in rooms if room * width <= left * weight]
        if not full:
            return left, width
        rooms = [(weight, room) for weight, room in rooms if room * width > left * weight]
        left -= sum(full)
    return 1, 0


def real_capability(total: Amounts, guaranteed: Amounts, own: Amounts, capability: Amounts) -> dict[str, int]:
    """What one queue can have of ``total`` at most: not what others are guaranteed, nor over its capability.

    ``guaranteed``: the sum over all queues, ``own`` included.  ``capability`` is any amount of a resource it
    does not name.
    """
    resources = {*total, *own}
    free = {
        name: max(0, total.get(name, 0) - guaranteed.get(name, 0)) + own.get(name, 0) for name in resources
    }
    return {name: min(amount, capability.get(name, amount)) for name, amount in free.items()}


def dominant_share(part: FractionalAmounts, whole: FractionalAmounts) -> Fraction:
    """The largest share ``part`` has of a resource there is something of in ``whole``; 0 without any."""
    over, under = 0, 1  # compared crosswise: one fraction is made, not one for each resource
    for resource, amount in whole.items():
        if amount > 0:
            has = part.get(resource, 0)
            numerator = has.numerator * amount.denominator
            denominator = has.denominator * amount.numerator
            if numerator * under > over * denominator:
                over, under = numerator, denominator
    return Fraction(over, under)
