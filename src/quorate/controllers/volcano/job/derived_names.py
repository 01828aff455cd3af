"""Names that are derived from the name of a Volcano Job, which may have 253 characters and dots."""

import hashlib
from typing import Final

from quorate.api.syntax import is_dns_label, is_dns_subdomain
from quorate.controllers.limits import MAX_LABEL, MAX_NAME

_DIGITS: Final = 8


def object_name(job: str, suffix: str) -> str:
    """Return ``JOB-SUFFIX``, shortened with a hash of the whole name if no object may have that name."""
    name = f"{job}-{suffix}"
    return name if is_dns_subdomain(name) else _shortened(job, name, suffix, MAX_NAME)


def label_name(job: str, suffix: str = "") -> str:
    """Return ``JOB-SUFFIX`` or ``JOB``, with a hash if no volume or Service may have that name."""
    name = f"{job}-{suffix}" if suffix else job
    return name if is_dns_label(name) else _shortened(job.replace(".", "-"), name, suffix, MAX_LABEL)


def _shortened(job: str, name: str, suffix: str, length: int) -> str:
    tail = f"-{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}{f'-{suffix}' if suffix else ''}"
    return job[: length - len(tail)].rstrip("-.") + tail
