"""How pod groups stand: what a dashboard shows of each, computed when somebody looks."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from quorate.api.meta import Key, Uid
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.volcano import COMPLETED
from quorate.gang.deserved import dominant_share
from quorate.gang.model import Model


@dataclass(frozen=True, slots=True)
class GangReport:
    uid: Uid
    queue: str
    created: float  # seconds since the epoch
    short_by: int | None  # how many more members have to hold a node; None of one that is over
    # How much it holds of the cluster, of the resource it has most of; None of one that holds nothing, and
    # where groups do not take turns by it.
    share: Fraction | None


def gang_reports(model: Model, settings: SchedulerConfiguration) -> Mapping[Key, GangReport]:
    """How each pod group that exists stands between two sessions."""
    with_best_effort = settings.profile == "compat"
    by_share = any(entry.name == "drf" for tier in settings.tiers for entry in tier)
    total = model.cluster.total
    reports = {}
    for key, gang in model.gangs.items():
        if gang.exists:
            is_over = gang.phase == COMPLETED
            taken = gang.taken if by_share else None
            reports[key] = GangReport(
                uid=gang.uid,
                queue=gang.queue,
                created=gang.created,
                short_by=None if is_over else gang.short_by(with_best_effort=with_best_effort),
                share=dominant_share(taken, total) if taken else None,
            )
    return reports
