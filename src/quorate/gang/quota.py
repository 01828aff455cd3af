"""What pod groups may still take of the ResourceQuotas of their namespace.

A group *claims* what its ``minResources`` name and its members do not use yet: existing members are inside
the used amounts of a quota already, so that nothing is counted twice.  The claims of active groups are
*reserved*.  The action ``enqueue`` admits by these rules and the webhooks refuse by them.

Amounts are in base units.  Quotas and ``minResources`` may name a request in two ways, ``cpu`` and
``requests.cpu``; sums here are kept by *normalised* name, without ``requests.``.  Of a quota that limits both
forms each limit holds.

Source: the design note "Delay Pod Creation"; scopes as Kubernetes' quota evaluator for pods reads them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.api.core import ResourceQuotaSpec, ScopeRequirement
from quorate.api.meta import SelectorRequirement, matches_requirement
from quorate.quota.amount import as_quantity

Amounts = Mapping[str, int]

ACTIVE_PHASES: Final = frozenset({"Inqueue", "Running", "Unknown"})  # of groups whose claims are reserved

_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_PRIORITY_CLASS: Final = "PriorityClass"


def normalised(amounts: Amounts) -> dict[str, int]:
    """``amounts`` by normalised name; the larger one where both forms are given."""
    result: dict[str, int] = {}
    for name, amount in amounts.items():
        key = name.removeprefix(_REQUESTS)
        result[key] = max(amount, result.get(key, amount))
    return result


def quota_claim(minimum: Amounts, used_by_members: Amounts) -> dict[str, int]:
    """What a group still has to come of ``minimum``, its ``minResources``, by normalised name.

    ``used_by_members`` sums up the quota usage of its members in any phase.  A name whose amount is used up
    stays, with 0.  A group without ``minResources``, a completed one, and one that is being deleted claim
    nothing, which is for the caller to know.
    """
    used = normalised(used_by_members)
    return {name: max(0, amount - used.get(name, 0)) for name, amount in normalised(minimum).items()}


@dataclass(frozen=True, slots=True)
class Subject:
    """What scopes look at in a pod.  Of a group whose pods are not there yet, its class is all one knows."""

    priority_class: str = ""
    best_effort: bool = False
    terminating: bool = False  # it has a deadline


def unevaluable_scopes(quota: ResourceQuotaSpec) -> tuple[str, ...]:
    """The scopes of ``quota`` that mean nothing here.  A quota with such a one is ignored: say so."""
    return tuple(scope.scope_name for scope in _scopes(quota) if not _is_evaluable(scope))


def is_counted_by(quota: ResourceQuotaSpec, subject: Subject) -> bool:
    """Whether ``quota`` counts ``subject``; a quota that is ignored counts nobody."""
    return all(_is_evaluable(scope) and _matches(scope, subject) for scope in _scopes(quota))


def _scopes(quota: ResourceQuotaSpec) -> Iterator[ScopeRequirement]:
    for name in quota.scopes:
        yield ScopeRequirement(scope_name=name, operator="Exists")
    if quota.scope_selector is not None:
        yield from quota.scope_selector.match_expressions


def _is_evaluable(scope: ScopeRequirement) -> bool:
    match scope.scope_name:
        case "Terminating" | "NotTerminating" | "BestEffort" | "NotBestEffort":
            return scope.operator == "Exists"
        case "PriorityClass":
            return scope.operator in ("In", "NotIn", "Exists", "DoesNotExist")
        case _:
            return False


def _matches(scope: ScopeRequirement, subject: Subject) -> bool:
    match scope.scope_name:
        case "Terminating":
            return subject.terminating
        case "NotTerminating":
            return not subject.terminating
        case "BestEffort":
            return subject.best_effort
        case "NotBestEffort":
            return not subject.best_effort
        case _:  # a selector of labels, of which there is one: the class, if it has any
            labels = {_PRIORITY_CLASS: subject.priority_class} if subject.priority_class else {}
            return matches_requirement(
                SelectorRequirement(key=_PRIORITY_CLASS, operator=scope.operator, values=scope.values), labels
            )


@dataclass(slots=True)
class QuotaSums:
    """Claims, or what is used, of one namespace, summed up by whom quotas can tell apart."""

    _by_subject: dict[Subject, Counter[str]] = field(default_factory=dict)  # by normalised name

    def add(self, subject: Subject, amounts: Amounts) -> None:
        self._by_subject.setdefault(subject, Counter()).update(amounts)

    def remove(self, subject: Subject, amounts: Amounts) -> None:
        """Take back what was added before."""
        left = self._by_subject.setdefault(subject, Counter())  # none is kept whose amounts are all 0
        left.subtract(amounts)
        if not any(left.values()):
            del self._by_subject[subject]

    def of(self, quota: ResourceQuotaSpec) -> dict[str, int]:
        """What there is of ``quota``: the sum over those it counts."""
        total: Counter[str] = Counter()
        for subject, amounts in self._by_subject.items():
            if is_counted_by(quota, subject):
                total.update(amounts)
        return total


@dataclass(frozen=True, slots=True)
class QuotaShortage:
    """One limit of a quota that would be exceeded, in base units."""

    resource: str  # as the quota names it
    wanted: int
    used: int
    reserved: int  # for (other) active groups
    hard: int

    @property
    def free(self) -> int:
        return self.hard - self.used - self.reserved

    @property
    def never(self) -> bool:
        """Whether it could not be had with everything else gone."""
        return self.wanted > self.hard

    def __str__(self) -> str:
        name = self.resource
        text = f"{name}: need {said(name, self.wanted)}, have {said(name, max(0, self.free))} now"
        if self.reserved:
            text += f" ({said(name, self.reserved)} reserved by pod groups)"
        return f"{text} and {said(name, self.hard)} at most"


def quota_shortages(
    hard: Amounts, used: Amounts, reserved: Amounts, wanted: Amounts
) -> tuple[QuotaShortage, ...]:
    """The limits of a quota that ``wanted`` would exceed on top of what is used and reserved, by name.

    ``hard`` and ``used`` are under the names that the quota uses, the other two under normalised ones.
    Only what ``wanted`` names is looked at, also where it names 0.
    """
    spent = normalised(used)
    found: list[QuotaShortage] = []
    for resource, limit in sorted(hard.items()):
        key = resource.removeprefix(_REQUESTS)
        if key in wanted:
            shortage = QuotaShortage(resource, wanted[key], spent.get(key, 0), reserved.get(key, 0), limit)
            if shortage.wanted > shortage.free:
                found.append(shortage)
    return tuple(found)


def plain(name: str) -> str:
    """The resource that a quota's name speaks of: ``requests.cpu`` and ``limits.cpu`` of ``cpu``."""
    return name.removeprefix(_REQUESTS).removeprefix(_LIMITS)


def said(name: str, amount: int) -> str:
    """``amount`` of what a quota calls ``name``, as people write it."""
    return str(as_quantity(plain(name), amount))
