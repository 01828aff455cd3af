"""What may not be created lest quota be promised twice: the webhook of the note "Delay Pod Creation".

Two rules, each a function from literals to refusals.  A pod group may not ask for more than it can ever get;
in mode ``strict``, the note read literally, all groups of a namespace together may not either.  A pod may not
take what is reserved for an admitted group: a member takes its own group's claim first, so that it is refused
only when the rest of that claim, too, does not fit any more and the group is about to be sent back.

Whoever asks sees copies of the cluster that may lag; the quota admission of the API server has the last word.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.api.configuration.gang import QuotaMode
from quorate.api.findings import Finding, child_path
from quorate.api.volcano import NAMESPACE_QUOTA_EXCEEDED
from quorate.gang.queue import NamespaceQuota
from quorate.gang.quota import (
    Amounts,
    QuotaShortage,
    QuotaSums,
    Subject,
    is_counted_by,
    normalised,
    quota_shortages,
    said,
)

MIN_RESOURCES_EXCEED_QUOTA: Final = "MinResourcesExceedsQuota"
QUOTA_RESERVED: Final = "QuotaReserved"
_PATH: Final = "spec.minResources"


@dataclass(frozen=True, slots=True)
class Claimant:
    """A pod group that is not completed, as it is or as it is to be."""

    subject: Subject
    minimum: Amounts  # as quotas name things


def group_findings(
    mode: QuotaMode,
    new: Claimant,
    old: Amounts | None,
    quotas: Sequence[NamespaceQuota],
    others: Sequence[Claimant],
) -> Iterable[Finding]:
    """What keeps a group from being created, or ``old``, its ``minResources`` so far, from being raised.

    ``quotas`` are those of its namespace, ``others`` the groups there that are not completed, without it.
    """
    wanted = normalised(new.minimum)
    if mode == "off" or (old is not None and not _raises(normalised(old), wanted)):
        return
    for quota in sorted(quotas, key=lambda each: each.key):
        if not is_counted_by(quota.spec, new.subject):
            continue
        alone = quota_shortages(quota.hard, {}, {}, wanted)
        for short in alone:
            yield _never(quota, new.minimum, short)
        if mode == "strict":
            sums = QuotaSums()
            for other in others:
                sums.add(other.subject, normalised(other.minimum))
            never = {short.resource for short in alone}
            for short in quota_shortages(quota.hard, {}, sums.of(quota.spec), wanted):
                if short.resource not in never:
                    yield _too_many(quota, new.minimum, short)


def _raises(old: Amounts, new: Amounts) -> bool:
    return any(amount > old.get(name, 0) for name, amount in new.items())


def _never(quota: NamespaceQuota, minimum: Amounts, short: QuotaShortage) -> Finding:
    most = said(short.resource, short.hard)
    rule = (
        f"is more than quota {quota.key.name} ever allows, at most {most} of {short.resource} "
        "(ask for less, or have the quota raised)"
    )
    return Finding(*_named(minimum, short), rule, reason=MIN_RESOURCES_EXCEED_QUOTA)


def _too_many(quota: NamespaceQuota, minimum: Amounts, short: QuotaShortage) -> Finding:
    others, most = said(short.resource, short.reserved), said(short.resource, short.hard)
    rule = (
        f"is too much beside the other pod groups of the namespace, which ask for {others} of "
        f"{short.resource}: quota {quota.key.name} allows {most} for all that are not completed "
        f"(ask for at most {said(short.resource, max(0, short.free))}, or wait for one to complete)"
    )
    return Finding(*_named(minimum, short), rule, reason=NAMESPACE_QUOTA_EXCEEDED)


def _named(minimum: Amounts, short: QuotaShortage) -> tuple[str, str]:
    """The path of the amount that is too large, under the name the group has for it, and the amount."""
    plain, prefixed = short.resource.removeprefix("requests."), f"requests.{short.resource}"
    name = next(name for name in (short.resource, plain, prefixed) if minimum.get(name) == short.wanted)
    return child_path(_PATH, name), said(name, short.wanted)


def pod_findings(
    usage: Amounts,
    subject: Subject,
    own: tuple[Subject, Amounts] | None,
    quotas: Sequence[NamespaceQuota],
    reserved: QuotaSums,
) -> Iterable[Finding]:
    """What keeps a pod from being created.

    ``usage`` is what it will use, ``own`` the claim of its group, if that is active; ``reserved`` are the
    claims of all active groups of the namespace, its own included.  All by normalised name.
    """
    wanted = {name: amount for name, amount in usage.items() if amount > 0}
    for quota in sorted(quotas, key=lambda each: each.key):
        if not is_counted_by(quota.spec, subject):
            continue
        others = reserved.of(quota.spec)
        if own is not None and is_counted_by(quota.spec, own[0]):
            for name, claimed in own[1].items():
                others[name] = others.get(name, 0) - min(claimed, wanted.get(name, 0))
        for short in quota_shortages(quota.hard, quota.used, others, wanted):
            yield _reserved(quota, short)


def _reserved(quota: NamespaceQuota, short: QuotaShortage) -> Finding:
    name = short.resource
    rule = (
        f"of {name} is not free in quota {quota.key.name}, at most {said(name, max(0, short.free))}: of "
        f"{said(name, short.hard)}, {said(name, short.used)} are used and {said(name, short.reserved)} "
        "reserved for pod groups that were admitted (ask for less, or wait)"
    )
    return Finding("spec", said(name, short.wanted), rule, reason=QUOTA_RESERVED)
