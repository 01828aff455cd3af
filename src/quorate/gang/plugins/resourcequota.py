"""Groups are not admitted beyond what is left of the quotas of their namespace.

Source: the plugin of the same name of Volcano, with its gaps: names must match to the letter, scopes are not
looked at, members that exist count twice, and what was promised is forgotten when the session ends.  In
profile ``design`` the action ``enqueue`` looks at quotas itself, without them, and the plugin is silent.
"""

from collections import Counter

from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.gang import Gang
from quorate.gang.policy import Policy
from quorate.gang.queue import NamespaceQuota
from quorate.gang.session import Session
from quorate.gang.tiers import Vote
from quorate.gang.verdicts import NamespaceQuotaExceeded, Shortage


def resourcequota(session: Session, entry: PluginEntry) -> Policy:
    if session.settings.profile == "design":
        return Policy()
    quotas: dict[str, list[NamespaceQuota]] = {}
    for key in sorted(session.model.quotas):
        quotas.setdefault(key.namespace, []).append(session.model.quotas[key])
    promised: dict[str, Counter[str]] = {}  # in this session, by namespace

    def admits(gang: Gang) -> Vote | NamespaceQuotaExceeded:
        if gang.min_resources is None:
            return Vote.PERMIT
        also = promised.get(gang.key.namespace, Counter())
        for quota in quotas.get(gang.key.namespace, ()):
            shortages = tuple(
                Shortage(name, amount, free, quota.hard[name])
                for name, amount in sorted(gang.quota_minimum.items())
                if name in quota.hard
                and amount > (free := quota.hard[name] - quota.used.get(name, 0) - also[name])
            )
            if shortages:
                return NamespaceQuotaExceeded(quota.key.name, shortages)
        return Vote.PERMIT

    def admitted(gang: Gang) -> None:
        promised.setdefault(gang.key.namespace, Counter()).update(gang.quota_minimum)

    return Policy(admits=admits, admitted=admitted)
