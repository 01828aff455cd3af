"""The measures that have limits.

Times are processor time, so that other work on the machine has little influence.  Small costs are differences
between the least times of alternating batches, or numbers of calls, which nothing influences.
"""

import gc
import sys
import tracemalloc
from collections.abc import Iterator
from itertools import chain, repeat
from statistics import median
from time import thread_time
from types import FrameType
from typing import Final

from msgspec.structs import replace

from bench.topology.worlds import (
    BLOCKS,
    CPUS,
    HOSTS,
    NODES,
    RACKS,
    CheckedQueues,
    WaitingQueues,
    model,
    node,
    pod_set,
)
from bench.virtual_time import Job, Simulation
from bench.worlds import BASELINE, BLOCK, EPOCH_S, RACK, TOPOLOGIES, World, make_state, make_workload
from quorate.api.configuration.queueing import NodeFitMode
from quorate.api.core.scheduling import HostNode
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.placement.topology.request import TopologyRequest
from quorate.queueing.decisions import Preempt, Reserve
from quorate.queueing.lifecycle.statuses import admit_status
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.places import Places
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.topology.placing import PodSetToPlace, place_pod_sets

_WAITING: Final = 1_000  # workloads


def required_rack() -> float:
    """Return the milliseconds for 1,000 pods within one of 200 racks."""
    return _placement_ms(pod_set(1_000, 4_000, TopologyRequest(required=RACK)), domains=HOSTS)


def preferred_across_blocks() -> float:
    """Return the milliseconds for 1,000 pods that prefer a block and need two of 20, a host each."""
    request = TopologyRequest(preferred=BLOCK)
    return _placement_ms(pod_set(1_000, 1_000 * CPUS, request), domains=2 * RACKS * HOSTS)


