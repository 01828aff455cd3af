"""The workload model of Lublin and Feitelson: rigid jobs of a parallel supercomputer, without a trace.

U. Lublin and D. G. Feitelson, *The workload on parallel supercomputers: modeling the characteristics of rigid
jobs*, Journal of Parallel and Distributed Computing 63(11), 2003.  The parameters are the values that the
authors publish for jobs of all types together:

- A job is serial with probability 0.244.  The binary logarithm of the size of a parallel one is uniform in
  two stages: in [0.8, m - 2.5] with probability 0.86, else in [m - 2.5, m], for 2**m processors.  With
  probability 0.576 (of all jobs) it is rounded, so that the size is a power of two; else the size is rounded.
- The natural logarithm of the run time in seconds is gamma distributed, with shape 4.2 and scale 0.94 with
  probability p, else with shape 312 and scale 0.03; p = 0.78 - 0.0054 * size.
- The natural logarithm of the time between submissions in seconds is gamma distributed with shape
  10.2303 * 1.0225 and scale 0.4871.  This time passes faster in busy hours: the share of the jobs in each
  half hour of a day that begins at 5:00 is that of a gamma distribution with shape 8.1737 and scale 3.9631.

As by the authors, run times above exp(12) s and times between submissions above exp(13) s are drawn again.
"""

import math
from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

_SERIAL: Final = 0.244
_POWER_OF_TWO: Final = 0.576
_LOWEST, _FIRST_STAGE, _SECOND_STAGE_WIDTH = 0.8, 0.86, 2.5
_SHORT: Final = (4.2, 0.94)  # shape and scale
_LONG: Final = (312.0, 0.03)
_SHORT_SLOPE, _SHORT_OFFSET = -0.0054, 0.78
_BETWEEN: Final = (10.2303 * 1.0225, 0.4871)
_CYCLE: Final = (8.1737, 3.9631)
_BUCKETS: Final = 48  # of a day
_BUCKET_S: Final = 1800.0
_DAY_BEGINS: Final = 10  # the bucket at 5:00
_LONGEST_RUN: Final = 12.0
_LONGEST_BETWEEN: Final = 13.0


class ModelledJob(NamedTuple):
    submitted_s: float  # after the first midnight
    runs_s: float
    processors: int


def modelled_jobs(jobs: int, processors: int, rng: Random) -> Iterator[ModelledJob]:
    """Yield so many jobs for a machine with so many processors (at least 1), in order of submission."""
    weights = half_hour_weights()
    now_s = 0.0
    for _ in range(jobs):
        between = rng.gammavariate(*_BETWEEN)
        while between > _LONGEST_BETWEEN:
            between = rng.gammavariate(*_BETWEEN)
        now_s = _later(now_s, math.exp(between), weights)
        size = draw_size(processors, rng)
        yield ModelledJob(now_s, draw_run_time(size, rng), size)


def draw_size(processors: int, rng: Random) -> int:
    """Return the processors of a job, from 1 to ``processors``."""
    kind = rng.random()
    largest = math.log2(processors)
    if kind < _SERIAL or largest < 1:
        return 1
    middle = max(_LOWEST, largest - _SECOND_STAGE_WIDTH)
    stage = (_LOWEST, middle) if rng.random() < _FIRST_STAGE else (middle, largest)
    logarithm = rng.uniform(*stage)
    if kind < _SERIAL + _POWER_OF_TWO:
        logarithm = math.floor(logarithm + 0.5)
    return min(processors, math.floor(2**logarithm + 0.5))


def draw_run_time(size: int, rng: Random) -> float:
    """Return the run time in seconds of a job with so many processors."""
    share = min(1.0, max(0.0, _SHORT_SLOPE * size + _SHORT_OFFSET))
    while True:
        logarithm = rng.gammavariate(*(_SHORT if rng.random() < share else _LONG))
        if logarithm <= _LONGEST_RUN:
            return math.exp(logarithm)


def half_hour_weights() -> tuple[float, ...]:
    """Return for each half hour from midnight how fast the time between submissions passes; the mean is 1."""
    shares = [0.0] * _BUCKETS
    for bucket in range(_DAY_BEGINS, _DAY_BEGINS + _BUCKETS):
        shares[bucket % _BUCKETS] = _cumulated(bucket + 1.5) - _cumulated(bucket + 0.5)  # they count from 1
    total = sum(shares)
    return tuple(share * _BUCKETS / total for share in shares)


def _later(now_s: float, between_s: float, weights: tuple[float, ...]) -> float:
    """Return the moment at which ``between_s`` have passed in the time of the daily cycle."""
    while True:
        bucket = int(now_s // _BUCKET_S)
        weight = weights[bucket % _BUCKETS]
        end_s = (bucket + 1) * _BUCKET_S
        if between_s <= (end_s - now_s) * weight:
            return now_s + between_s / weight
        between_s -= (end_s - now_s) * weight
        now_s = end_s


def _cumulated(value: float) -> float:
    """Return the distribution function of the gamma distribution of the daily cycle.

    The series of the incomplete gamma function (Abramowitz and Stegun, 6.5.29).
    """
    shape, scale = _CYCLE
    x = value / scale
    term = total = 1.0 / shape
    divisor = shape
    while term > total * 1e-16:
        divisor += 1.0
        term *= x / divisor
        total += term
    return total * math.exp(shape * math.log(x) - x - math.lgamma(shape))
