"""Explanations by the model of this process, which evaluates the whole cluster as the controllers do."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from quorate.api.configuration import Configuration
from quorate.api.core.started_pod import StartedPod
from quorate.api.explanation import Explanation
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.cli.cluster_reader import ClusterReader
from quorate.cli.verbs.cluster_model import effective_configuration, evaluate_all, load_state
from quorate.gang.explanation import waiting_group
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.queueing.conditions import is_admitted
from quorate.queueing.explain import first_pending, pending_facts, run
from quorate.queueing.explanation.pods import selector_of
from quorate.queueing.explanation.queues import explain_cluster_queue, explain_local_queue
from quorate.queueing.explanation.workload import NOT_READ, Started, explain_workload
from quorate.queueing.state import State


@dataclass(slots=True)
class OwnModel:
    """The model of a cluster at one moment."""

    reader: ClusterReader
    configuration: Configuration
    origin: str  # of the configuration, for messages
    state: State
    _pods: dict[tuple[str, str], Sequence[StartedPod] | None] = field(default_factory=dict)

    @classmethod
    async def load(cls, client: Client, config: Path | None) -> "OwnModel":
        """Read the cluster.  Raises ``Forbidden`` without the permission to read what decides."""
        used = await effective_configuration(client, config)
        now = WallClock().now()
        state = await load_state(client, used.configuration, now)
        evaluate_all(state, now)
        return cls(ClusterReader(client), used.configuration, used.origin, state)

    async def workload(self, workload: Workload) -> Explanation:
        started = NOT_READ
        if is_admitted(workload):
            started = await self._started_of(workload)
        return explain_workload(
            self.state, workload, run(pending_facts(self.state, workload.metadata.key)), started
        )

    def cluster_queue(self, name: str) -> Explanation | None:
        return explain_cluster_queue(self.state, name, run(first_pending(self.state, name)))

    def local_queue(self, key: Key) -> Explanation | None:
        known = self.state.ledger.local_queues.get(key)
        name = known.cluster_queue if known is not None else ""
        return explain_local_queue(self.state, key, run(first_pending(self.state, name)))

    async def _started_of(self, workload: Workload) -> Started:
        namespace, selector = workload.metadata.namespace, selector_of(workload)
        if (namespace, selector) not in self._pods:
            self._pods[namespace, selector] = await self.reader.pods(namespace, selector)
        groups = await self.reader.pod_groups(namespace)
        return Started(self._pods[namespace, selector], waiting_group(workload, groups))
