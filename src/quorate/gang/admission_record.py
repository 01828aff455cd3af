"""The record of a pod group's admissions, which annotations store so that it survives a restart.

PodGroupStatus has no fields for them: when the group was admitted, how often it was rolled back and with
which spec, until when it is not tried again, since when it is partially bound, and how many of its members
ended and were deleted.  A value that cannot be parsed counts as absent.

The spec is stored as a digest: ``metadata.generation`` does not identify a spec, because without a status
subresource in the definition of PodGroup it grows with every write of the status.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.meta import micro_time
from quorate.api.scheduler_configuration.actions import EnqueueArguments
from quorate.api.volcano import PodGroupSpec

INQUEUE_SINCE: Final = "scheduling.volcano.sh/inqueue-since"
PARTIAL_SINCE: Final = "scheduling.volcano.sh/partially-bound-since"
REQUEUE_ATTEMPTS: Final = "scheduling.volcano.sh/requeue-attempts"
REQUEUE_SPEC: Final = "scheduling.volcano.sh/requeue-spec"
REQUEUE_NOT_BEFORE: Final = "scheduling.volcano.sh/requeue-not-before"
ENDS_BY: Final = "quorate.dev/ends-by"
ENDED_MEMBERS: Final = "quorate.dev/ended-members"

_STORED: Final = frozenset(
    {INQUEUE_SINCE, PARTIAL_SINCE, REQUEUE_ATTEMPTS, REQUEUE_SPEC, REQUEUE_NOT_BEFORE, ENDS_BY, ENDED_MEMBERS}
)
_MAX_DOUBLINGS: Final = 62  # from any base, so many doublings exceed any maximum
_COUNT: Final = re.compile(r"[0-9]{1,9}")
_YEARS: Final = range(1970, 9999)  # times in them can be written in any time zone


@dataclass(frozen=True, slots=True)
class AdmissionRecord:
    """The last admission of a pod group and the rollbacks since it last ran; times in epoch seconds."""

    inqueue_since: float | None = None  # when it was admitted, until it first runs
    not_before: float | None = None  # not admitted again earlier, after it was rolled back
    attempts: int = 0  # how often it was rolled back since it last ran
    attempted_spec: str = ""  # the digest of the spec that was attempted; "" if it is not known
    partial_since: float | None = None  # since when some members, but too few, have nodes
    ends_by: float | None = None  # it was admitted because it ends by then: a planned start of another group
    ended: int = 0  # members that ended and were deleted while it ran and none waited for a node

    def admitted(self, now: float, ends_by: float | None = None) -> "AdmissionRecord":
        return replace(self, inqueue_since=now, not_before=None, ends_by=ends_by)

    def since(self, admitted_at: float | None) -> "AdmissionRecord":
        """Return the record with another time of the admission; None: it is over, or the group has run."""
        if self.inqueue_since == admitted_at:
            return self
        return replace(self, inqueue_since=admitted_at, ends_by=None)

    def partially_bound(self, since: float | None) -> "AdmissionRecord":
        return self if self.partial_since == since else replace(self, partial_since=since)

    def with_ended(self, members: int) -> "AdmissionRecord":
        return self if self.ended == members else replace(self, ended=members)

    def rolled_back(self, spec: PodGroupSpec, not_before: float) -> "AdmissionRecord":
        """Return the record after an admission of ``spec`` that failed."""
        return AdmissionRecord(None, not_before, self.attempts + 1, spec_digest(spec), self.partial_since)

    def next_backoff_s(self, rules: EnqueueArguments) -> float:
        return min(rules.backoff_max_s, rules.backoff_base_s * 2.0 ** min(self.attempts, _MAX_DOUBLINGS))

    def without_attempts(self) -> "AdmissionRecord":
        return replace(self, attempts=0) if self.attempts else self

    def has_run(self) -> "AdmissionRecord":
        """Return the record of a group that runs: its next back-off is the first one."""
        is_same = self.not_before is None and not self.attempts
        return self if is_same else replace(self, attempts=0, not_before=None)

    def is_of_other(self, spec: PodGroupSpec) -> bool:
        """Return True if the attempts were made with another spec than ``spec``."""
        return self.attempts > 0 and self.attempted_spec not in ("", spec_digest(spec))

    def times_out_at(self, rules: EnqueueArguments) -> float | None:
        """Return when the admission times out unless the group starts; None: never."""
        if rules.inqueue_timeout_s is None or self.inqueue_since is None:
            return None
        return self.inqueue_since + rules.inqueue_timeout_s

    def annotations(self) -> Mapping[str, str | None]:
        """Return the annotations that store the record; None for those to remove."""
        return {
            INQUEUE_SINCE: _format_time(self.inqueue_since),
            PARTIAL_SINCE: _format_time(self.partial_since),
            REQUEUE_ATTEMPTS: str(self.attempts) if self.attempts else None,
            REQUEUE_SPEC: (self.attempted_spec or None) if self.attempts else None,
            REQUEUE_NOT_BEFORE: _format_time(self.not_before),
            ENDS_BY: _format_time(self.ends_by),
            ENDED_MEMBERS: str(self.ended) if self.ended else None,
        }


NO_ADMISSION: Final = AdmissionRecord()  # shared by all pod groups without annotations


def admission_record(annotations: Mapping[str, str]) -> AdmissionRecord:
    """Return the record that the annotations of a pod group store."""
    if not _STORED & annotations.keys():
        return NO_ADMISSION
    return AdmissionRecord(
        inqueue_since=_parse_time(annotations.get(INQUEUE_SINCE)),
        not_before=_parse_time(annotations.get(REQUEUE_NOT_BEFORE)),
        attempts=_parse_count(annotations.get(REQUEUE_ATTEMPTS, "")),
        attempted_spec=annotations.get(REQUEUE_SPEC, ""),
        partial_since=_parse_time(annotations.get(PARTIAL_SINCE)),
        ends_by=_parse_time(annotations.get(ENDS_BY)),
        ended=_parse_count(annotations.get(ENDED_MEMBERS, "")),
    )


def spec_digest(spec: PodGroupSpec) -> str:
    """Return a digest of ``spec``; different specs almost always have different digests."""
    encoded = msgspec.json.encode(codec.to_builtins(spec), order="deterministic")
    return sha256(encoded).hexdigest()[:16]


def _format_time(time: float | None) -> str | None:
    return None if time is None else micro_time(time)


def _parse_count(text: str) -> int:
    return int(text) if _COUNT.fullmatch(text) else 0


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
