"""What the bound pods of a cluster use, in sum and of each node, and which of them run."""

from collections import Counter
from collections.abc import Mapping

from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.dashboard.model.workload_index import RunningPods
from quorate.gang.cache.queue_accounts import add
from quorate.queueing.nodes.foreign_pods import usage_on_node, workload_of


class PodsOnNodes:
    """Follows the bound pods; ``running`` gets those that run."""

    def __init__(self, running: RunningPods) -> None:
        self.used: Counter[str] = Counter()  # in base units; no zeros
        self.by_node: dict[str, Counter[str]] = {}  # no empty ones
        self._running = running
        self._uses: dict[Key, tuple[str, Mapping[str, int]]] = {}  # by pod: its node, and what it uses

    def put_pod(self, pod: Pod) -> None:
        key = pod.metadata.key
        use = (pod.node_name, usage_on_node(pod)) if pod.uses_node else None
        if self._uses.get(key) != use:
            self._remove(key)
            if use is not None:
                self._uses[key] = use
                self._count(*use, 1)
        self._running.put(key, workload_of(pod) if pod.status.phase == "Running" else None)

    def remove_pod(self, key: Key) -> None:
        self._remove(key)
        self._running.put(key, None)

    def _remove(self, key: Key) -> None:
        old = self._uses.pop(key, None)
        if old is not None:
            self._count(*old, -1)

    def _count(self, node: str, amounts: Mapping[str, int], times: int) -> None:
        of_node = self.by_node.setdefault(node, Counter())
        add(of_node, amounts, times)
        if not of_node:
            del self.by_node[node]
        add(self.used, amounts, times)
