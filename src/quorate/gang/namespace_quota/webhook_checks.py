"""The checks of the quota webhooks of the design note "Delay Pod Creation".

Two rules, as pure functions.  A pod group may not request more than its quotas ever allow; in mode
``strict``, the note read literally, all groups of a namespace together may not either.  A pod may not use
what is reserved for an admitted group.  A member uses its own group's claim first, so that it is refused only
if the rest of that claim does not fit either and the group is about to be rolled back.

The inputs come from watches that may lag; the quota admission of the API server decides in the end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.api.configuration.gang import QuotaMode
from quorate.api.core.quota_scopes import ScopeAttributes, is_counted_by
from quorate.api.findings import Finding, child_path
from quorate.api.volcano import NAMESPACE_QUOTA_EXCEEDED
from quorate.gang.namespace_quota.evaluation import (
    Amounts,
    QuotaShortage,
    QuotaTotals,
    format_amount,
    normalised,
    quota_shortages,
)
from quorate.gang.namespace_quota.quota import NamespaceQuota

MIN_RESOURCES_EXCEED_QUOTA: Final = "MinResourcesExceedsQuota"
QUOTA_RESERVED: Final = "QuotaReserved"
_PATH: Final = "spec.minResources"


@dataclass(frozen=True, slots=True)
class PodGroupRequest:
    """The request of a pod group that is not completed, as stored or as in the reviewed object."""

    attributes: ScopeAttributes
    minimum: Amounts  # by the names that quotas use


def group_findings(
    mode: QuotaMode,
    new: PodGroupRequest,
    old: Amounts | None,
    quotas: Sequence[NamespaceQuota],
    others: Sequence[PodGroupRequest],
) -> Iterable[Finding]:
    """Return why a group may not be created, or its ``minResources`` not be raised from ``old``.

    ``quotas`` are the quotas of its namespace, ``others`` the other groups in the namespace that are not
    completed.
    """
    requested = normalised(new.minimum)
    if mode == "off" or (old is not None and not _raises(normalised(old), requested)):
        return
    for quota in sorted(quotas, key=lambda of_namespace: of_namespace.key):
        if not is_counted_by(quota.spec, new.attributes):
            continue
        alone = quota_shortages(quota.hard, {}, {}, requested)
        for shortage in alone:
            yield _never_fits(quota, new.minimum, shortage)
        if mode == "strict":
            totals = QuotaTotals()
            for other in others:
                totals.add(other.attributes, normalised(other.minimum))
            reported = {shortage.resource for shortage in alone}
            for shortage in quota_shortages(quota.hard, {}, totals.of(quota.spec), requested):
                if shortage.resource not in reported:
                    yield _exceeds_with_others(quota, new.minimum, shortage)


def _raises(old: Amounts, new: Amounts) -> bool:
    return any(amount > old.get(name, 0) for name, amount in new.items())


def _never_fits(quota: NamespaceQuota, minimum: Amounts, shortage: QuotaShortage) -> Finding:
    hard = format_amount(shortage.resource, shortage.hard)
    rule = (
        f"is more than quota {quota.key.name} ever allows, at most {hard} of {shortage.resource} "
        "(request less, or raise the quota)"
    )
    return Finding(*_path_and_amount(minimum, shortage), rule, reason=MIN_RESOURCES_EXCEED_QUOTA)


def _exceeds_with_others(quota: NamespaceQuota, minimum: Amounts, shortage: QuotaShortage) -> Finding:
    name = shortage.resource
    reserved, hard = format_amount(name, shortage.reserved), format_amount(name, shortage.hard)
    rule = (
        f"is too much beside the other pod groups of the namespace, which request {reserved} of {name}: "
        f"quota {quota.key.name} allows {hard} for all that are not completed "
        f"(request at most {format_amount(name, max(0, shortage.free))}, or wait for one to complete)"
    )
    return Finding(*_path_and_amount(minimum, shortage), rule, reason=NAMESPACE_QUOTA_EXCEEDED)


def _path_and_amount(minimum: Amounts, shortage: QuotaShortage) -> tuple[str, str]:
    """Return the path and the amount of the field that is too large, as the group names it."""
    without_prefix, with_prefix = shortage.resource.removeprefix("requests."), f"requests.{shortage.resource}"
    names = (shortage.resource, without_prefix, with_prefix)
    name = next(name for name in names if minimum.get(name) == shortage.requested)
    return child_path(_PATH, name), format_amount(name, shortage.requested)


def pod_findings(
    usage: Amounts,
    attributes: ScopeAttributes,
    own: tuple[ScopeAttributes, Amounts] | None,
    quotas: Sequence[NamespaceQuota],
    reserved: QuotaTotals,
) -> Iterable[Finding]:
    """Return why a pod may not be created.

    ``usage``: what the pod will use.  ``own``: the claim of its group, if that is active.  ``reserved``: the
    claims of all active groups of the namespace, its own included.  All by normalised name.
    """
    requested = {name: amount for name, amount in usage.items() if amount > 0}
    for quota in sorted(quotas, key=lambda of_namespace: of_namespace.key):
        if not is_counted_by(quota.spec, attributes):
            continue
        reserved_here = reserved.of(quota.spec)
        if own is not None and is_counted_by(quota.spec, own[0]):
            for name, claimed in own[1].items():
                reserved_here[name] = reserved_here.get(name, 0) - min(claimed, requested.get(name, 0))
        for shortage in quota_shortages(quota.hard, quota.used, reserved_here, requested):
            yield _reserved_for_groups(quota, shortage)


def _reserved_for_groups(quota: NamespaceQuota, shortage: QuotaShortage) -> Finding:
    name = shortage.resource
    free = format_amount(name, max(0, shortage.free))
    hard, used = format_amount(name, shortage.hard), format_amount(name, shortage.used)
    rule = (
        f"of {name} is not free in quota {quota.key.name}, at most {free}: of {hard}, {used} are used and "
        f"{format_amount(name, shortage.reserved)} reserved for pod groups that were admitted "
        "(request less, or wait)"
    )
    return Finding("spec", format_amount(name, shortage.requested), rule, reason=QUOTA_RESERVED)
