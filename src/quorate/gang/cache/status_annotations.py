"""The parts of a pod group's status that annotations store, so that they survive a restart.

PodGroupStatus has no fields for them: when the group was admitted, how often it was rolled back and with
which spec, until when it is not tried again, and since when it is partially bound.  A value that cannot be
parsed counts as absent.

The spec is stored as a digest: ``metadata.generation`` does not identify a spec, because without a status
subresource in the definition of PodGroup it grows with every write of the status.
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
PARTIAL_SINCE: Final = "scheduling.volcano.sh/partially-bound-since"
REQUEUE_ATTEMPTS: Final = "scheduling.volcano.sh/requeue-attempts"
REQUEUE_SPEC: Final = "scheduling.volcano.sh/requeue-spec"
REQUEUE_NOT_BEFORE: Final = "scheduling.volcano.sh/requeue-not-before"

_COUNT: Final = re.compile(r"[0-9]{1,9}")
_YEARS: Final = range(1970, 9999)  # times in them can be written in any time zone


def status_annotations(status: GangStatus) -> Mapping[str, str | None]:
    """Return the annotations that store ``status``; ``None`` for those to remove."""
    return {
        INQUEUE_SINCE: _format_time(status.inqueue_since),
        PARTIAL_SINCE: _format_time(status.partial_since),
        REQUEUE_ATTEMPTS: str(status.attempts) if status.attempts else None,
        REQUEUE_SPEC: (status.attempted_spec or None) if status.attempts else None,
        REQUEUE_NOT_BEFORE: _format_time(status.not_before),
    }


def status_from_object(group: PodGroup) -> GangStatus:
    """Return the status of ``group``, with the parts in annotations."""
    status, annotations = group.status, group.metadata.annotations
    attempts = annotations.get(REQUEUE_ATTEMPTS, "")
    return GangStatus(
        gang=group.metadata.key,
        uid=group.metadata.uid,
        phase=status.phase,
        conditions=status.conditions,
        counts=Counts(status.running, status.succeeded, status.failed),
        inqueue_since=_parse_time(annotations.get(INQUEUE_SINCE)),
        not_before=_parse_time(annotations.get(REQUEUE_NOT_BEFORE)),
        attempts=int(attempts) if _COUNT.fullmatch(attempts) else 0,
        attempted_spec=annotations.get(REQUEUE_SPEC, ""),
        partial_since=_parse_time(annotations.get(PARTIAL_SINCE)),
    )


def spec_digest(spec: PodGroupSpec) -> str:
    """Return a digest of ``spec``; different specs almost always have different digests."""
    encoded = msgspec.json.encode(codec.to_builtins(spec), order="deterministic")
    return sha256(encoded).hexdigest()[:16]


def has_status(group: PodGroup, status: GangStatus) -> bool:
    """Return True if ``group`` has ``status``, to the precision in which times are written."""
    stored = status_from_object(group)
    return status_annotations(stored) == status_annotations(status) and (
        stored.uid,
        stored.phase,
        stored.conditions,
        stored.counts,
    ) == (status.uid, status.phase, status.conditions, status.counts)


def _format_time(time: float | None) -> str | None:
    return None if time is None else micro_time(time)


def _parse_time(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.year not in _YEARS:
        return None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
