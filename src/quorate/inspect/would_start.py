"""Whether and when a job would start that does not exist yet, by the rules of the controllers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from quorate.api.explanation import NO_START, Explanation
from quorate.api.kueue import Workload
from quorate.api.meta import Struct
from quorate.api.names.kueue import QUEUE_NAME
from quorate.controllers.integrations import job_kind_of, workload_of_unsubmitted_job
from quorate.controllers.jobframework.construct_workload import NotComposed
from quorate.inspect.cluster_model import effective_configuration, evaluate_all, load_state
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.formatting import format_duration
from quorate.inspect.live_cluster import read_objects
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden
from quorate.kube.resources import PRIORITY_CLASSES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, Json
from quorate.queueing.decisions import Reserve
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.workload import explain_workload
from quorate.queueing.inadmissible_reasons import NodesLackRoom
from quorate.simulate.estimates.forecast import StartTime, forecast
from quorate.simulate.estimates.snapshot import run_times, snapshot_world
from quorate.simulate.limits import ASSUMED_RUN_S


class Outlook(Struct, omit_defaults=False):
    """Whether and when a job would start that does not exist yet, in sentences; empty ones are not known."""

    starts: Literal["Now", "Later", "Never", "Unknown"]
    message: str
    enough: tuple[str, ...] = ()  # what would let it start
    estimate: str = ""
    planned: str = ""  # its planned start


async def outlook_of(connection: Connection, config: Path | None, document: Json) -> Outlook:
    """Return whether and when the job would start, as far as the user may read what decides."""
    if QUEUE_NAME not in document["metadata"].get("labels", {}):
        return Outlook(
            starts="Unknown", message="whether it would start is evaluated for jobs in local queues only"
        )
    job = document | {"metadata": document["metadata"] | {"namespace": connection.namespace}}
    client = connection.client
    try:
        explanation, unplaced, workload = await would_start(client, config, job)
    except Forbidden as error:
        return Outlook(starts="Unknown", message=f"whether it would start is not known: {error}")
    outlook = outlook_by(explanation, unplaced)
    if outlook.starts != "Later" or unplaced or explanation.state in NO_START:
        return outlook
    try:
        start = await estimated_start(client, config, workload)
    except UsageError as error:
        return replace(outlook, estimate=f"when it would start is not known: {error}")
    return replace(outlook, estimate=_estimate(start))


def outlook_by(explanation: Explanation, unplaced: Sequence[NodesLackRoom] = ()) -> Outlook:
    """Return what the explanation of its workload says of a job, without an estimate.

    ``unplaced``: which of its pods fit no node although it has quota.
    """
    if unplaced:
        shortages = "; ".join(shortage.text for shortage in unplaced)
        if any(shortage.never_fits for shortage in unplaced):
            return Outlook(starts="Never", message=f"it would never start as the cluster is now: {shortages}")
        quota = f"quota of {explanation.cluster_queue}"
        return Outlook(starts="Later", message=f"it would get {quota} now, and wait for nodes: {shortages}")
    if any(reason.code == "QuotaAvailable" for reason in explanation.reasons):
        return Outlook(starts="Now", message=f"it would start now, with quota of {explanation.cluster_queue}")
    if explanation.can_never_fit:
        return Outlook(starts="Never", message=explanation.message, enough=explanation.enough)
    if explanation.state == "NeverFits":
        message = f"it would never start as the cluster is now: {explanation.message}"
        return Outlook(starts="Never", message=message, enough=explanation.enough)
    planned = "" if explanation.planned_start is None else explanation.planned_start.text
    message = f"it would wait: {explanation.message}"
    return Outlook(starts="Later", message=message, enough=explanation.enough, planned=planned)


def _estimate(start: StartTime | None) -> str:
    if start is None or start.p50_s is None:
        return "it would not start in the time that is simulated"
    p90 = "" if start.p90_s is None else f", in nine of ten within {format_duration(start.p90_s)}"
    return f"it would start in half of the runs within {format_duration(start.p50_s)}{p90}"


async def would_start(
    client: Client, config: Path | None, document: Json
) -> tuple[Explanation, Sequence[NodesLackRoom], Workload]:
    """Return the explanation of the workload of the job, which pods fit no node, and the workload.

    The nodes are looked at if the job would get quota now.
    The job has a local queue.  Raises ``UsageError`` for a job of which no workload can be made, and
    ``Forbidden`` without the permission to read what decides.
    """
    used = await effective_configuration(client, config)
    now = WallClock().now()
    state = await load_state(client, used.configuration, now)
    kind = job_kind_of(document["apiVersion"], document["kind"])
    assert kind is not None, f"no kind of job: {document['kind']}"
    workload_classes = (await client.list(WORKLOAD_PRIORITY_CLASSES)).items
    pod_classes = (await client.list(PRIORITY_CLASSES)).items
    workload = workload_of_unsubmitted_job(
        document, kind, used.configuration, workload_classes, pod_classes, now
    )
    if isinstance(workload, NotComposed):
        raise UsageError(f"{kind.resource.kind} {document['metadata'].get('name', '')}: {workload.why}")
    state.put_workload(workload, now)
    key = workload.metadata.key
    decision = evaluate_all(state, now).get(key)
    unplaced = decision.unplaced if isinstance(decision, Reserve) else ()
    return explain_workload(state, workload, run(pending_facts(state, key))), unplaced, workload


async def estimated_start(client: Client, config: Path | None, workload: Workload) -> StartTime | None:
    """Return when ``workload`` would start beside the jobs of the cluster; None if it is not played.

    Jobs run for ``ASSUMED_RUN_S`` if none has finished.  Raises ``UsageError`` without the permission to
    list what is played, in all namespaces.
    """
    used = await effective_configuration(client, config)
    now = WallClock().now()
    objects = {resource: items async for resource, items in read_objects(client)}
    objects[WORKLOADS].append(workload)
    world = snapshot_world(objects, run_times(objects[WORKLOADS], ASSUMED_RUN_S), now, used.configuration)
    starts = forecast(world)
    return next((start for start in starts if start.key == workload.metadata.key), None)
