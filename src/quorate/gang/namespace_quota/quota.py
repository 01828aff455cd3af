"""ResourceQuotas in base units, and their confirmed usage."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

from quorate.api.core import ResourceQuotaSpec
from quorate.api.meta import Key

SETTLES_S: Final = 1.0  # how long the watch of pods may lag behind a quota that is charged for a pod


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """The limits and usage of one ResourceQuota, in base units, under the names that it uses."""

    key: Key
    hard: Mapping[str, int]
    used: Mapping[str, int]
    spec: ResourceQuotaSpec  # its scopes decide which pods count
    # Smaller usage of earlier versions, by the second of the epoch until which that is the confirmed usage.
    earlier: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    def following(self, before: "NamespaceQuota", observed_at: float) -> "NamespaceQuota":
        """Return this version with the usage of the version ``before`` as the confirmed usage.

        It holds for ``SETTLES_S``.
        """
        earlier = {until: used for until, used in before.earlier.items() if until > observed_at}
        until = ceil(observed_at + SETTLES_S)
        earlier[until] = _minimum(before.used, earlier.get(until, before.used))
        return replace(self, earlier=earlier)

    def confirmed_used(self, now: float) -> Mapping[str, int]:
        """Return the usage without recent charges: their pods may not be known yet.

        A quota is charged before the pod exists.  In between, a member of an admitted group would count
        twice, as used and as claimed by its group, and the group's quota would seem exceeded.
        """
        used = self.used
        for until, amounts in self.earlier.items():
            if until > now:
                used = _minimum(used, amounts)
        return used

    def settles_at(self, now: float) -> float | None:
        """Return when more usage is confirmed, in seconds since the epoch; ``None``: all of it is."""
        return min((until for until in self.earlier if until > now), default=None)


def _minimum(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return {name: min(amount, other.get(name, 0)) for name, amount in one.items()}
