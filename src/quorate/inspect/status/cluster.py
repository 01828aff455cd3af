"""Read the jobs, queues and nodes that a user may see."""

import asyncio
from collections.abc import Sequence
from typing import Final

from quorate.api.batch import Job
from quorate.api.explanation import Explanation, summary_of
from quorate.api.meta import Struct, Uid
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.volcano import PodGroup
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.served import served_estimates
from quorate.inspect.explain.summaries import summaries
from quorate.inspect.explain.targets import OfJob
from quorate.inspect.listed_groups import STARTED_PODS, native_pod_groups, readable_objects
from quorate.inspect.status.capacity import NodesStatus, QueueStatus, nodes_status, queue_status
from quorate.inspect.status.jobs import JobStatus, job_uids, of_pod_group, of_workload, without_workload
from quorate.kube.client import Client
from quorate.kube.errors import ApiError, Unreachable
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
    """What a user may see; ``nodes`` is None without the permission to list nodes."""

    jobs: tuple[JobStatus, ...]
    queues: tuple[QueueStatus, ...]
    nodes: tuple[NodesStatus, ...] | None


async def read_status(connection: Connection, *, finished: bool) -> ClusterStatus:
    """Return the status of the namespace, or of all; ``finished``: also the jobs that have ended."""
    jobs, queues, nodes = await asyncio.gather(
        _jobs(connection, finished=finished), _queues(connection), _nodes(connection.client)
    )
    return ClusterStatus(jobs=jobs, queues=queues, nodes=nodes)


async def _jobs(connection: Connection, *, finished: bool) -> tuple[JobStatus, ...]:
    client, namespace = connection.client, connection.namespace
    workloads, batch_jobs, volcano_jobs, groups, native = await asyncio.gather(
        client.list(WORKLOADS, namespace),
        readable_objects(client, JOBS, namespace),
        readable_objects(client, VOLCANO_JOBS, namespace),
        readable_objects(client, POD_GROUPS, namespace),
        native_pod_groups(client, namespace),
    )
    states, estimates = await asyncio.gather(
        summaries(client, WORKLOADS.kind, namespace), served_estimates(client, namespace)
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
    all_groups = (*(groups or ()), *(native or ()))
    jobs += without_workload(batch_jobs or (), volcano_jobs or (), all_groups, queued, explained)
    jobs += await _native_groups(client, namespace, native or (), queued)
    return tuple(sorted((job for job in jobs if finished or job.state != "Finished"), key=_order))


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
    except (ApiError, Unreachable, UsageError):
        return {}


async def _native_groups(
    client: Client, namespace: str, groups: Sequence[PodGroup], queued: frozenset[Uid]
) -> list[JobStatus]:
    """Return the status of each native pod group without a job and without a Workload."""
    alone = [
        group for group in groups if not group.metadata.owner_references and group.metadata.uid not in queued
    ]
    if not alone:
        return []
    from quorate.gang.explanation import explain_group  # with numpy, which most clusters do not need
    from quorate.queueing.explanation.pods import with_members

    pods = await readable_objects(client, STARTED_PODS, namespace)
    explained = [(group, with_members(explain_group(group), pods or ())) for group in alone]
    return [of_pod_group(group, summary_of(summaries, group.metadata)) for group, summaries in explained]


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
