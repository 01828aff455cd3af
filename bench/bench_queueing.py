"""The queueing core alone, one process: what one admission costs, and that it does not grow with the queue.

Worlds come from a size; each round starts fresh.  ``make bench`` runs this.
"""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from quorate.api.meta import Key
from quorate.queueing.cycle import run_cycle
from quorate.queueing.decisions import Reserve
from quorate.queueing.state import State


def make_state(queues: int, cpu: int) -> State:
    """``queues`` cluster queues with ``cpu`` each, and a local queue of the same name for each."""
    state = State(Configuration())
    state.put_namespace("default", {})
    state.put_flavor(codec.convert(ResourceFlavor, {"metadata": {"name": "default"}}))
    for index in range(queues):
        name = f"q{index}"
        quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
        }
        state.put_cluster_queue(codec.convert(ClusterQueue, {"metadata": {"name": name}, "spec": spec}))
        local_queue = {"metadata": {"namespace": "default", "name": name}, "spec": {"clusterQueue": name}}
        state.put_local_queue(codec.convert(LocalQueue, local_queue))
    return state


def make_workloads(count: int, queues: int) -> list[Workload]:
    """Of three sizes and priorities, dealt to the queues in turn."""
    return [make_workload(index, f"q{index % queues}", (1, 5, 20)[index % 3]) for index in range(count)]


def make_workload(index: int, queue: str, cpu: int) -> Workload:
    container = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}
    body: dict[str, Any] = {
        "metadata": {
            "namespace": "default",
            "name": f"w{index}",
            "uid": f"uid-{index:08}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "queueName": queue,
            "priority": 100 - cpu,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
    }
    return codec.decode(Workload, codec.encode(body))


@pytest.mark.parametrize(("queues", "workloads"), [(1, 1_000), (30, 15_000)])
def test_admitting_all_that_fit(benchmark: Any, queues: int, workloads: int) -> None:
    """Room for half of the work: one cycle after the other until nothing more can be decided."""
    pending = make_workloads(workloads, queues)
    cpu = workloads // queues * 13 // 3  # half of what is asked for

    def fresh() -> tuple[tuple[State], dict[str, Any]]:
        state = make_state(queues, cpu)
        for workload in pending:
            state.put_workload(workload, 0.0)
        return (state,), {}

    def admit(state: State) -> int:
        admitted = 0
        while True:
            cycle = run_cycle(state, 0.0)
            admitted += sum(isinstance(decision, Reserve) for decision in cycle.decisions)
            if cycle.wake_at is None:
                return admitted

    admitted = benchmark.pedantic(admit, setup=fresh, rounds=3)
    assert workloads // 3 < admitted < workloads  # time work, not refusal
    benchmark.extra_info["admitted"] = admitted


@pytest.mark.parametrize("pending", [1_000, 100_000])
def test_one_admission_among_many_pending(benchmark: Any, pending: int) -> None:
    """One finishes, the next is admitted: the same cost however many wait."""
    state = make_state(1, 1)
    for index in range(pending):
        state.put_workload(make_workload(index, "q0", 1), 0.0)
    (running,) = (d.key for d in run_cycle(state, 0.0).decisions if isinstance(d, Reserve))
    latest = [running]

    def replace_one() -> None:
        state.remove_workload(latest.pop())
        latest.extend(d.key for d in run_cycle(state, 0.0).decisions if isinstance(d, Reserve))

    benchmark.pedantic(replace_one, rounds=200, iterations=1, warmup_rounds=10)
    assert len(latest) == 1
    assert latest[0] != Key("default", "w0")
