"""Fields of batch/v1 Job that Quorate reads.

The pod template is stored as the original bytes, because a Workload must carry every field of it, including
unknown fields. ``decode_template`` decodes the fields that Quorate reads.
"""

from datetime import datetime

import msgspec

from quorate.api.codec import decode
from quorate.api.core import PodTemplate
from quorate.api.interning import InternCache
from quorate.api.meta import Condition, Int32, Int64, ObjectMeta, Struct
from quorate.api.native_groups import PodGroupSpec

EMPTY_OBJECT = msgspec.Raw(b"{}")
JOB_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"  # an annotation and a label of pods


def intern_raw(template: msgspec.Raw) -> msgspec.Raw:
    """Return a shared copy of ``template`` that does not reference the decoded response.

    A ``msgspec.Raw`` view would keep the whole response in memory. Equal templates, which most workloads of a
    queue have, share one object.
    """
    return _intern(bytes(template))


_intern = InternCache(msgspec.Raw, entries=1024)


class JobSpec(Struct):
    parallelism: Int32 = 1
    completions: Int32 | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    active_deadline_seconds: Int64 | None = None
    backoff_limit: Int32 | None = None
    managed_by: str = ""
    pod_replacement_policy: str = ""  # "Failed": a deleted pod is replaced when it is gone
    template: msgspec.Raw = EMPTY_OBJECT
    scheduling: PodGroupSpec | None = None  # 1.37: what the Job controller writes into the group of the job

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "template", intern_raw(self.template))


class UncountedTerminatedPods(Struct):
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    active: Int32 = 0
    ready: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    terminating: Int32 = 0
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
    """Decode a pod template that is stored as bytes."""
    return decode(PodTemplate, raw)
