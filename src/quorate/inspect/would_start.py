"""Whether and when a job would start that does not exist yet, by the rules of the controllers."""

from pathlib import Path
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.explanation import Explanation
from quorate.api.kueue import Workload
from quorate.api.meta import at_epoch
from quorate.controllers.integrations import INTEGRATIONS
from quorate.controllers.jobframework.construct_workload import NotComposed
from quorate.controllers.jobframework.interface import JobKind, JobState
from quorate.controllers.jobframework.job_plan import ReconcileContext, job_options
from quorate.inspect.cluster_model import effective_configuration, evaluate_all, load_state
from quorate.inspect.errors import UsageError
from quorate.inspect.live_cluster import read_objects
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import PRIORITY_CLASSES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, Json
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.workload import explain_workload
from quorate.simulate.estimates.forecast import StartTime, forecast
from quorate.simulate.estimates.snapshot import run_times, snapshot_world

_NO_UID: Final = "00000000-0000-0000-0000-000000000000"  # of a job that does not exist


async def would_start(client: Client, config: Path | None, document: Json) -> tuple[Explanation, Workload]:
    """Return the explanation of the workload that the job would have, and that workload.

    The job has a local queue.  Raises ``UsageError`` for a job of which no workload can be made, and
    ``Forbidden`` without the permission to read what decides.
    """
    used = await effective_configuration(client, config)
    now = WallClock().now()
    state = await load_state(client, used.configuration, now)
    kind = _kind_of(document)
    job: Any = codec.convert(kind.resource.type, _created(document, now))
    classes = (await client.list(WORKLOAD_PRIORITY_CLASSES)).items
    pod_classes = (await client.list(PRIORITY_CLASSES)).items
    context = ReconcileContext(
        flavors={},
        workload_classes={priority.metadata.name: priority for priority in classes},
        pod_classes={priority.metadata.name: priority for priority in pod_classes},
    )
    constructed = kind.construct(JobState.of(kind, job, context, job_options(used.configuration), now))
    if isinstance(constructed, NotComposed):
        raise UsageError(f"{kind.resource.kind} {job.metadata.name}: {constructed.why}")
    metadata = msgspec.structs.replace(constructed.metadata, uid=_NO_UID, creation_timestamp=at_epoch(now))
    workload = msgspec.structs.replace(constructed, metadata=metadata)
    state.put_workload(workload, now)
    evaluate_all(state, now)
    return explain_workload(state, workload, run(pending_facts(state, metadata.key))), workload


def starts_now(explanation: Explanation) -> bool:
    """Return True if the evaluation admitted the workload."""
    return any(reason.code == "QuotaAvailable" for reason in explanation.reasons)


async def estimated_start(
    client: Client, config: Path | None, workload: Workload, assumed_s: float
) -> StartTime | None:
    """Return when ``workload`` would start beside the jobs of the cluster; None if it is not played.

    ``assumed_s``: how long jobs run if none has finished.  Raises ``UsageError`` without the permission to
    list what is played, in all namespaces.
    """
    used = await effective_configuration(client, config)
    now = WallClock().now()
    objects = {resource: found async for resource, found in read_objects(client)}
    objects[WORKLOADS].append(workload)
    world = snapshot_world(objects, run_times(objects[WORKLOADS], assumed_s), now, used.configuration)
    starts = forecast(world)
    return next((start for start in starts if start.key == workload.metadata.key), None)


def _kind_of(document: Json) -> JobKind[Any]:
    for row in INTEGRATIONS.values():
        if (row.resource.api_version, row.resource.kind) == (document["apiVersion"], document["kind"]):
            assert row.kind is not None, "pods are not submitted"
            return row.kind
    raise AssertionError(f"no kind of job: {document['kind']}")


def _created(document: Json, now: float) -> Json:
    """Return the job as the API server would store it."""
    return document | {
        "metadata": document["metadata"] | {"uid": _NO_UID, "creationTimestamp": at_epoch(now)}
    }
