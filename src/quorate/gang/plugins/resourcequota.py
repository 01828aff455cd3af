"""Plugin ``resourcequota``: admit groups within the quotas of their namespace.

Source: the plugin of the same name of Volcano, with its gaps: resource names must match exactly, scopes are
not evaluated, existing members count twice, and reservations last for one session only.  In profile
``design`` the action ``enqueue`` checks quotas without these gaps, and the plugin has no callbacks.
"""

from collections import Counter

from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.cache.gang import Gang
from quorate.gang.namespace_quota.quota import NamespaceQuota
from quorate.gang.pending_reasons import NamespaceQuotaExceeded
from quorate.gang.session.callbacks import PluginCallbacks, Vote
from quorate.gang.session.session import Session
from quorate.gang.shortage import Shortage


def resourcequota(session: Session, entry: PluginEntry) -> PluginCallbacks:
    if session.rules.enqueue_checks:
        return PluginCallbacks()
    quotas: dict[str, list[NamespaceQuota]] = {}
    for key in sorted(session.model.quotas):
        quotas.setdefault(key.namespace, []).append(session.model.quotas[key])
    reserved: dict[str, Counter[str]] = {}  # in this session, by namespace

    def job_enqueueable(gang: Gang) -> Vote | NamespaceQuotaExceeded:
        if gang.min_resources is None:
            return Vote.PERMIT
        reserved_here = reserved.get(gang.key.namespace, Counter())
        for quota in quotas.get(gang.key.namespace, ()):
            shortages = tuple(
                Shortage(name, amount, free, quota.hard[name])
                for name, amount in sorted(gang.quota_minimum.items())
                if name in quota.hard
                and amount > (free := quota.hard[name] - quota.used.get(name, 0) - reserved_here[name])
            )
            if shortages:
                return NamespaceQuotaExceeded(quota.key.name, shortages)
        return Vote.PERMIT

    def job_enqueued(gang: Gang) -> None:
        reserved.setdefault(gang.key.namespace, Counter()).update(gang.quota_minimum)

    return PluginCallbacks(job_enqueueable=job_enqueueable, job_enqueued=job_enqueued)
