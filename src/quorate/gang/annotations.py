"""What of a pod group's status is kept in annotations, so that it survives a restart.

The status of a PodGroup has no room for it: when the group was admitted, how often it was rolled back, and
with which spec, and until when it is not tried again.  What cannot be read counts as never said.

Of the spec a digest is kept: where the definition of a pod group has no status subresource, the generation of
one says nothing, as it grows with every write of its status.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.meta import micro_time
from quorate.api.volcano import PodGroup, PodGroupSpec
from quorate.gang.outcome import Counts, GangStatus

INQUEUE_SINCE: Final = "scheduling.volcano.sh/inqueue-since"
REQUEUE_ATTEMPTS: Final = "scheduling.volcano.sh/requeue-attempts"
REQUEUE_SPEC: Final = "scheduling.volcano.sh/requeue-spec"
REQUEUE_NOT_BEFORE: Final = "scheduling.volcano.sh/requeue-not-before"

_COUNT: Final = re.compile(r"[0-9]{1,9}")
_YEARS: Final = range(1970, 9999)  # whose moments can be written in any zone


def annotations_of(status: GangStatus) -> Mapping[str, str | None]:
    """The annotations that go with ``status``; ``None`` for those that are to be gone."""
    return {
        INQUEUE_SINCE: _written(status.inqueue_since),
        REQUEUE_ATTEMPTS: str(status.attempts) if status.attempts else None,
        REQUEUE_SPEC: (status.attempted or None) if status.attempts else None,
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
        attempted=annotations.get(REQUEUE_SPEC, ""),
    )


def digest_of(spec: PodGroupSpec) -> str:
    """The same for equal specs, and hardly ever for others."""
    written = msgspec.json.encode(codec.to_builtins(spec), order="deterministic")
    return sha256(written).hexdigest()[:16]


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
