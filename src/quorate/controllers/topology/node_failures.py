"""The node failure controller: finds the failed nodes of workloads with places on hosts.

It records them in ``status.unhealthyNodes`` or evicts the workload, and ends pods that wait for a node which
does not take them, so that their jobs replace them.  Where a workload has nodes of flavors without a
topology, a node has also failed for it if a scheduler does not find room there for a pod: another pod took
the place before the workload's own was bound.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.kueue import Admission, Workload
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Key, find_condition
from quorate.api.names.kueue import POD_SET
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import ByName
from quorate.controllers.limits import WORKERS
from quorate.controllers.topology.placed_pods import (
    EVENT,
    LARGE,
    WORKLOADS_OF,
    WorkloadPods,
    has_places,
    host_of,
    is_progressing,
    is_waiting,
    pods_key,
    refusing_states,
    stored_values,
    termination,
    termination_message,
)
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import PLACEABLE_NODES, PLACEABLE_PODS, WORKLOADS, reference_to
from quorate.kube.writes import send, send_concurrently, status_patch
from quorate.queueing.conditions import NODE_FAILURES, is_evicted, is_finished
from quorate.queueing.lifecycle.transition import Transition, evict
from quorate.queueing.topology.node_failures import (
    HostState,
    NodeHealth,
    Tolerations,
    host_state,
    hosts_by_pod_set,
    node_failures,
    tolerations_of,
)
from quorate.queueing.topology.shrunk_places import domains_without_ended

BATCH_S: Final = 0.1  # changes of the nodes and pods of one workload tend to come together
CONCURRENT: Final = 100  # pods of one workload that are ended at once

_HOST: Final = "host"  # index of nodes by the label of the host name
_SLICE: Final = 2_000  # hosts that are checked before other tasks run


def host_name(node: Node) -> str:
    return node.metadata.labels.get(HOSTNAME) or node.metadata.name


def health_of(node: Node) -> NodeHealth:
    return NodeHealth(find_condition(node.status.conditions, "Ready"), node.spec.taints)


def _is_equivalent(old: Node, new: Node) -> bool:
    return (host_name(old), health_of(old)) == (host_name(new), health_of(new))


@dataclass(frozen=True, slots=True)
class AssignedHosts:
    """The hosts of an admission."""

    admission: Admission
    by_pod_set: Mapping[str, frozenset[str]]  # only of pod sets that are placed on hosts
    all: frozenset[str]


def assigned_hosts(admission: Admission) -> AssignedHosts:
    by_pod_set = hosts_by_pod_set(admission)
    return AssignedHosts(admission, by_pod_set, frozenset().union(*by_pod_set.values()))


def needed_hosts(workload: Workload, assigned: AssignedHosts, pods: Iterable[Pod]) -> frozenset[str]:
    """Return the hosts on which pods may still run; all pods on the other hosts have ended for good."""
    if not workload.status.reclaimable_pods:
        return assigned.all

    def bound(_: Key, pod_set: str, levels: Sequence[str]) -> Counter[tuple[str, ...]]:
        return Counter(
            tuple(pod.spec.node_selector.get(level, "") for level in levels)
            for pod in pods
            if pod.node_name and not pod.has_ended and pod.metadata.labels.get(POD_SET) == pod_set
        )

    reduced = domains_without_ended(workload, assigned.admission, bound)
    return frozenset().union(
        *(
            {values[-1] for values, _ in reduced[name]} if name in reduced else hosts
            for name, hosts in assigned.by_pod_set.items()
        )
    )


class NodeFailureController:
    """Checks the hosts of a workload after each change that may concern them."""

    def __init__(
        self,
        context: ControllerContext,
        pods: WorkloadPods,
        nodes: Informer[Node],
        set_blocked_hosts: Callable[[Key, frozenset[str]], None],
    ) -> None:
        gates = context.configuration.topology_gates
        assert gates is not None, "nodes are watched only with topology-aware scheduling"
        self._context = context
        self._gates = gates
        self._pods = pods
        self._nodes = nodes
        self._workloads = context.informers.workloads
        self._hosts: dict[Key, AssignedHosts] = {}  # of workloads with places, once they are checked
        self._unchecked: dict[Key, set[str] | None] = {}  # hosts to check; None: all
        self._blocked: dict[Key, frozenset[str]] = {}  # hosts that took no pods when they were checked
        self._set_blocked_hosts = set_blocked_hosts  # called when they change
        self._unreadable: set[str] = set()  # nodes that exist and cannot be decoded
        self._refusing: dict[Key, set[str]] = {}  # hosts for which a scheduler refused a pod
        self._log = logger(__name__)
        self.reconciler = context.reconciler(
            "topology.node_failures", self._reconcile, self._workloads, WORKERS, PLACEABLE_NODES
        )
        nodes.add_index(_HOST, lambda node: (host_name(node),))
        nodes.subscribe(self._node_changed, self._node_unusable)
        self._workloads.subscribe(self._workload_changed)

    async def watch_pods(self) -> None:
        """Follow the pods from now on; return once all that exist have been seen."""
        await self._pods.labelled.subscribe_in_slices(self._pod_changed)
        await self._pods.unlabelled.subscribe_in_slices(self._pod_changed)
        await self._pods.bound.subscribe_in_slices(self._bound_pod_changed)

    # Changes.

    def _node_unusable(self, key: Key, fault: ObjectFault | None) -> None:
        if fault is None:
            self._unreadable.discard(key.name)
        else:
            self._unreadable.add(key.name)

    def _node_changed(self, change: Change[Node]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and _is_equivalent(old, new):
            return
        for host in set(map(host_name, change.versions)):
            for key, assigned in self._hosts.items():
                if host in assigned.all:
                    self._check(key, host)

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        has_ended = old is not None and is_progressing(old) and not (new is not None and is_progressing(new))
        if not has_ended and (new is None or not is_waiting(new)):
            return
        pod = old if new is None else new
        assert pod is not None, "a change from nothing to nothing"
        if not host_of(pod):
            return
        for pods_of in pods_key(pod.metadata):
            for workload in self._workloads.by_index(WORKLOADS_OF, pods_of):
                if new is not None and new.history.refused_since is not None:
                    self._refusing.setdefault(workload.metadata.key, set()).add(host_of(new))
                self._check(workload.metadata.key, host_of(pod))
            if new is not None and new.requests_place and self._has_no_places(pods_of):
                self.reconciler.enqueue_in(pods_of, BATCH_S)

    def _bound_pod_changed(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if old is None or POD_SET in old.metadata.labels or not is_progressing(old):
            return
        if new is None or not is_progressing(new):
            for pods_of in pods_key(old.metadata):
                for workload in self._workloads.by_index(WORKLOADS_OF, pods_of):
                    self._check(workload.metadata.key, self._host_of_bound(old))

    def _host_of_bound(self, pod: Pod) -> str:
        node = self._nodes.get(Key("", pod.node_name))
        return pod.node_name if node is None else host_name(node)

    def _has_no_places(self, key: Key) -> bool:
        """Return True if the workload exists, is queued, and has no places for pods."""
        workload = self._workloads.get(key)
        return (
            workload is not None
            and workload.status.admission is None
            and not is_evicted(workload)
            and not is_finished(workload)
        )

    def _workload_changed(self, change: Change[Workload]) -> None:
        old, new = change.old, change.new
        if new is None or not has_places(new):
            self._forget(change.key)
            return
        if old is None or not has_places(old) or old.status.admission != new.status.admission:
            self._unchecked[change.key] = None
            self.reconciler.enqueue(change.key)
        for node in new.status.unhealthy_nodes:
            self._check(change.key, node.name)

    def _check(self, key: Key, *hosts: str) -> None:
        unchecked = self._unchecked.setdefault(key, set())
        if unchecked is not None:
            unchecked.update(hosts)
        self.reconciler.enqueue_in(key, BATCH_S)

    def _forget(self, key: Key) -> None:
        self._hosts.pop(key, None)
        self._refusing.pop(key, None)
        self._unchecked.pop(key, None)
        self._block(key, frozenset())
        self.reconciler.forget(key)

    def _block(self, key: Key, hosts: frozenset[str]) -> None:
        if self._blocked.pop(key, frozenset()) != hosts:
            self._set_blocked_hosts(key, hosts)
        if hosts:
            self._blocked[key] = hosts

    # Checks.

    async def _reconcile(self, key: Key) -> float | None:
        workload = self._workloads.get(key)
        if workload is not None and self._has_no_places(key):
            await self._end_pods_without_places(workload)
        if workload is None or not has_places(workload):
            return None
        unchecked = self._unchecked.pop(key, set())
        try:
            assigned = await self._assigned_hosts(workload)
            hosts = assigned.all if unchecked is None else unchecked
            return await self._check_hosts(workload, assigned, hosts, all_pods=unchecked is None)
        except BaseException:
            self._restore(key, unchecked)
            raise

    async def _end_pods_without_places(self, workload: Workload) -> None:
        """End the pods that select hosts though their workload has no places, or has lost them."""
        pods = self._pods.of(workload)
        waiting = [pod for pod in pods if is_waiting(pod) and pod.requests_place and host_of(pod)]
        await self._terminate(waiting, self._context.clock.now())

    def _restore(self, key: Key, unchecked: set[str] | None) -> None:
        if unchecked is None:
            self._unchecked[key] = None
        elif (later := self._unchecked.setdefault(key, set())) is not None:
            later.update(unchecked)

    async def _assigned_hosts(self, workload: Workload) -> AssignedHosts:
        key, admission = workload.metadata.key, workload.status.admission
        assert admission is not None, "places are those of an admission"
        assigned = self._hosts.get(key)
        if assigned is None or assigned.admission != admission:
            is_large = stored_values(workload) >= LARGE
            assigned = (
                await asyncio.to_thread(assigned_hosts, admission) if is_large else assigned_hosts(admission)
            )
            self._hosts[key] = assigned
        return assigned

    async def _check_hosts(
        self, workload: Workload, assigned: AssignedHosts, hosts: Collection[str], *, all_pods: bool
    ) -> float | None:
        recorded = {node.name for node in workload.status.unhealthy_nodes}
        suspects: dict[str, NodeHealth | None] = {}
        states: dict[str, HostState] = {}  # of hosts that are not healthy, or were not
        for position, host in enumerate(hosts, 1):
            if position % _SLICE == 0:
                await asyncio.sleep(0)
            if host not in assigned.all or host in self._unreadable:
                continue
            node = self._node(host)
            if node is None or not node.is_healthy:
                suspects[host] = node
            elif host in recorded:
                states[host] = HostState()
        pods: list[Pod] = []
        refusing = self._refusing.pop(workload.metadata.key, set()) - suspects.keys()
        if refusing and self._has_topology(assigned):
            refusing = set()
        if all_pods or suspects or refusing or not assigned.all.issuperset(hosts):
            placed = (*assigned.by_pod_set, None)
            pods = [pod for pod in self._pods.of(workload) if pod.metadata.labels.get(POD_SET) in placed]
        now = self._context.clock.now()
        for host in suspects.keys() - needed_hosts(workload, assigned, pods):
            del suspects[host]
            states[host] = HostState()
        states |= await self._suspect_states(workload, assigned, suspects, pods, now)
        states |= refusing_states((pod for pod in pods if host_of(pod) in refusing), now)
        key = workload.metadata.key
        self._block(key, self._blocked_after(key, assigned, hosts, states))
        await asyncio.sleep(0)  # each of these takes a while for very many hosts
        decided = node_failures(workload, states)
        if decided is not None and decided.eviction:
            await self._write(workload, evict(workload, NODE_FAILURES, decided.eviction, now))
            return None
        if decided is not None:
            status = msgspec.structs.replace(workload.status, unhealthy_nodes=decided.nodes)
            await self._write(workload, Transition(status))
        await self._terminate([pod for pod in pods if is_waiting(pod) and self._is_stuck(pod, states)], now)
        return self._check_later(key, states)

    def _has_topology(self, assigned: AssignedHosts) -> bool:
        """Return True if a flavor of the workload has a topology."""
        flavors = ByName(self._context.informers.flavors)
        names = {
            name
            for assignment in assigned.admission.pod_set_assignments
            for name in assignment.flavors.values()
        }
        return any(flavors[name].spec.topology_name for name in names if name in flavors)

    def _blocked_after(
        self, key: Key, assigned: AssignedHosts, hosts: Collection[str], states: Mapping[str, HostState]
    ) -> frozenset[str]:
        """Return the hosts that take no pods, given the ``states`` of the checked ``hosts``."""
        unchecked = (self._blocked.get(key, frozenset()) & assigned.all).difference(hosts)
        return unchecked.union(host for host, state in states.items() if not state.admits_pods)

    def _is_stuck(self, pod: Pod, states: Mapping[str, HostState]) -> bool:
        """Return True if the pod waits for a node that takes no pods, or to which it is assigned no longer.

        A pod of an elastic job may wait for a node that any slice of the job has.
        """
        host = host_of(pod)
        if host in states:
            return not states[host].admits_pods
        workloads = [
            workload.metadata.key
            for pods_of in pods_key(pod.metadata)
            for workload in self._workloads.by_index(WORKLOADS_OF, pods_of)
        ]
        assigned = [self._hosts[key] for key in workloads if key in self._hosts]
        return (
            bool(host)
            and len(assigned) == len(workloads)
            and not any(host in hosts.all for hosts in assigned)
        )

    def _node(self, host: str) -> NodeHealth | None:
        """Return the first node by name with the host name."""
        nodes = self._nodes.by_index(_HOST, host)
        return health_of(nodes[0]) if nodes else None

    async def _suspect_states(
        self,
        workload: Workload,
        assigned: AssignedHosts,
        suspects: Mapping[str, NodeHealth | None],
        pods: Iterable[Pod],
        now: float,
    ) -> dict[str, HostState]:
        if not suspects:
            return {}
        progressing = {host_of(pod) for pod in pods if is_progressing(pod)}
        progressing |= {
            self._host_of_bound(pod) for pod in self._pods.bound_of(workload) if is_progressing(pod)
        }
        tolerations = dict(self._tolerations(workload, assigned))
        states: dict[str, HostState] = {}
        for position, (host, node) in enumerate(suspects.items(), 1):
            if position % _SLICE == 0:
                await asyncio.sleep(0)
            states[host] = host_state(
                node,
                is_progressing=host in progressing,
                tolerations=[tolerations[name] for name, own in assigned.by_pod_set.items() if host in own],
                gates=self._gates,
                now=now,
            )
        return states

    def _tolerations(self, workload: Workload, assigned: AssignedHosts) -> Iterator[tuple[str, Tolerations]]:
        flavors = ByName(self._context.informers.flavors)
        for pod_set in assigned.admission.pod_set_assignments:
            if pod_set.name in assigned.by_pod_set:
                yield pod_set.name, tolerations_of(workload, pod_set, flavors)

    def _check_later(self, key: Key, states: Mapping[str, HostState]) -> float | None:
        due = {host: state.check_at for host, state in states.items() if state.check_at is not None}
        if not due:
            return None
        self._refusing.setdefault(key, set()).update(due)
        self._restore(key, set(due))
        return min(due.values())

    async def _write(self, workload: Workload, transition: Transition) -> None:
        await send(self._context.client, status_patch(WORKLOADS, workload, transition.status))
        names = [node.name for node in transition.status.unhealthy_nodes] if transition.status else []
        self._log.info("failed nodes", workload=workload.metadata.key, nodes=names)
        for event in transition.events:
            regarding = reference_to(WORKLOADS, workload.metadata)
            self._context.events.event(regarding, event.type, event.reason, event.message)

    async def _terminate(self, pods: list[Pod], now: float) -> None:
        for first in range(0, len(pods), CONCURRENT):
            batch = pods[first : first + CONCURRENT]
            await send_concurrently(self._context.client, ([termination(pod, now)] for pod in batch))
            for pod in batch:
                regarding = reference_to(PLACEABLE_PODS, pod.metadata)
                self._context.events.event(regarding, "Normal", EVENT, termination_message(pod))
