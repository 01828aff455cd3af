"""Plugin ``cdp`` (cooldown protection): evict no pod in the first minutes that it runs.

The label or annotation ``volcano.sh/cooldown-time`` of the pod sets the time, which begins with the pod's
``startTime``.  Source: the plugin of the same name of Volcano, which counts from the time of the condition
``PodScheduled``, shortly before.
"""

from collections.abc import Sequence

from quorate.api.meta import epoch
from quorate.api.names.volcano import COOLDOWN_TIME
from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.session.callbacks import PluginCallbacks
from quorate.gang.session.session import Session


def cdp(session: Session, entry: PluginEntry) -> PluginCallbacks:
    def is_protected(task: Task) -> bool:
        until = _protected_until(task)
        session.wake(until)
        return until is not None and session.now < until

    def unprotected(preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        return [victim for victim in candidates if not is_protected(victim)]

    return PluginCallbacks(preemptable=unprotected, reclaimable=unprotected, protected=is_protected)


def _protected_until(task: Task) -> float | None:
    """Return the end of the pod's protection; ``None`` if it has none."""
    pod = task.pod
    text = pod.metadata.labels.get(COOLDOWN_TIME) or pod.metadata.annotations.get(COOLDOWN_TIME)
    if not text or task.status is not TaskStatus.RUNNING or pod.status.start_time is None:
        return None
    try:
        return epoch(pod.status.start_time) + parse_duration(text)
    except InvalidDuration:
        return None
