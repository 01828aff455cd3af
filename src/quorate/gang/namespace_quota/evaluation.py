"""The evaluation of ResourceQuotas for pods and pod groups.

A group *claims* what its ``minResources`` name and its members do not use yet: existing members are in the
used amounts of a quota already, so that nothing counts twice.  The claims of active groups are *reserved*.
The action ``enqueue`` admits by these rules, and the webhooks refuse by them.

Amounts are in base units.  Quotas and ``minResources`` may name a request in two ways, ``cpu`` and
``requests.cpu``; sums here are by *normalised* name, without ``requests.``.  If a quota limits both names,
each limit holds.

Source: the design note "Delay Pod Creation".
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.api.core import ResourceQuotaSpec
from quorate.api.core.quota_scopes import ScopeAttributes, is_counted_by
from quorate.quota.amount import PODS, as_quantity

Amounts = Mapping[str, int]

ACTIVE_PHASES: Final = frozenset({"Inqueue", "Running", "Unknown"})  # of groups with reserved claims

COUNT_PODS: Final = "count/pods"  # all that a terminated pod still uses
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_SUPPORTED_SCOPES: Final = frozenset(
    {"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "VolumeAttributesClass"}
)


def normalised(amounts: Amounts) -> dict[str, int]:
    """Return ``amounts`` by normalised name; the larger amount where both names are given."""
    result: dict[str, int] = {}
    for name, amount in amounts.items():
        key = name.removeprefix(_REQUESTS)
        result[key] = max(amount, result.get(key, amount))
    return result


def group_minimum(min_resources: Amounts, min_member: int) -> Amounts:
    """Return what a group with ``minResources`` needs of quotas: also the pods that these do not name."""
    return {PODS: min_member, COUNT_PODS: min_member, **min_resources}


def quota_claim(minimum: Amounts, used_by_members: Amounts) -> dict[str, int]:
    """Return by normalised name what a group claims of ``minimum``, a result of ``group_minimum``.

    ``used_by_members``: the quota usage of its members in any phase.  A resource that is used up stays in the
    result with 0.  The caller knows which groups claim nothing: a group without ``minResources``, a completed
    group, and a group that is being deleted.
    """
    used = normalised(used_by_members)
    return {name: max(0, amount - used.get(name, 0)) for name, amount in normalised(minimum).items()}


def unsupported_scopes(quota: ResourceQuotaSpec) -> tuple[str, ...]:
    """Return the scopes of ``quota`` that are not supported.  A quota that has any counts nothing."""
    names = (scope.scope_name for scope in quota.scope_requirements)
    return tuple(name for name in names if name not in _SUPPORTED_SCOPES)


@dataclass(slots=True)
class QuotaTotals:
    """The sums of claims or of usage in one namespace, by scope attributes."""

    _by_attributes: dict[ScopeAttributes, Counter[str]] = field(default_factory=dict)  # by normalised name

    def add(self, attributes: ScopeAttributes, amounts: Amounts) -> None:
        self._by_attributes.setdefault(attributes, Counter()).update(amounts)

    def remove(self, attributes: ScopeAttributes, amounts: Amounts) -> None:
        """Subtract amounts that were added before."""
        left = self._by_attributes.setdefault(attributes, Counter())  # counters of zeros are not kept
        left.subtract(amounts)
        if not any(left.values()):
            del self._by_attributes[attributes]

    def of(self, quota: ResourceQuotaSpec) -> dict[str, int]:
        """Return the sum over the pods or groups that ``quota`` counts."""
        total: Counter[str] = Counter()
        for attributes, amounts in self._by_attributes.items():
            if is_counted_by(quota, attributes):
                total.update(amounts)
        return total


@dataclass(frozen=True, slots=True)
class QuotaShortage:
    """One limit of a quota that would be exceeded, in base units."""

    resource: str  # as the quota names it
    requested: int
    used: int
    reserved: int  # for (other) active groups
    hard: int

    @property
    def free(self) -> int:
        return self.hard - self.used - self.reserved

    @property
    def never_fits(self) -> bool:
        """Whether more is requested than would be free with everything else gone."""
        return self.requested > self.hard

    def __str__(self) -> str:
        name = self.resource
        requested, free = format_amount(name, self.requested), format_amount(name, max(0, self.free))
        text = f"{name}: need {requested}, have {free} now"
        if self.reserved:
            text += f" ({format_amount(name, self.reserved)} reserved by pod groups)"
        return f"{text} and {format_amount(name, self.hard)} at most"


def quota_shortages(
    hard: Amounts, used: Amounts, reserved: Amounts, requested: Amounts
) -> tuple[QuotaShortage, ...]:
    """Return the limits of a quota, by name, that ``requested`` would exceed.

    ``hard`` and ``used`` are by the names of the quota, ``reserved`` and ``requested`` by normalised names.
    Only resources in ``requested`` are checked, those with amount 0 too.
    """
    normalised_used = normalised(used)
    shortages: list[QuotaShortage] = []
    for resource, limit in sorted(hard.items()):
        key = resource.removeprefix(_REQUESTS)
        if key in requested:
            shortage = QuotaShortage(
                resource, requested[key], normalised_used.get(key, 0), reserved.get(key, 0), limit
            )
            if shortage.requested > shortage.free:
                shortages.append(shortage)
    return tuple(shortages)


def plain_resource(name: str) -> str:
    """Return the resource of a quota's name: ``cpu`` for ``requests.cpu`` and ``limits.cpu``."""
    return name.removeprefix(_REQUESTS).removeprefix(_LIMITS)


def format_amount(name: str, amount: int) -> str:
    """Return ``amount`` of the quota's ``name`` as a quantity."""
    return str(as_quantity(plain_resource(name), amount))
