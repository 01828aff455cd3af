"""What of a pod group's status is kept in annotations, so that it survives a restart.

The status of a PodGroup has no room for it: when the group was admitted, how often it was rolled back, and
until when it is not tried again.  What cannot be read counts as never said.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from quorate.api.meta import micro_time
from quorate.api.volcano import PodGroup
from quorate.gang.outcome import Counts, GangStatus

INQUEUE_SINCE: Final = "scheduling.volcano.sh/inqueue-since"
REQUEUE_ATTEMPTS: Final = "scheduling.volcano.sh/requeue-attempts"
REQUEUE_NOT_BEFORE: Final = "scheduling.volcano.sh/requeue-not-before"

_COUNT: Final = re.compile(r"[0-9]{1,9}")
_YEARS: Final = range(1970, 9999)  # whose moments can be written in any zone


def annotations_of(status: GangStatus) -> Mapping[str, str | None]:
    """The annotations that go with ``status``; ``None`` for those that are to be gone."""
    return {
        INQUEUE_SINCE: _written(status.inqueue_since),
        REQUEUE_ATTEMPTS: str(status.attempts) if status.attempts else None,
        REQUEUE_NOT_BEFORE: _written(status.not_before),
    }


def status_of(group: PodGroup) -> GangStatus:
    """What ``group`` says of its status, annotations included."""
    status, annotations = group.status, group.metadata.annotations
    attempts = annotations.get(REQUEUE_ATTEMPTS, "")
    return GangStatus(
        gang=group.metadata.key,
        uid=group.metadata.uid,
        phase=status.phase,
        conditions=status.conditions,
        counts=Counts(status.running, status.succeeded, status.failed),
        inqueue_since=_read(annotations.get(INQUEUE_SINCE)),
        not_before=_read(annotations.get(REQUEUE_NOT_BEFORE)),
        attempts=int(attempts) if _COUNT.fullmatch(attempts) else 0,
    )


def says(group: PodGroup, status: GangStatus) -> bool:
    """Whether ``status`` is what ``group`` says, to the precision in which moments are written."""
    said = status_of(group)
    return annotations_of(said) == annotations_of(status) and (
        said.uid,
        said.phase,
        said.conditions,
        said.counts,
    ) == (status.uid, status.phase, status.conditions, status.counts)


def _written(moment: float | None) -> str | None:
    return None if moment is None else micro_time(moment)


def _read(moment: str | None) -> float | None:
    if moment is None:
        return None
    try:
        read = datetime.fromisoformat(moment)
    except ValueError:
        return None
    if read.year not in _YEARS:
        return None
    return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
