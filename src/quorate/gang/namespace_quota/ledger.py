"""What pods use, and pod groups have reserved, of the quotas of their namespaces.

The sums are updated when pods and pod groups are set and removed, in any order; nothing is recounted.  What a
failed member used is claimed for its replacement, unless failed members of its group are not replaced.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.api.core.quota_scopes import ScopeAttributes
from quorate.api.meta import Key
from quorate.gang.namespace_quota.evaluation import COUNT_PODS, Amounts, QuotaTotals, quota_claim

NOTHING: Final[Amounts] = {}


@dataclass(frozen=True, slots=True)
class PodQuotaUsage:
    """What one pod uses of quotas."""

    group: str  # the name of its pod group; "" without one
    attributes: ScopeAttributes
    usage: Amounts  # by normalised name, until it has terminated
    terminated: bool
    failed: bool = False

    @property
    def counted(self) -> Amounts:
        """What quotas count of it now."""
        if not self.terminated:
            return self.usage
        return {name: amount for name, amount in self.usage.items() if name == COUNT_PODS}

    @property
    def left_to_replacement(self) -> Amounts:
        """What a replacement may use in its place, if it failed."""
        return {name: n for name, n in self.usage.items() if name != COUNT_PODS} if self.failed else NOTHING


@dataclass(frozen=True, slots=True)
class GroupQuotaMinimum:
    """What one pod group needs of quotas."""

    attributes: ScopeAttributes
    minimum: Amounts | None  # as by ``group_minimum``; None: nothing is reserved for it
    active: bool  # admitted, neither completed nor being deleted
    replaces_failed: bool = True


@dataclass(slots=True)
class _Namespace:
    used: QuotaTotals = field(default_factory=QuotaTotals)
    reserved: QuotaTotals = field(default_factory=QuotaTotals)  # the sum of ``claims``
    # By group: the usage of its pods, terminated or not.
    used_by_members: dict[str, Counter[str]] = field(default_factory=dict)
    left_by_failed: dict[str, Counter[str]] = field(default_factory=dict)  # likewise, for their replacements
    # By group: the claim, of active groups with a minimum.
    claims: dict[str, tuple[ScopeAttributes, Amounts]] = field(default_factory=dict)
    pods: dict[str, PodQuotaUsage] = field(default_factory=dict)
    groups: dict[str, GroupQuotaMinimum] = field(default_factory=dict)

    def set_pod(self, name: str, new: PodQuotaUsage | None) -> None:
        old = self.pods.pop(name, None)
        if old is not None:
            self.used.remove(old.attributes, old.counted)
            if old.group:
                _subtract(self.used_by_members, old.group, old.usage)
                _subtract(self.left_by_failed, old.group, old.left_to_replacement)
        if new is not None:
            self.pods[name] = new
            self.used.add(new.attributes, new.counted)
            if new.group:
                self.used_by_members.setdefault(new.group, Counter()).update(new.usage)
                if new.failed:
                    self.left_by_failed.setdefault(new.group, Counter()).update(new.left_to_replacement)
        for group in {usage.group for usage in (old, new) if usage is not None}:
            self.update_claim(group)

    def update_claim(self, group: str) -> None:
        old = self.claims.pop(group, None)
        if old is not None:
            self.reserved.remove(*old)
        need = self.groups.get(group)
        if need is not None and need.active and need.minimum is not None:
            used = self.used_by_members.get(group, NOTHING)
            if need.replaces_failed and group in self.left_by_failed:
                used = Counter(used) - self.left_by_failed[group]
            claim = quota_claim(need.minimum, used)
            self.claims[group] = (need.attributes, claim)
            self.reserved.add(need.attributes, claim)

    @property
    def is_empty(self) -> bool:
        return not self.pods and not self.groups


def _subtract(sums: dict[str, Counter[str]], group: str, amounts: Amounts) -> None:
    if group in sums:
        sums[group].subtract(amounts)
        if not any(sums[group].values()):
            del sums[group]


class QuotaLedger:
    """The quota usage and the claims of all namespaces."""

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}  # no empty values

    def set_pod(self, key: Key, usage: PodQuotaUsage) -> None:
        self._namespace(key).set_pod(key.name, usage)

    def remove_pod(self, key: Key) -> None:
        self._namespace(key).set_pod(key.name, None)
        self._drop_if_empty(key)

    def set_group(self, key: Key, need: GroupQuotaMinimum) -> None:
        namespace = self._namespace(key)
        namespace.groups[key.name] = need
        namespace.update_claim(key.name)

    def remove_group(self, key: Key) -> None:
        namespace = self._namespace(key)
        namespace.groups.pop(key.name, None)
        namespace.update_claim(key.name)
        self._drop_if_empty(key)

    def used(self, namespace: str) -> QuotaTotals:
        """Return what the pods of ``namespace`` use."""
        return self._known(namespace).used

    def reserved(self, namespace: str) -> QuotaTotals:
        """Return what the active pod groups of ``namespace`` claim."""
        return self._known(namespace).reserved

    def claims(self, namespace: str) -> Mapping[str, tuple[ScopeAttributes, Amounts]]:
        """Return the single claims, by the name of the group."""
        return self._known(namespace).claims

    def groups(self, namespace: str) -> Mapping[str, GroupQuotaMinimum]:
        """Return all pod groups of ``namespace``, by name."""
        return self._known(namespace).groups

    def _known(self, namespace: str) -> _Namespace:
        return self._namespaces.get(namespace) or _Namespace()

    def _namespace(self, key: Key) -> _Namespace:
        return self._namespaces.setdefault(key.namespace, _Namespace())

    def _drop_if_empty(self, key: Key) -> None:
        if self._namespaces[key.namespace].is_empty:
            del self._namespaces[key.namespace]
