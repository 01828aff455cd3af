"""Admission fair sharing: the consumed usage of local queues, by which their workloads are ordered.

Consumed usage is an exponentially decaying average: after one half-life without usage, half of it is left.
It is sampled at intervals, for every local queue, whether or not workloads are pending.  So that a burst of
admissions does not win repeatedly between two samples, an admission counts at once with what it will have
used at the next sample (its *penalty*).
Source: Kueue's KEP-4136.  Amounts are in whole units (cores, bytes), as fractions.
"""

import math
from collections.abc import Iterable, Mapping

from quorate.api.configuration.queueing import AdmissionFairSharing
from quorate.api.meta import Key
from quorate.queueing.limits import LEAST_USAGE
from quorate.quota.amount import CPU, Usage


class ConsumedUsage:
    """The consumed usage of one local queue."""

    __slots__ = ("changed_at", "consumed", "penalties", "sampled_at")

    def __init__(self) -> None:
        self.consumed: dict[str, float] = {}  # by resource, as of ``sampled_at``
        self.sampled_at: float | None = None  # epoch seconds; None: never
        self.changed_at: float | None = None  # the last sample that changed ``consumed``; None: none did
        self.penalties: dict[Key, dict[str, float]] = {}  # of workloads of which the usage does not count yet

    def sample(
        self, usage: Usage, rules: AdmissionFairSharing, now: float, resources: Iterable[str] = ()
    ) -> None:
        """Add the usage since the last sample: ``usage``, which has been the same since then.

        Unused ``resources`` count with 0.
        """
        elapsed_s = now - self.sampled_at if self.sampled_at is not None else 0.0
        recent = _recent_fraction(elapsed_s, rules)
        current = by_resource(usage)
        consumed = {
            resource: _without_traces(
                self.consumed.get(resource, 0.0) * (1 - recent) + current.get(resource, 0.0) * recent,
                current.get(resource, 0.0),
            )
            for resource in sorted({*self.consumed, *current, *resources})
        }
        if not rules.usage_half_life_s:
            consumed = {}
        if consumed != self.consumed or self.changed_at is None:
            self.changed_at = now
        self.consumed, self.sampled_at = consumed, now

    def is_due(self, rules: AdmissionFairSharing, now: float) -> bool:
        """Return True if a sample is due: after the interval, but at once while there is a penalty."""
        return bool(self.penalties) or self.due_at(rules) <= now

    def due_at(self, rules: AdmissionFairSharing) -> float:
        """Return when the interval since the last sample ends."""
        return -math.inf if self.sampled_at is None else self.sampled_at + rules.usage_sampling_interval_s

    def add_penalty(self, key: Key, usage: Usage, rules: AdmissionFairSharing) -> None:
        """Count ``usage`` that the workload ``key`` just reserved as consumed until the next sample."""
        if rules.usage_half_life_s:
            factor = _recent_fraction(rules.usage_sampling_interval_s, rules)
            self.penalties[key] = {
                resource: amount * factor for resource, amount in by_resource(usage).items()
            }

    def settle_penalty(self, key: Key) -> None:
        """Turn the penalty of the workload ``key``, of which the usage counts now, into consumed usage."""
        for resource, amount in self.penalties.pop(key, {}).items():
            self.consumed[resource] = self.consumed.get(resource, 0.0) + amount

    def value(self, weight: float, rules: AdmissionFairSharing) -> float:
        """Return the value by which local queues are ordered; smaller comes first."""
        if weight <= 0:
            return math.inf
        total = sum(_weighted(self.consumed, rules.resource_weights), 0.0)
        for penalty in self.penalties.values():
            total += sum(_weighted(penalty, rules.resource_weights), 0.0)
        return total / weight


def by_resource(usage: Usage) -> dict[str, float]:
    """Return the sums over all flavors, in whole units."""
    result: dict[str, float] = {}
    for pair, amount in usage.items():
        units = amount / 1000 if pair.resource == CPU else float(amount)
        result[pair.resource] = result.get(pair.resource, 0.0) + units
    return result


def _without_traces(consumed: float, current: float) -> float:
    """Return ``consumed``, or 0 if nothing is used and hardly anything is left of the past usage."""
    return consumed if current or consumed >= LEAST_USAGE else 0.0


def _recent_fraction(elapsed_s: float, rules: AdmissionFairSharing) -> float:
    """Return which fraction of the average the last ``elapsed_s`` seconds make up."""
    if not rules.usage_half_life_s:
        return 1.0
    return 1 - math.pow(0.5, elapsed_s / rules.usage_half_life_s)


def _weighted(amounts: Mapping[str, float], weights: Mapping[str, float]) -> list[float]:
    return [weights.get(resource, 1.0) * amounts[resource] for resource in sorted(amounts)]
