"""Admission fair sharing: what a local queue used of late, which decides whose turn it is.

Use is remembered as an average that forgets: after a half-life without use, half of it is left.  It is
brought up to date at intervals; so that a burst of admissions does not win again and again in between, an
admitted workload counts at once for what it will have used at the next interval (its *penalty*).
Source: Kueue's KEP-4136.  Amounts are in whole units (cores, bytes), as fractions.
"""

import math
from collections.abc import Mapping

from quorate.api.configuration import AdmissionFairSharing
from quorate.api.meta import Key
from quorate.quota.amount import CPU, Usage


class ConsumedUsage:
    """Of one local queue."""

    __slots__ = ("consumed", "penalties", "sampled_at")

    def __init__(self) -> None:
        self.consumed: dict[str, float] = {}  # by resource, as of ``sampled_at``
        self.sampled_at: float | None = None  # epoch seconds; None: nothing is known yet
        self.penalties: dict[Key, dict[str, float]] = {}  # of workloads that reserve and are not admitted yet

    def sample(self, in_use: Usage, rules: AdmissionFairSharing, now: float) -> None:
        """Take the use since the last time into account; ``in_use`` is that of the admitted workloads."""
        elapsed_s = now - self.sampled_at if self.sampled_at is not None else 0.0
        self.sampled_at = now
        recent = _recent(elapsed_s, rules)
        current = by_resource(in_use)
        self.consumed = {
            resource: self.consumed.get(resource, 0.0) * (1 - recent) + current.get(resource, 0.0) * recent
            for resource in sorted({*self.consumed, *current})
        }
        if not rules.usage_half_life_s:
            self.consumed = {}

    def is_due(self, rules: AdmissionFairSharing, now: float) -> bool:
        return self.due_at(rules) <= now

    def due_at(self, rules: AdmissionFairSharing) -> float:
        """When to sample next: at the interval, but at once while a penalty is pending."""
        if self.sampled_at is None or self.penalties:
            return -math.inf
        return self.sampled_at + rules.usage_sampling_interval_s

    def penalise(self, key: Key, usage: Usage, rules: AdmissionFairSharing) -> None:
        """Count ``usage``, which the workload ``key`` just got, as used up to the next sample."""
        if rules.usage_half_life_s:
            factor = _recent(rules.usage_sampling_interval_s, rules)
            self.penalties[key] = {
                resource: amount * factor for resource, amount in by_resource(usage).items()
            }

    def settle(self, key: Key) -> None:
        """The workload ``key`` was admitted: its penalty becomes use."""
        for resource, amount in self.penalties.pop(key, {}).items():
            self.consumed[resource] = self.consumed.get(resource, 0.0) + amount

    def value(self, weight: float, rules: AdmissionFairSharing) -> float:
        """What local queues are ordered by: the less, the sooner."""
        if weight <= 0:
            return math.inf
        total = sum(_weighted(self.consumed, rules.resource_weights), 0.0)
        for penalty in self.penalties.values():
            total += sum(_weighted(penalty, rules.resource_weights), 0.0)
        return total / weight


def by_resource(usage: Usage) -> dict[str, float]:
    """Of all flavors together, in whole units."""
    result: dict[str, float] = {}
    for pair, amount in usage.items():
        units = amount / 1000 if pair.resource == CPU else float(amount)
        result[pair.resource] = result.get(pair.resource, 0.0) + units
    return result


def _recent(elapsed_s: float, rules: AdmissionFairSharing) -> float:
    """How much of the average the last ``elapsed_s`` seconds make up."""
    if not rules.usage_half_life_s:
        return 1.0
    return 1 - math.pow(0.5, elapsed_s / rules.usage_half_life_s)


def _weighted(amounts: Mapping[str, float], weights: Mapping[str, float]) -> list[float]:
    return [weights.get(resource, 1.0) * amounts[resource] for resource in sorted(amounts)]
