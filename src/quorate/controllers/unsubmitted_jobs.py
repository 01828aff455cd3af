"""The Workload that the controllers would make of a job that does not exist yet."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.core import PriorityClass
from quorate.api.kueue import Workload, WorkloadPriorityClass
from quorate.api.meta import at_epoch
from quorate.controllers.integrations import INTEGRATIONS
from quorate.controllers.jobframework.construct_workload import NotComposed
from quorate.controllers.jobframework.interface import JobKind, JobState
from quorate.controllers.jobframework.job_plan import ReconcileContext, job_options
from quorate.kube.resources import Json

_NO_UID: Final = "00000000-0000-0000-0000-000000000000"  # of a job that does not exist


def job_kind_of(api_version: str, kind: str) -> JobKind[Any] | None:
    """Return the rules of a kind of job; None for another kind, or for pods."""
    for row in INTEGRATIONS.values():
        if (row.resource.api_version, row.resource.kind) == (api_version, kind):
            return row.kind
    return None


def workload_of_unsubmitted_job(
    document: Json,
    kind: JobKind[Any],
    configuration: Configuration,
    workload_classes: Iterable[WorkloadPriorityClass],
    pod_classes: Iterable[PriorityClass],
    now: float,
) -> Workload | NotComposed:
    """Return the Workload of a job that is created at ``now``, epoch seconds."""
    created = {"uid": _NO_UID, "creationTimestamp": at_epoch(now)}
    job: Any = codec.convert(kind.resource.type, document | {"metadata": document["metadata"] | created})
    context = ReconcileContext(
        flavors={},
        workload_classes={priority.metadata.name: priority for priority in workload_classes},
        pod_classes={priority.metadata.name: priority for priority in pod_classes},
    )
    constructed = kind.construct(JobState.of(kind, job, context, job_options(configuration), now))
    if isinstance(constructed, NotComposed):
        return constructed
    metadata = msgspec.structs.replace(constructed.metadata, uid=_NO_UID, creation_timestamp=at_epoch(now))
    return msgspec.structs.replace(constructed, metadata=metadata)
