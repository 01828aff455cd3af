"""batch/v1: the fields we read of a Job.

The pod template is kept as the bytes it came in: a Workload must carry it whole, including fields this
project does not know.  ``decode_template`` decodes the part we read.
"""

from datetime import datetime
from functools import lru_cache

import msgspec

from quorate.api.codec import decode
from quorate.api.core import PodTemplate
from quorate.api.meta import Condition, ObjectMeta, Struct

EMPTY_OBJECT = msgspec.Raw(b"{}")


def intern_raw(template: msgspec.Raw) -> msgspec.Raw:
    """``template`` for keeping: as a view it would keep the whole response it was decoded from.

    Equal templates, which most workloads of a queue have, are one in memory.
    """
    return _intern(bytes(template))


@lru_cache(maxsize=1024)
def _intern(content: bytes) -> msgspec.Raw:
    return msgspec.Raw(content)


class JobSpec(Struct):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    managed_by: str = ""
    template: msgspec.Raw = EMPTY_OBJECT

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "template", intern_raw(self.template))


class UncountedTerminatedPods(Struct):
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    start_time: datetime | None = None
    completion_time: datetime | None = None
    completed_indexes: str = ""
    failed_indexes: str = ""
    uncounted_terminated_pods: UncountedTerminatedPods = UncountedTerminatedPods()


class Job(Struct):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


def decode_template(raw: msgspec.Raw) -> PodTemplate:
    """The fields we read of a pod template kept as bytes."""
    return decode(PodTemplate, raw)
