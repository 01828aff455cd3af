"""Deterministic names of ProvisioningRequests and PodTemplates, and API constants."""

import hashlib
from typing import Final

from quorate.controllers.limits import MAX_HASHED_ATTEMPTS

CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"

_HASH_DIGITS: Final = 5
_MAX_PLAIN: Final = 252 - _HASH_DIGITS  # a name has at most 253 characters, one of them the dash


def request_name(workload: str, check: str, attempt: int) -> str:
    return _limited(f"{workload}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    return _limited(f"ppt-{request}-{pod_set}")


def attempt_of(request: str, workload: str, check: str) -> int | None:
    """Return the attempt number of a request; None if it is not of this workload and check."""
    prefix = f"{workload}-{check}-"
    number = request.removeprefix(prefix)
    if number != request and number.isascii() and number.isdecimal():
        return int(number)
    if len(prefix) < _MAX_PLAIN - len(str(MAX_HASHED_ATTEMPTS)):
        return None
    attempts = range(1, MAX_HASHED_ATTEMPTS + 1)
    return next((attempt for attempt in attempts if request_name(workload, check, attempt) == request), None)


def _limited(name: str) -> str:
    """Return ``name``, truncated and with a hash of the whole name appended if it is too long."""
    if len(name) <= _MAX_PLAIN:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[:_MAX_PLAIN]}-{digest[:_HASH_DIGITS]}"
