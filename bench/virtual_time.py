"""A world in virtual time with an ideal API: what is decided is written at once, jobs stop at once.

Used to measure the core alone: how long it takes to decide, and how good the decisions are.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from quorate.api.meta import Key
from quorate.queueing.conditions import replace
from quorate.queueing.cycle import run_cycle
from quorate.queueing.decisions import Decision, Hold, Preempt, Reserve
from quorate.queueing.state import State
from quorate.queueing.statuses import admit_status, preempt_status, release_status


@dataclass(frozen=True)
class Kind:
    """Equal workloads of one queue, created one after the other."""

    name: str
    number: int
    cpu: int
    priority: int
    run_s: float
    every_s: float


@dataclass
class Report:
    """How it went, in virtual seconds."""

    admissions: int = 0
    preemptions: int = 0
    cycles: int = 0
    makespan_s: float = 0.0
    wait_s: dict[str, list[float]] = field(default_factory=dict)  # to admission, by kind


def cluster_queue(name: str, cohort: str, cpu: int, borrowing: int | None = None) -> ClusterQueue:
    quota: dict[str, Any] = {"name": "cpu", "nominalQuota": cpu}
    if borrowing is not None:
        quota["borrowingLimit"] = borrowing
    spec = {
        "cohortName": cohort,
        "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
        ],
    }
    return codec.convert(ClusterQueue, {"metadata": {"name": name}, "spec": spec})


def make_state(cohorts: int, queues: int) -> State:
    """``queues`` cluster queues in each of ``cohorts``, as in the benchmark of Kueue's scheduler."""
    state = State(Configuration())
    state.put_namespace("default", {})
    state.put_flavor(codec.convert(ResourceFlavor, {"metadata": {"name": "default"}}))
    for name, cohort in names(cohorts, queues):
        state.put_cluster_queue(cluster_queue(name, cohort, 20, borrowing=100))
        local_queue = {"metadata": {"namespace": "default", "name": name}, "spec": {"clusterQueue": name}}
        state.put_local_queue(codec.convert(LocalQueue, local_queue))
    return state


def names(cohorts: int, queues: int) -> list[tuple[str, str]]:
    """Of each cluster queue, with its cohort."""
    return [(f"c{cohort}-q{queue}", f"c{cohort}") for cohort in range(cohorts) for queue in range(queues)]


def make_workload(name: str, queue: str, kind: Kind, created_s: float) -> Workload:
    container = {"name": "c", "resources": {"requests": {"cpu": str(kind.cpu)}}}
    body: dict[str, Any] = {
        "metadata": {"namespace": "default", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {
            "queueName": queue,
            "priority": kind.priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
    }
    body["metadata"]["creationTimestamp"] = (
        f"2026-01-01T00:{int(created_s) // 60:02}:{int(created_s) % 60:02}Z"
    )
    return codec.decode(Workload, codec.encode(body))


class VirtualTime:
    """Runs ``kinds`` of workloads in every queue of ``state`` to the end."""

    def __init__(self, state: State, queues: list[str], kinds: list[Kind]) -> None:
        self.state = state
        self.report = Report()
        self._ticket = count()
        self._events: list[tuple[float, int, str, Any]] = []
        self._workloads: dict[Key, Workload] = {}
        self._kinds: dict[Key, Kind] = {}
        self._created: dict[Key, float] = {}
        self._runs: dict[Key, int] = {}  # admissions so far: tells which end of a run is the right one
        for kind in kinds:
            for index in range(kind.number):
                for queue in queues:
                    created_s = index * kind.every_s
                    workload = make_workload(f"{queue}-{kind.name}-{index}", queue, kind, created_s)
                    self._kinds[workload.metadata.key] = kind
                    self._push(created_s, "create", workload)

    def run(self) -> Report:
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, _, what, subject = heappop(self._events)
                self._happen(what, subject, now)
            while True:
                cycle = run_cycle(self.state, now)
                self.report.cycles += 1
                for decision in cycle.decisions:
                    self._carry_out(decision, now)
                if not cycle.decisions or (cycle.wake_at is None and not self.state.restless):
                    break
        return self.report

    def _push(self, at: float, what: str, subject: Any) -> None:
        heappush(self._events, (at, next(self._ticket), what, subject))

    def _happen(self, what: str, subject: Any, now: float) -> None:
        if what == "create":
            key = subject.metadata.key
            self._workloads[key], self._created[key] = subject, now
            self.state.put_workload(subject, now)
            return
        key, run = subject
        if self._runs.get(key) == run:
            self.report.makespan_s = now
            del self._workloads[key], self._runs[key]
            self.state.remove_workload(key)

    def _write(self, key: Key, status: Any, now: float) -> None:
        old = self._workloads[key]
        version = str(int(old.metadata.resource_version) + 1)
        new = replace(old, metadata=replace(old.metadata, resource_version=version), status=status)
        self._workloads[key] = new
        self.state.put_workload(new, now)

    def _carry_out(self, decision: Decision, now: float) -> None:
        key = decision.key
        match decision:
            case Reserve():
                self.report.admissions += 1
                kind = self._kinds[key]
                if key not in self._runs:
                    self.report.wait_s.setdefault(kind.name, []).append(now - self._created[key])
                self._runs[key] = self._runs.get(key, 0) + 1
                self._write(key, admit_status(self._workloads[key], decision, now), now)
                self._push(now + kind.run_s, "finish", (key, self._runs[key]))
            case Preempt():
                self.report.preemptions += 1
                self._runs[key] += 1
                self._write(key, preempt_status(self._workloads[key], decision, now), now)
                self._write(key, release_status(self._workloads[key], now), now)
            case Hold():
                pass
