"""Pods on nodes that cannot be read: too large, or with an error.

What a large pod requests is known, and counts as a pod of another scheduler.  A node with a pod of unknown
requests takes no other pod.
"""

from collections.abc import Collection
from typing import NamedTuple

from quorate.api.core import ResourceRequirements
from quorate.api.core.pod import Pod, PodMeta
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.core.scheduling import Container, PodSpec
from quorate.api.meta import Key, Uid
from quorate.placement.cluster import Cluster
from quorate.placement.filters.engine import ConstraintEngine


class LargePod(NamedTuple):
    """A bound pod that requests so many resources that it is not read."""

    node: str
    requests: EncodedRequests

    def foreign_pod(self, key: Key, resources: Collection[str]) -> Pod:
        """Return a pod of another scheduler that takes the same of ``resources``."""
        requests = ResourceRequirements(requests=self.requests.of_resources(resources))
        return Pod(
            metadata=PodMeta(name=key.name, namespace=key.namespace, uid=Uid(f"large pod {key}")),
            spec=PodSpec(containers=(Container(resources=requests),)),
            node_name=self.node,
        )


class UnreadablePods:
    """Counts large pods with their requests, and closes nodes with pods of unknown requests."""

    def __init__(self, cluster: Cluster, constraints: ConstraintEngine) -> None:
        self._cluster, self._constraints = cluster, constraints
        self._nodes: dict[Key, str] = {}  # of pods with unknown requests
        self._large: dict[Key, LargePod] = {}

    def add(self, key: Key, node: str, requests: EncodedRequests | None) -> None:
        """Add a pod on ``node``; ``requests``: None if they are not known."""
        if requests is None:
            self._nodes[key] = node
            self._close(node)
        else:
            self._large[key] = LargePod(node, requests)

    def remove(self, key: Key) -> bool:
        """Remove a pod if it is here; return True if it was a large one."""
        node = self._nodes.pop(key, None)
        if node is not None:
            self._close(node)
        return self._large.pop(key, None) is not None

    def _close(self, node: str) -> None:
        """Keep other pods from ``node`` while it has such a pod; the first one is the reason."""
        first = min((key for key, name in self._nodes.items() if name == node), default=None)
        self._constraints.set_unreadable_pod(node, "" if first is None else str(first))

    @property
    def large(self) -> Collection[Key]:
        """The pods with requests that count."""
        return self._large.keys()

    def counted(self, key: Key) -> Pod:
        """Return what takes the place of a large pod: it has only resources that nodes offer."""
        return self._large[key].foreign_pod(key, self._cluster.rows)
