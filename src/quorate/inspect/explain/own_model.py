"""Explanations by the model of this process, which evaluates the whole cluster as the controllers do."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from quorate.api.configuration import Configuration, default_configuration
from quorate.api.explanation import Explanation
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.native_groups import PREFIX
from quorate.controllers.unserved import why_not_queued
from quorate.inspect.cluster_model import effective_configuration, evaluate_all, load_state
from quorate.inspect.cluster_reader import ClusterReader
from quorate.inspect.explain.targets import OfJob
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.observe.explanation_lists import explain_read_group, started_of
from quorate.queueing.explain import first_pending, pending_facts, run
from quorate.queueing.explanation.jobs import UnqueuedJob, explain_unqueued_job
from quorate.queueing.explanation.queues import explain_cluster_queue, explain_local_queue
from quorate.queueing.explanation.workload import explain_workload
from quorate.queueing.state import State


@dataclass(slots=True)
class OwnModel:
    """The model of a cluster at one moment."""

    reader: ClusterReader
    configuration: Configuration
    origin: str  # of the configuration, for messages
    state: State

    @classmethod
    async def load(cls, client: Client, config: Path | None) -> "OwnModel":
        """Read the cluster.  Raises ``Forbidden`` without the permission to read what decides."""
        used = await effective_configuration(client, config)
        now = WallClock().now()
        state = await load_state(client, used.configuration, now)
        await asyncio.to_thread(evaluate_all, state, now)
        return cls(ClusterReader(client), used.configuration, used.origin, state)

    async def workload(self, workload: Workload) -> Explanation:
        started = await started_of(self.reader, workload)
        return explain_workload(
            self.state, workload, run(pending_facts(self.state, workload.metadata.key)), started
        )

    def cluster_queue(self, name: str) -> Explanation | None:
        return explain_cluster_queue(self.state, name, run(first_pending(self.state, name)))

    def local_queue(self, key: Key) -> Explanation | None:
        queue = self.state.ledger.local_queues.get(key)
        name = queue.cluster_queue if queue is not None else ""
        return explain_local_queue(self.state, key, run(first_pending(self.state, name)))

    def job(self, target: OfJob) -> Explanation:
        resource, job = target.resource, target.job
        why = why_not_queued(self.configuration.integrations, resource.group, resource.kind)
        queue = job.labels.get(QUEUE_NAME, "")
        return explain_unqueued_job(
            self.state, UnqueuedJob(resource.kind, job.key, queue, why, target.is_suspended, resource.group)
        )


async def explain_stored_workload(client: Client, workload: Workload) -> Explanation:
    """Return what the status of a workload says, with its pods if it is admitted."""
    started = await started_of(ClusterReader(client), workload)
    return explain_workload(State(default_configuration()), workload, None, started)


async def explain_stored_group(client: Client, key: Key) -> Explanation | None:
    """Return what the status of a pod group and its pods say; None if there is none to read.

    Of Kubernetes if the name begins with its API group, or if Volcano's API has no group of the name.
    """
    reader = ClusterReader(client)
    group = await reader.pod_group(key) or await reader.pod_group(Key(key.namespace, PREFIX + key.name))
    return None if group is None else await explain_read_group(reader, group)
