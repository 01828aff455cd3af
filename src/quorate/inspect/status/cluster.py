"""Read the jobs, queues and nodes that a user may see."""

import asyncio
from collections.abc import Sequence
from typing import Final

from quorate.api.batch import Job
from quorate.api.explanation import Explanation
from quorate.api.meta import Struct, Uid
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.volcano import PodGroup
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.served import served_estimates
from quorate.inspect.explain.summaries import Summaries, summaries
from quorate.inspect.explain.targets import OfJob
from quorate.inspect.listed_groups import native_pod_groups, readable_objects
from quorate.inspect.status.capacity import NodesStatus, QueueStatus, nodes_status, queue_status
from quorate.inspect.status.jobs import JobStatus, job_uids, of_pod_group, of_workload, without_workload
from quorate.kube.client import Client
from quorate.kube.errors import RequestFailed
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    PLACEABLE_NODES,
    PLACEABLE_PODS,
    POD_GROUPS,
    RESOURCE_FLAVORS,
    VOLCANO_JOBS,
    WORKLOADS,
    untyped,
)
from quorate.queueing.conditions import is_finished

_MOST_EXPLAINED: Final = 20  # jobs without a Workload: each is a request
_ANY_JOB: Final = untyped(JOBS.group, JOBS.version, JOBS.plural, JOBS.kind, namespaced=True)


class ClusterStatus(Struct, omit_defaults=False):
    """What a user may see; ``nodes`` is None without the permission to list nodes.

    ``problem`` says why the controllers did not answer, and what the states are instead; empty if they did.
    """

    jobs: tuple[JobStatus, ...]
    queues: tuple[QueueStatus, ...]
    nodes: tuple[NodesStatus, ...] | None
    problem: str = ""


async def read_status(connection: Connection, *, finished: bool) -> ClusterStatus:
    """Return the status of the namespace, or of all; ``finished``: also the jobs that have ended.

    Raises ``UsageError`` if the namespace does not exist.
    """
    (jobs, problem), queues, nodes = await asyncio.gather(
        _jobs(connection, finished=finished), _queues(connection), _nodes(connection.client)
    )
    if not jobs and not queues:
        await connection.require_namespace()
    return ClusterStatus(jobs=jobs, queues=queues, nodes=nodes, problem=problem)


async def _jobs(connection: Connection, *, finished: bool) -> tuple[tuple[JobStatus, ...], str]:
    client, namespace = connection.client, connection.namespace
    workloads, batch_jobs, volcano_jobs, groups, native = await asyncio.gather(
        client.list(WORKLOADS, namespace),
        readable_objects(client, JOBS, namespace),
        readable_objects(client, VOLCANO_JOBS, namespace),
        readable_objects(client, POD_GROUPS, namespace),
        native_pod_groups(client, namespace),
    )
    all_groups = (*(groups or ()), *(native or ()))
    states, estimates, of_groups = await asyncio.gather(
        summaries(client, WORKLOADS.kind, namespace),
        served_estimates(client, namespace),
        _group_states(client, namespace, all_groups),
    )
    queued = frozenset(uid for workload in workloads.items for uid in job_uids(workload))
    unfinished = {
        uid for workload in workloads.items if not is_finished(workload) for uid in job_uids(workload)
    }
    jobs = [
        of_workload(workload, states.of_workload(workload), estimates)
        for workload in workloads.items
        if not is_finished(workload) or unfinished.isdisjoint(job_uids(workload))  # else it was replaced
    ]
    explained = await _why_not_queued(connection, batch_jobs or (), queued)
    jobs += without_workload(batch_jobs or (), volcano_jobs or (), all_groups, queued, explained, of_groups)
    jobs += [
        of_pod_group(group, of_groups.of_pod_group(group))
        for group in native or ()
        if not group.metadata.owner_references and group.metadata.uid not in queued
    ]
    shown = tuple(sorted((job for job in jobs if finished or job.state != "Finished"), key=_order))
    return shown, "; ".join(filter(None, (states.problem, of_groups.problem)))


async def _why_not_queued(
    connection: Connection, jobs: Sequence[Job], queued: frozenset[Uid]
) -> dict[Uid, Explanation]:
    """Return why suspended jobs with a queue have no Workload, of at most ``_MOST_EXPLAINED`` of them."""
    waiting = [
        job.metadata
        for job in jobs
        if job.spec.suspend and QUEUE_NAME in job.metadata.labels and job.metadata.uid not in queued
    ][:_MOST_EXPLAINED]
    answers = Answers(connection, None)
    try:
        return {job.uid: await answers.of(OfJob(_ANY_JOB, job, True)) for job in waiting}
    except (RequestFailed, UsageError):
        return {}


async def _group_states(client: Client, namespace: str, groups: Sequence[PodGroup]) -> Summaries:
    """Return the summaries of the pod groups; they are not requested for a cluster without pod groups."""
    return await summaries(client, POD_GROUPS.kind, namespace) if groups else Summaries({})


def _order(job: JobStatus) -> tuple[bool, str, str]:
    """Return the sort key: jobs that have started first, then by namespace and name."""
    return not job.has_started, job.namespace, job.name


async def _queues(connection: Connection) -> tuple[QueueStatus, ...]:
    client = connection.client
    local_queues, cluster_queues = await asyncio.gather(
        client.list(LOCAL_QUEUES, connection.namespace), readable_objects(client, CLUSTER_QUEUES)
    )
    by_name = {queue.metadata.name: queue for queue in cluster_queues or ()}
    return tuple(queue_status(queue, by_name.get(queue.spec.cluster_queue)) for queue in local_queues.items)


async def _nodes(client: Client) -> tuple[NodesStatus, ...] | None:
    nodes, flavors, pods = await asyncio.gather(
        readable_objects(client, PLACEABLE_NODES),
        readable_objects(client, RESOURCE_FLAVORS),
        readable_objects(client, PLACEABLE_PODS),
    )
    return None if nodes is None else nodes_status(nodes, flavors or (), pods)
