"""A group that has waited long enough is admitted, and keeps what it gets, whatever others say.

How long is enough stands on the pod group or holds for all; a group with neither waits as without the plugin.
Others are overruled only if they sit in later tiers.  In profile ``design`` only the look at the cluster's
room is waived: queues and quotas stay what they are.  Source: the plugin of the same name of Volcano.
"""

from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import SlaArguments
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.api.volcano.annotations import LEGACY_SLA_WAITING_TIME, SLA_WAITING_TIME
from quorate.gang.gang import Gang
from quorate.gang.policy import Policy, Rank
from quorate.gang.session import Session
from quorate.gang.tiers import Vote


def sla(session: Session, entry: PluginEntry) -> Policy:
    assert isinstance(entry.arguments, SlaArguments), entry
    longest = entry.arguments.waiting_s

    def deadline(gang: Gang) -> float | None:
        waiting_s = waiting_of(gang)
        if waiting_s is None:
            waiting_s = longest
        return None if waiting_s is None else gang.created + waiting_s

    def gang_rank(gang: Gang) -> Rank:
        at = deadline(gang)
        return (1,) if at is None else (0, at)

    def is_overdue(gang: Gang) -> bool:
        at = deadline(gang)
        if at is None:
            return False
        session.wake(at)
        return session.now >= at

    def vote(gang: Gang) -> Vote:
        return Vote.PERMIT if is_overdue(gang) else Vote.ABSTAIN

    if session.settings.profile == "design":
        return Policy(gang_rank=gang_rank, overdue=is_overdue, promised=vote)
    return Policy(gang_rank=gang_rank, admits=vote, promised=vote)


def waiting_of(gang: Gang) -> float | None:
    """How long, in seconds, the group says that it waits at most.  What is no such time says nothing."""
    text = gang.annotations.get(SLA_WAITING_TIME) or gang.annotations.get(LEGACY_SLA_WAITING_TIME)
    if not text:
        return None
    try:
        waiting_s = parse_duration(text)
    except InvalidDuration:
        return None
    return waiting_s if waiting_s > 0 else None
