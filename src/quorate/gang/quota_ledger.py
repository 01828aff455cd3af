"""What pods use of the quotas of their namespaces, and what is reserved of them for pod groups.

Kept as pods and pod groups come, change and go, in any order; nothing is recounted.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.api.meta import Key
from quorate.gang.quota import Amounts, QuotaSums, Subject, quota_claim

OF_ENDED_PODS: Final = "count/pods"  # all that one which ended still uses
NOTHING: Final[Amounts] = {}


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod as quotas see it."""

    group: str  # the name of its pod group; empty: it is in none
    subject: Subject
    usage: Amounts  # by normalised name, as long as it lives
    ended: bool

    @property
    def counted(self) -> Amounts:
        """What quotas count of it now."""
        if not self.ended:
            return self.usage
        return {name: amount for name, amount in self.usage.items() if name == OF_ENDED_PODS}


@dataclass(frozen=True, slots=True)
class GroupWants:
    """A pod group as quotas see it."""

    subject: Subject
    minimum: Amounts | None  # its minResources as quotas name things; None: nothing is reserved for it
    active: bool  # admitted, neither completed nor being deleted


@dataclass(slots=True)
class _Namespace:
    used: QuotaSums = field(default_factory=QuotaSums)
    reserved: QuotaSums = field(default_factory=QuotaSums)  # the sum of ``claims``
    members: dict[str, Counter[str]] = field(
        default_factory=dict
    )  # by group: what its pods use, ended or not
    claims: dict[str, tuple[Subject, Amounts]] = field(
        default_factory=dict
    )  # of active groups with a minimum
    pods: dict[str, PodUse] = field(default_factory=dict)
    groups: dict[str, GroupWants] = field(default_factory=dict)

    def count(self, name: str, use: PodUse | None) -> None:
        old = self.pods.pop(name, None)
        if old is not None:
            self.used.remove(old.subject, old.counted)
            if old.group:
                self.members[old.group].subtract(old.usage)
                if not any(self.members[old.group].values()):
                    del self.members[old.group]
        if use is not None:
            self.pods[name] = use
            self.used.add(use.subject, use.counted)
            if use.group:
                self.members.setdefault(use.group, Counter()).update(use.usage)
        for group in {each.group for each in (old, use) if each is not None}:
            self.claim_anew(group)

    def claim_anew(self, group: str) -> None:
        known = self.claims.pop(group, None)
        if known is not None:
            self.reserved.remove(*known)
        wants = self.groups.get(group)
        if wants is not None and wants.active and wants.minimum is not None:
            claim = quota_claim(wants.minimum, self.members.get(group, NOTHING))
            self.claims[group] = (wants.subject, claim)
            self.reserved.add(wants.subject, claim)

    @property
    def is_empty(self) -> bool:
        return not self.pods and not self.groups


class QuotaLedger:
    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}  # none is empty

    def set_pod(self, key: Key, use: PodUse) -> None:
        self._namespace(key).count(key.name, use)

    def remove_pod(self, key: Key) -> None:
        self._namespace(key).count(key.name, None)
        self._drop_if_empty(key)

    def set_group(self, key: Key, wants: GroupWants) -> None:
        namespace = self._namespace(key)
        namespace.groups[key.name] = wants
        namespace.claim_anew(key.name)

    def remove_group(self, key: Key) -> None:
        namespace = self._namespace(key)
        namespace.groups.pop(key.name, None)
        namespace.claim_anew(key.name)
        self._drop_if_empty(key)

    def used(self, namespace: str) -> QuotaSums:
        """What the pods of ``namespace`` use."""
        return self._known(namespace).used

    def reserved(self, namespace: str) -> QuotaSums:
        """What the active pod groups of ``namespace`` claim."""
        return self._known(namespace).reserved

    def claims(self, namespace: str) -> Mapping[str, tuple[Subject, Amounts]]:
        """Those claims one by one, by the name of the group."""
        return self._known(namespace).claims

    def groups(self, namespace: str) -> Mapping[str, GroupWants]:
        """All pod groups of ``namespace``, by name."""
        return self._known(namespace).groups

    def _known(self, namespace: str) -> _Namespace:
        return self._namespaces.get(namespace) or _Namespace()

    def _namespace(self, key: Key) -> _Namespace:
        return self._namespaces.setdefault(key.namespace, _Namespace())

    def _drop_if_empty(self, key: Key) -> None:
        if self._namespaces[key.namespace].is_empty:
            del self._namespaces[key.namespace]
