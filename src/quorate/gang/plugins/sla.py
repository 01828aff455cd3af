"""Plugin ``sla``: permit groups after their waiting time.

The annotation of the pod group sets the waiting time, otherwise the arguments of the plugin; without both the
plugin changes nothing for the group.  Only plugins in later tiers are overruled.  In profile ``design`` only
the check of the cluster's resources is skipped; the checks of queues and quotas remain.  Source: the plugin
of the same name of Volcano.
"""

from quorate.api.names.volcano import LEGACY_SLA_WAITING_TIME, SLA_WAITING_TIME
from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import SlaArguments
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.gang.cache.gang import Gang
from quorate.gang.session.callbacks import PluginCallbacks, SortKey, Vote
from quorate.gang.session.session import Session


def sla(session: Session, entry: PluginEntry) -> PluginCallbacks:
    assert isinstance(entry.arguments, SlaArguments), entry
    default_s = entry.arguments.waiting_s

    def deadline(gang: Gang) -> float | None:
        waiting_s = waiting_time_s(gang)
        if waiting_s is None:
            waiting_s = default_s
        return None if waiting_s is None else gang.created + waiting_s

    def job_order(gang: Gang) -> SortKey:
        at = deadline(gang)
        return (1,) if at is None else (0, at)

    def is_overdue(gang: Gang) -> bool:
        at = deadline(gang)
        if at is None:
            return False
        session.wake(at)
        return session.now >= at

    def permit_if_overdue(gang: Gang) -> Vote:
        return Vote.PERMIT if is_overdue(gang) else Vote.ABSTAIN

    if session.rules.enqueue_checks:
        return PluginCallbacks(job_order=job_order, job_overdue=is_overdue, job_pipelined=permit_if_overdue)
    return PluginCallbacks(
        job_order=job_order, job_enqueueable=permit_if_overdue, job_pipelined=permit_if_overdue
    )


def waiting_time_s(gang: Gang) -> float | None:
    """Return the waiting time in the gang's annotations; ``None`` if absent or invalid."""
    annotations = gang.metadata.annotations
    text = annotations.get(SLA_WAITING_TIME) or annotations.get(LEGACY_SLA_WAITING_TIME)
    if not text:
        return None
    try:
        waiting_s = parse_duration(text)
    except InvalidDuration:
        return None
    return waiting_s if waiting_s > 0 else None
