"""Distributions of amounts such as run times and numbers of pods, as a scenario states them.

A constant is written as it is (``10m``, ``4``); everything else as a mapping with one key:

    uniform: [10m, 30m]
    exponential: 20m                     # its mean
    lognormal: {median: 20m, sigma: 1.2}
    weibull: {scale: 1h, shape: 0.7}
    choice: [1, 2, 4, 8]                 # equally likely
    choice: {values: [1, 8], weights: [3, 1]}
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from random import Random
from typing import Final, assert_never

import msgspec

from quorate.api.decoding import strict as d
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.simulate.limits import MAX_DRAWS


class Constant(msgspec.Struct, frozen=True, tag=True):
    value: float


class Uniform(msgspec.Struct, frozen=True, tag=True):
    low: float
    high: float


class Exponential(msgspec.Struct, frozen=True, tag=True):
    mean: float


class LogNormal(msgspec.Struct, frozen=True, tag=True):
    median: float
    sigma: float  # the standard deviation of the logarithm


class Weibull(msgspec.Struct, frozen=True, tag=True):
    scale: float
    shape: float


class Choice(msgspec.Struct, frozen=True, tag=True):
    values: tuple[float, ...]
    cumulated: tuple[float, ...]  # weights, cumulated, the last is their sum


Distribution = Constant | Uniform | Exponential | LogNormal | Weibull | Choice


def draw(distribution: Distribution, rng: Random) -> float:
    """Return a value of the distribution, in its unit (seconds for durations)."""
    match distribution:
        case Constant(value):
            return value
        case Uniform(low, high):
            return low + (high - low) * rng.random()
        case Exponential(mean):
            return rng.expovariate(1.0) * mean
        case LogNormal(median, sigma):
            return median * math.exp(rng.gauss(0.0, sigma))
        case Weibull(scale, shape):
            return rng.weibullvariate(scale, shape)
        case Choice(values, cumulated):
            return values[bisect_right(cumulated, rng.random() * cumulated[-1], hi=len(values) - 1)]
    assert_never(distribution)


def draw_above(least: float, distribution: Distribution, rng: Random) -> float:
    """Return a value of the distribution, given that it is above ``least``.

    Where the distribution has hardly anything above it, twice ``least``: what lasted that long may last as
    long again.
    """
    for _ in range(MAX_DRAWS):
        value = draw(distribution, rng)
        if value > least:
            return value
    return 2 * least


def amount_of_seconds(field: d.Field) -> float:
    """Decode a duration, or a number of seconds."""
    if isinstance(field.value, int | float) and not isinstance(field.value, bool):
        return _not_negative(field)
    try:
        return max(0.0, parse_duration(field.value))
    except (InvalidDuration, TypeError, AttributeError) as invalid:
        raise d.InvalidValue("is not a duration (write 10m, 1h30m or 500ms)") from invalid


_not_negative = d.satisfying(d.number, lambda value: value >= 0, "is negative (write 0 or more)")


def durations(field: d.Field) -> Distribution:
    """Decode a distribution of durations, in seconds."""
    return _distribution(amount_of_seconds)(field)


def counts(field: d.Field) -> Distribution:
    """Decode a distribution of numbers; the caller rounds drawn values."""
    return _distribution(_not_negative)(field)


_FORMS: Final = ("uniform", "exponential", "lognormal", "weibull", "choice")


def _distribution(amount: d.Decoder[float]) -> d.Decoder[Distribution]:
    def decode(field: d.Field) -> Distribution:
        if not isinstance(field.value, dict):
            return Constant(amount(field))
        forms = [name for name in field.value if name in _FORMS]
        if len(field.value) != 1 or len(forms) != 1:
            raise d.InvalidValue(f"is not a distribution (write a value, or one of {', '.join(_FORMS)})")
        inner = field.entry(forms[0])
        decoded = inner.decode(_decoders(amount)[forms[0]], None)
        return Constant(0.0) if decoded is None else decoded

    return decode


def _decoders(amount: d.Decoder[float]) -> dict[str, Callable[[d.Field], Distribution]]:
    def uniform(field: d.Field) -> Distribution:
        bounds = d.list_of(amount, minimum=2, maximum=2)(field)
        if len(bounds) == 2 and bounds[0] > bounds[1]:
            raise d.InvalidValue("begins with the larger bound (write the smaller one first)")
        return Uniform(*bounds) if len(bounds) == 2 else Constant(0.0)

    def exponential(field: d.Field) -> Distribution:
        return Exponential(amount(field))

    def lognormal(fields: d.Section) -> Distribution:
        return LogNormal(
            _required(fields, "median", amount, "10m"), _required(fields, "sigma", _not_negative, "1.2")
        )

    def weibull(fields: d.Section) -> Distribution:
        return Weibull(
            _required(fields, "scale", amount, "1h"), _required(fields, "shape", positive_number, "0.7")
        )

    def choice(field: d.Field) -> Distribution:
        if not isinstance(field.value, dict):
            return _choice(d.list_of(amount)(field), None)
        return d.section(weighted)(field)

    def weighted(fields: d.Section) -> Distribution:
        values = fields.take("values", d.list_of(amount), ())
        return _choice(values, fields.take("weights", d.list_of(_not_negative), None))

    return {
        "uniform": uniform,
        "exponential": exponential,
        "lognormal": d.section(lognormal),
        "weibull": d.section(weibull),
        "choice": choice,
    }


def _choice(values: tuple[float, ...], weights: tuple[float, ...] | None) -> Choice:
    if weights is None:
        weights = (1.0,) * len(values)
    if len(weights) != len(values):
        raise d.InvalidValue(f"has {len(values)} values and {len(weights)} weights (write one for each)")
    if not values or sum(weights) <= 0:
        raise d.InvalidValue("has nothing to choose from (give at least one value with a weight above 0)")
    return Choice(values, tuple(accumulate(weights)))


positive_seconds = d.satisfying(amount_of_seconds, lambda value: value > 0, "must be more than 0")
positive_number = d.satisfying(d.number, lambda value: value > 0, "must be more than 0")


def _required(fields: d.Section, name: str, decoder: d.Decoder[float], example: str) -> float:
    fields.require(name, hint=f"write {name}: {example}")
    return fields.take(name, decoder, 1.0)