def _placement_ms(pods: PodSetToPlace, domains: int) -> float:
    """Return the median for several such pod sets, each of which finds the places of the others taken."""
    found, times = _with_nodes(), []
    for _ in range(BLOCKS // 2):
        before = thread_time()
        placement = place_pod_sets(found, [pods])
        Places(found, placement.places()).count(1)
        times.append(1_000 * (thread_time() - before))
        assert not placement.failures, "the measure is of placement, not of refusals"
        assert len(placement.pod_sets[0].domains) <= domains, "the request is obeyed"
    return median(times)


def node_change() -> float:
    """Return the milliseconds until the topology has read a change of one node.

    Nodes are cordoned and return, grow, and move to other racks.
    """
    found = _with_nodes()
    times: list[float] = []
    for changed in _changes():
        before = thread_time()
        found.put_node(changed)
        assert found.tree("default") is not None, "the topology exists"
        times.append(1_000 * (thread_time() - before))
    return median(times)


def placement_after_node_change() -> float:
    """Return the milliseconds for a change of one node and the next placement of a few pods."""
    found, pods = _with_nodes(), pod_set(8, 2_500, TopologyRequest(required=RACK))
    times: list[float] = []
    for changed in _changes():
        before = thread_time()
        found.put_node(changed)
        placement = place_pod_sets(found, [pods])
        times.append(1_000 * (thread_time() - before))
        assert not placement.failures, "the measure is of placement, not of refusals"
    return median(times)


def _changes() -> Iterator[HostNode]:
    for number in range(0, NODES, NODES // 25):
        yield node(number, unschedulable=True)
        yield node(number)
        yield node(number, cpu=CPUS + 1)
        yield node(number, rack=(number // HOSTS + 1) % (BLOCKS * RACKS))


def bytes_a_node() -> float:
    """Return the memory of one node: decoded, in its informer's cache, and in the model with its topology."""
    _with_nodes(NODES // 10)  # what exists once exists already
    watched: dict[Key, HostNode] = {}
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    found = model()
    for number in range(NODES):
        each = node(number)
        watched[each.metadata.key] = each
        found.put_node(each)
    placement = place_pod_sets(found, [pod_set(1_000, 4_000, TopologyRequest(required=RACK))])
    Places(found, placement.places()).count(1)
    del each, placement
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(watched) == len(found.nodes), "all nodes are kept"
    return (after - before) / NODES


def growth_of_waiting_workloads() -> float:
    """Return the memory of a waiting workload with 10,000 nodes, divided by that with 1,000 nodes."""
    return bytes_a_waiting_workload(NODES) / bytes_a_waiting_workload(NODES // 10)


def bytes_a_waiting_workload(nodes: int) -> float:
    """Return the memory of a workload that waits for places: its object and what the core keeps of it."""
    queues = WaitingQueues(nodes)
    queues.refuse(4 * _WAITING)  # what exists once exists then, and caches are full
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    queues.refuse(_WAITING)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / _WAITING


def _with_nodes(nodes: int = NODES) -> TopologyModel:
    found = model()
    for number in range(nodes):
        found.put_node(node(number))
    place_pod_sets(found, [pod_set(1, 1, TopologyRequest(required=RACK))])  # builds the topology
    return found


def report_cost() -> float:
    """Return the microseconds that ``nodeFit: Report`` adds to an admission with 1,000 nodes."""
    return _cost_of_check("Report")


def require_cost() -> float:
    """Return the same for ``nodeFit: Require``, with the places of the pods."""
    return _cost_of_check("Require")


def _cost_of_check(mode: NodeFitMode) -> float:
    queues = {each: CheckedQueues(each, 1_000) for each in ("Off", mode)}
    times: dict[str, list[float]] = {each: [] for each in queues}
    for each in chain.from_iterable(repeat(tuple(queues), 12)):
        times[each].append(queues[each].admit(300))
    return min(times[mode]) - min(times["Off"])


class _CallCount:
    """The calls of Python functions within ``with`` blocks."""

    def __init__(self) -> None:
        self.calls = 0

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self.calls += event == "call"

    def __enter__(self) -> None:
        sys.setprofile(self._count)

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)


def calls_without_topologies() -> float:
    """Return the calls of Python functions for an admission in a world without topologies and nodes."""
    return _calls_of_admission(BASELINE)


def calls_with_topologies() -> float:
    """Return the same for workloads of which all pods get places in a topology."""
    return _calls_of_admission(TOPOLOGIES)


def _calls_of_admission(world: World) -> float:
    count = _CallCount()

    class Counted(Simulation):
        def step(self, created: list[Job], now_ms: int) -> None:
            with count:
                super().step(created, now_ms)

    outcome = Counted(world.scaled(0.1)).run(lambda _: None)
    return count.calls / outcome.admissions


def calls_of_preemption() -> float:
    """Return the calls of Python functions for a preemption with places, divided by those without."""
    return _calls_of_preemption(TOPOLOGIES) / _calls_of_preemption(BASELINE)


def _calls_of_preemption(world: World) -> int:
    """Return the calls of a cycle in which a large workload preempts all others of its queue."""
    state = make_state(world._replace(cohorts=1, queues=1))
    admission_cycle, small, large = AdmissionCycle(state), world.classes[0], world.classes[-1]
    stored: dict[Key, Workload] = {}
    for number in range(world.nominal // small.cpu):
        workload = make_workload("c0-q0", small, number, EPOCH_S)
        stored[workload.metadata.key] = workload
        state.put_workload(workload, EPOCH_S)
    while decisions := admission_cycle.run(EPOCH_S).decisions:
        for each in decisions:
            assert isinstance(each, Reserve), "the queue has quota for all"
            admitted = replace(stored[each.key], status=admit_status(stored[each.key], each, EPOCH_S))
            state.put_workload(admitted, EPOCH_S)
    state.put_workload(make_workload("c0-q0", large, len(stored), EPOCH_S), EPOCH_S)
    count = _CallCount()
    with count:
        decisions = admission_cycle.run(EPOCH_S).decisions
    preempted = sum(isinstance(each, Preempt) for each in decisions)
    assert preempted == len(stored), "all are preempted"
    return count.calls
