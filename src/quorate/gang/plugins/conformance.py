"""Plugin ``conformance``: never evict pods that the cluster itself needs."""

from collections.abc import Sequence

from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.cache.task import Task
from quorate.gang.session.callbacks import PluginCallbacks
from quorate.gang.session.session import Session


def conformance(session: Session, entry: PluginEntry) -> PluginCallbacks:
    return PluginCallbacks(preemptable=_not_critical, reclaimable=_not_critical)


def _not_critical(preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
    return [victim for victim in candidates if not victim.critical]
