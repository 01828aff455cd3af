"""The objects of a cluster as the dashboard keeps them, and what one caller may see of them."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Final, TypeVar

from quorate.api.configuration import Configuration
from quorate.api.core.pod import Pod
from quorate.api.explanation import ExplainedState, ExplanationSummary
from quorate.api.kueue.multikueue import MultiKueueCluster
from quorate.api.kueue.topology import Topology
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup, Queue
from quorate.dashboard.model.workload_index import WITHOUT_QUOTA, Group, Listed, WorkloadIndex
from quorate.dashboard.queries import Viewer
from quorate.gang.cache.queue_accounts import add
from quorate.queueing.cluster_queue import ClusterQueueState, LocalQueueState
from quorate.queueing.explain import closed_queue_reason
from quorate.queueing.explanation.scope import HIDDEN
from quorate.queueing.inadmissible_reasons import workload_reason_text
from quorate.queueing.ledger import Ledger
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.occupants import usage_on_node
from quorate.queueing.state import State

T = TypeVar("T")

_NAMED: Final = re.compile(r"([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/([a-z0-9](?:[-.a-z0-9]*[a-z0-9])?)")
# Answers that are kept, by the name of the question; lists of workloads have an entry for each workload.
_KEPT: Final = {"workloads": 64, "pod_groups": 64, "nodes": 16, "overview": 256, "positions": 20_000}
_KEPT_BY_DEFAULT: Final = 1_024


class ClusterData:
    """The objects of a cluster.  The model writes them, and the views read them."""

    def __init__(self, configuration: Configuration) -> None:
        self.state = State(configuration)
        self.workloads = WorkloadIndex()
        self.used: Counter[str] = Counter()  # what bound pods use, in base units; no zeros
        self.topologies: dict[str, Topology] = {}
        self.without_pods = TopologyModel(configuration.topology_gates)  # the nodes as if no pod used them
        self.without_pods.flavors = self.state.flavors
        self.pod_groups: dict[Key, PodGroup] = {}
        self.pod_group_summaries: Mapping[Key, ExplanationSummary] = {}  # as the feed reads them
        self.gang_queues: dict[str, Queue] = {}
        self.worker_clusters: dict[str, MultiKueueCluster] = {}
        self.queue_revision = 0  # incremented by every change but of workloads, pod groups, nodes and pods
        self.pod_group_revision = 0  # by changes of pod groups and their queues
        self.node_revision = 0  # by changes of nodes
        self.pod_revision = 0  # by changes of what pods use of nodes
        # By the name of the question and the question: the revision, and the answer; the latest is last.
        self._answers: dict[str, dict[Hashable, tuple[Hashable, object]]] = {}

    @property
    def ledger(self) -> Ledger:
        """Queues, quota and workloads as the queueing core reads them."""
        return self.state.ledger

    @property
    def topology(self) -> TopologyModel:
        """The nodes with their pods and places."""
        return self.ledger.topology

    @property
    def revision(self) -> tuple[int, int]:
        """The version of queues and workloads."""
        return self.queue_revision, self.workloads.revision

    def remembered(
        self, question: tuple[str, *tuple[Hashable, ...]], revision: Hashable, compute: Callable[[], T]
    ) -> T:
        """Return the answer to ``question`` of this revision, computed once.

        ``question`` begins with its name, which says the type of the answer.
        """
        name = question[0]
        answers = self._answers.setdefault(name, {})
        kept = answers.pop(question, None)
        if kept is None or kept[0] != revision:
            kept = (revision, compute())
        answers[question] = kept
        if len(answers) > _KEPT.get(name, _KEPT_BY_DEFAULT):
            del answers[next(iter(answers))]
        answer: T = kept[1]  # type: ignore[assignment]
        return answer

    def count_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """Count what a bound pod uses, instead of the pod before."""
        for pod, times in ((old, -1), (new, 1)):
            if pod is not None and pod.uses_node:
                add(self.used, usage_on_node(pod), times)
        self.pod_revision += 1

    # Queues.

    def cluster_queue_of(self, group: Group) -> str:
        """Return the cluster queue that a group of workloads has quota in, or would get it from."""
        if group.reserved_in:
            return group.reserved_in
        return self.cluster_queue_of_local_queue(group.local_queue)

    def cluster_queue_of_local_queue(self, key: Key) -> str:
        """Return the cluster queue that a local queue names; empty if the local queue does not exist."""
        local_queue = self.ledger.local_queues.get(key)
        return local_queue.cluster_queue if local_queue is not None else ""

    def cluster_queue_of_workload(self, key: Key) -> str:
        listed = self.workloads.by_key.get(key)
        return "" if listed is None else self.cluster_queue_of(listed.group)

    def pending_revision(self, cluster_queue: str) -> tuple[int, int]:
        """Return the version of the pending workloads of a cluster queue."""
        by_name = self.remembered(("local_queues_of",), self.queue_revision, self._local_queues_of)
        changes = sum(self.workloads.revisions[key] for key in by_name.get(cluster_queue, ()))
        return self.queue_revision, changes

    def _local_queues_of(self) -> dict[str, list[Key]]:
        by_name: dict[str, list[Key]] = {}
        for key, queue in self.ledger.local_queues.items():
            by_name.setdefault(queue.cluster_queue, []).append(key)
        return by_name

    def reason_of(self, group: Group) -> tuple[str, str]:
        """Return code and text of the reason for which a whole group waits: its queue admits nothing.

        Empty if the queue is no reason; then each workload has its own.
        """
        if group.state not in WITHOUT_QUOTA or group.reserved_in:
            return "", ""
        closed = closed_queue_reason(self.state, group.local_queue)
        return ("", "") if closed is None else (type(closed).__name__, workload_reason_text(closed))

    def state_of(self, group: Group) -> ExplainedState:
        """Return the state of the workloads of a group: they are held if their queue admits nothing."""
        return "Held" if self.reason_of(group)[0] else group.state

    def local_queues(self, viewer: Viewer) -> Iterator[tuple[Key, LocalQueueState]]:
        """Yield the local queues that exist and that the viewer may read, in order."""
        for key, queue in sorted(self.ledger.local_queues.items()):
            if queue.object is not None and viewer.reads(key):
                yield key, queue

    def cluster_queues(self, viewer: Viewer) -> dict[str, ClusterQueueState]:
        """Return the cluster queues of which the viewer may see totals, in order.

        An administrator may see all cluster queues, any other viewer the queues to which local queues in its
        namespaces point.
        """
        return self.remembered(
            ("cluster_queues", viewer), self.queue_revision, lambda: self._cluster_queues(viewer)
        )

    def _cluster_queues(self, viewer: Viewer) -> dict[str, ClusterQueueState]:
        queues = self.ledger.cluster_queues
        names: Collection[str] = queues
        if not viewer.scope.cluster_queues:
            names = {queue.cluster_queue for _, queue in self.local_queues(viewer)} & queues.keys()
        return {name: queues[name] for name in sorted(names)}

    # Workloads.

    def readable(
        self, viewer: Viewer, matches: Callable[[Group], bool] = lambda group: True
    ) -> Iterator[tuple[Group, dict[Key, Listed]]]:
        """Yield the groups of workloads that the viewer may read and that match."""
        reads = viewer.reads_namespace
        return self.workloads.matching(lambda group: reads(group.local_queue.namespace) and matches(group))

    def readable_text(self, text: str, namespaces: frozenset[str] | None) -> str:
        """Return a text of a status without names of objects in namespaces other than ``namespaces``.

        None: all names may be read.
        """
        if namespaces is None or "/" not in text:
            return text

        def shown(match: re.Match[str]) -> str:
            namespace = match[1]
            is_hidden = namespace not in namespaces and namespace in self.ledger.namespaces
            return HIDDEN.name if is_hidden else match[0]

        return _NAMED.sub(shown, text)
