"""The annotation ``kueue.x-k8s.io/wait-for-pods-ready``: timeouts of one workload, as JSON.

Specified in Kueue's KEP-4803: ``{"timeoutSeconds": 600, "recoveryTimeoutSeconds": 60}``.
"""

from typing import Annotated, Final

import msgspec

WAIT_FOR_PODS_READY: Final = "kueue.x-k8s.io/wait-for-pods-ready"


class WorkloadTimeouts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Timeouts in seconds; a recovery timeout of 0 never expires, and None is the first timeout."""

    timeout_seconds: Annotated[int, msgspec.Meta(ge=1)]
    recovery_timeout_seconds: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @property
    def longest_s(self) -> int:
        return max(self.timeout_seconds, self.recovery_timeout_seconds or 0)


class InvalidTimeouts(msgspec.Struct, frozen=True):
    """Why the text is not valid; completes the sentence "annotation: value ..."."""

    rule: str


def parse_workload_timeouts(text: str) -> WorkloadTimeouts | InvalidTimeouts:
    try:
        return msgspec.json.decode(text, type=WorkloadTimeouts)
    except msgspec.DecodeError as error:
        return InvalidTimeouts(f'is not valid: {error} (write {{"timeoutSeconds": 600}})')
