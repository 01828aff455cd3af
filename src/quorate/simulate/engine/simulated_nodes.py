"""The nodes of a run: when they fail and are repaired, and which of their jobs that concerns.

A node that fails is not ready and its pods have stopped; after the repair it is ready and empty.  Each node
draws its times from a source of its own, so they do not depend on what the queues decide.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import heappop, heappush
from random import Random
from typing import Final

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core import Taint
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import HostNode, Node
from quorate.api.kueue import Workload
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import ConditionStatus, condition_at, find_condition, with_condition
from quorate.controllers.topology.node_feeds import node_feeds
from quorate.queueing.state import State
from quorate.queueing.topology.node_failures import (
    HostState,
    NodeFailures,
    NodeHealth,
    host_state,
    node_failures,
    tolerations_of,
)
from quorate.simulate.inputs.distributions import draw
from quorate.simulate.inputs.node_pools import Outages
from quorate.simulate.inputs.scenario import Scenario

MS: Final = 1000
_UNREACHABLE: Final = Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule")
Hosts = Mapping[str, frozenset[str]]  # by pod set, those of its pods


class SimulatedNodes:
    """Feeds the nodes to ``state``, and to ``also``; they are ready at first."""

    def __init__(
        self,
        nodes: Collection[Node],
        scenario: Scenario,
        state: State,
        also: Callable[[Node], object] = lambda _: None,
    ) -> None:
        self._state = state
        self._nodes = {node.metadata.name: node for node in nodes}
        self._by_host = {node.metadata.labels[HOSTNAME]: node.metadata.name for node in nodes}
        self.down: set[str] = set()  # host names of the nodes that are not ready
        reads_nodes = any(map(state.nodes.reads_nodes, state.flavors.values()))
        self._feeds = node_feeds(state, self._retry) if reads_nodes else None
        self._also = also
        for node in self._nodes.values():
            self._put(node)
        self._outages = dict(_outages(scenario))
        self._draws = {name: Random(f"{scenario.seed} node {name}") for name in self._outages}
        self._failures: list[tuple[int, str]] = []  # heaps of times and nodes
        self._repairs: list[tuple[int, str]] = []
        for name in self._outages:
            self._fail_later(name, 0)

    def _put(self, node: Node) -> None:
        if self._feeds is not None:
            self._feeds[0].put(HostNode(metadata=node.metadata, spec=node.spec, status=node.status))
        self._also(node)

    def host_of(self, name: str) -> str:
        """Return the host name of a node."""
        return self._nodes[name].metadata.labels[HOSTNAME]

    def count_pod(self, pod: Pod, node: str) -> None:
        """Count a pod that the scheduler bound to ``node``, or "" if it has ended, where places are given."""
        ledger = self._state.ledger
        if self._feeds is None or not ledger.topology.placing:
            return
        if node:
            metadata = pod.metadata
            bound = {
                "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
                "spec": {**codec.to_builtins(pod.spec), "nodeName": node},
                "status": {"phase": "Running"},
            }
            self._feeds[1].put(codec.convert(Pod, bound))
        else:
            self._feeds[1].remove(pod.metadata.key)

    def _retry(self, flavors: Collection[str]) -> None:
        if self._state.ledger.entries:  # not while the nodes are read
            self._state.nodes.retry_flavors(flavors)

    def next_ms(self, *, is_busy: bool) -> int | None:
        """Return when the next node changes.

        ``is_busy``: jobs run or will be submitted.  Otherwise no node fails any more, so that a run ends in
        which a job waits for ever.
        """
        times = [heap[0][0] for heap in (self._repairs, self._failures if is_busy else []) if heap]
        return min(times, default=None)

    def change(self, now_ms: int, now: float) -> Iterator[str]:
        """Fail and repair the nodes that are due; yield their names."""
        while self._repairs and self._repairs[0][0] <= now_ms:
            _, name = heappop(self._repairs)
            self._fail_later(name, now_ms)
            self._set_ready(name, True, now)
            yield name
        while self._failures and self._failures[0][0] <= now_ms:
            _, name = heappop(self._failures)
            repair_ms = max(1, round(draw(self._outages[name].repair, self._draws[name]) * MS))
            heappush(self._repairs, (now_ms + repair_ms, name))
            self._set_ready(name, False, now)
            yield name

    def _fail_later(self, name: str, from_ms: int) -> None:
        mean_s = self._outages[name].mean_between_s
        after_ms = max(1, round(self._draws[name].expovariate(1.0) * mean_s * MS))
        heappush(self._failures, (from_ms + after_ms, name))

    def _set_ready(self, name: str, ready: bool, now: float) -> None:
        node = self._nodes[name]
        values: tuple[ConditionStatus, str] = (
            ("True", "KubeletReady") if ready else ("Unknown", "NodeStatusUnknown")
        )
        condition = condition_at(now, "Ready", *values)
        status = replace(node.status, conditions=with_condition(node.status.conditions, condition))
        taints = tuple(taint for taint in node.spec.taints if taint != _UNREACHABLE)
        spec = replace(node.spec, taints=taints if ready else (*taints, _UNREACHABLE))
        self._nodes[name] = node = Node(metadata=node.metadata, spec=spec, status=status)
        host = node.metadata.labels[HOSTNAME]
        (self.down.discard if ready else self.down.add)(host)
        self._put(node)

    def failures_of(
        self, workload: Workload, hosts: Hosts, now: float
    ) -> tuple[NodeFailures | None, float | None]:
        """Return what follows for an admitted workload on ``hosts``, and when to ask again.

        Its pods on nodes that are not ready have stopped.
        """
        admission, model = workload.status.admission, self._state.ledger.topology
        assert admission is not None, f"{workload.metadata.key} has no places"
        recorded = {node.name for node in workload.status.unhealthy_nodes}
        states: dict[str, HostState] = {}
        for host in sorted({host for names in hosts.values() for host in names}):
            if host not in self.down and host not in recorded:
                continue
            states[host] = host_state(
                self._health(host),
                is_progressing=False,
                tolerations=[
                    tolerations_of(workload, assignment, model.flavors)
                    for assignment in admission.pod_set_assignments
                    if host in hosts.get(assignment.name, ())
                ],
                gates=model.gates,
                now=now,
            )
        times = [state.check_at for state in states.values() if state.check_at is not None]
        return node_failures(workload, states), min(times, default=None)

    def _health(self, host: str) -> NodeHealth | None:
        name = self._by_host.get(host)
        if name is None:
            return None
        node = self._nodes[name]
        return NodeHealth(find_condition(node.status.conditions, "Ready"), node.spec.taints)


def _outages(scenario: Scenario) -> Iterator[tuple[str, Outages]]:
    """Yield the nodes that fail."""
    for pool in scenario.nodes:
        if pool.outages is not None:
            for name in pool.node_names():
                yield name, pool.outages
