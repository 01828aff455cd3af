"""What requests for capacity and their pod templates are called, so that each look finds the same ones."""

import hashlib
from typing import Final

CONTROLLER: Final = "kueue.x-k8s.io/provisioning-request"
CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"

_HASH_DIGITS: Final = 5
_LONGEST_READABLE: Final = 252 - _HASH_DIGITS  # of the 253 characters of a name; one is for the dash
_MOST_ATTEMPTS: Final = 100  # that are recognised where the name does not show its number


def request_name(workload: str, check: str, attempt: int) -> str:
    return _limited(f"{workload}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    return _limited(f"ppt-{request}-{pod_set}")


def attempt_of(request: str, workload: str, check: str) -> int | None:
    """The attempt that the request of this name is; ``None``: it is none of this workload and check."""
    prefix = f"{workload}-{check}-"
    number = request.removeprefix(prefix)
    if number != request and number.isascii() and number.isdecimal():
        return int(number)
    if len(prefix) < _LONGEST_READABLE - len(str(_MOST_ATTEMPTS)):
        return None
    attempts = range(1, _MOST_ATTEMPTS + 1)
    return next((each for each in attempts if request_name(workload, check, each) == request), None)


def _limited(name: str) -> str:
    """``name``, cut and made different by a hash of the whole where it is too long."""
    if len(name) <= _LONGEST_READABLE:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[:_LONGEST_READABLE]}-{digest[:_HASH_DIGITS]}"
