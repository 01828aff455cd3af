"""Plugin ``conformance``: pods the cluster itself needs are never evicted."""

from collections.abc import Sequence

from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.policy import Policy
from quorate.gang.session import Session
from quorate.gang.task import Task


def conformance(session: Session, entry: PluginEntry) -> Policy:
    return Policy(preemptable=_not_critical, reclaimable=_not_critical)


def _not_critical(task: Task, candidates: Sequence[Task]) -> Sequence[Task]:
    return [victim for victim in candidates if not victim.critical]
