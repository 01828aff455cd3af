"""No domain ever has more pods than assigned, whatever the order of events, faults and restarts.

A model of the API server, with pods at versions, delivers its events late.  The real rules of the ungater
decide on a cache of what was delivered.  Writes are executed, lost, executed without a response, or late.
"""

from collections import Counter
from typing import Literal

from hypothesis import example, given
from hypothesis import strategies as st

from quorate.api.core.pod import Pod
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Key
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.controllers.topology.ungater import SentUngatings, Ungating, find_ungatings
from tests.controllers.topology.objects import INDEX, a_pod, a_workload, changed

ASSIGNED = {"x": 1, "y": 1, "z": 2}
RANKED = a_workload(("main", ASSIGNED), request={"podIndexLabel": INDEX})

Outcome = Literal["executed", "lost", "no response", "late", "refused"]


class Cluster:
    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.version = 0
        self.events: list[tuple[str, Pod | None]] = []  # not delivered yet
        self.late: list[Ungating] = []  # requests that the server may still execute
        self.cache: dict[str, Pod] = {}
        self.sent = SentUngatings()

    def store(self, name: str, pod: Pod | None) -> None:
        if pod is None:
            del self.pods[name]
        else:
            self.pods[name] = pod
        self.events.append((name, pod))

    def next_version(self) -> str:
        self.version += 1
        return str(self.version)

    def execute(self, ungating: Ungating) -> bool:
        """Return False for a conflict."""
        name = ungating.pod.metadata.name
        stored = self.pods.get(name)
        if stored is None or stored.metadata.resource_version != ungating.patch.resource_version:
            return False
        later = changed(stored, self.next_version(), node_selector=ungating.selectors, scheduling_gates=())
        self.store(name, later)
        return True

    # What happens.

    def create(self, name: str, index: int | None) -> None:
        if name not in self.pods:
            self.store(name, a_pod(name, index=index, version=self.next_version()))

    def touch(self, name: str) -> None:
        if name in self.pods:
            self.store(name, changed(self.pods[name], self.next_version()))

    def remove(self, name: str) -> None:
        if name in self.pods:
            self.store(name, None)

    def deliver(self, count: int) -> None:
        for name, pod in self.events[:count]:
            if pod is None:
                self.cache.pop(name, None)
            else:
                self.cache[name] = pod
            self.sent.pod_changed(Key("default", name), pod)
        del self.events[:count]

    def reconcile(self, outcomes: list[Outcome]) -> None:
        pods = [self.cache[name] for name in sorted(self.cache)]
        found = find_ungatings(RANKED, pods, self.sent.of(pods))
        for position, ungating in enumerate(found):
            outcome = outcomes[position % len(outcomes)] if outcomes else "executed"
            self.sent.sending(ungating)
            if outcome == "late":
                self.late.append(ungating)
            elif outcome == "refused":
                self.sent.refused(ungating)
            elif outcome != "lost":
                self.execute(ungating)
                if outcome == "executed":
                    self.sent.replaced(ungating)

    def execute_late(self) -> None:
        for ungating in self.late:
            self.execute(ungating)
        self.late = []

    def restart(self) -> None:
        """The writes of the old process have ended when the new one lists."""
        self.execute_late()
        self.events, self.cache, self.sent = [], dict(self.pods), SentUngatings()

    def check(self) -> None:
        on = Counter(
            pod.spec.node_selector[HOSTNAME] for pod in self.pods.values() if not pod.has_gate(TOPOLOGY_GATE)
        )
        assert all(count <= ASSIGNED[host] for host, count in on.items()), on


NAMES = st.sampled_from("abcde")
OUTCOMES: st.SearchStrategy[list[Outcome]] = st.lists(
    st.sampled_from(("executed", "lost", "no response", "late", "refused")), max_size=3
)
CHANGES = st.one_of(
    st.tuples(st.just("create"), NAMES, st.sampled_from((None, None, 0, 1, 2, 3, 4))),
    st.tuples(st.just("touch"), NAMES),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("execute_late")),
    st.tuples(st.just("restart")),
)
ROUNDS = st.tuples(st.lists(CHANGES, max_size=3), st.integers(0, 3), OUTCOMES)


@example([([("create", "b", None)], 1, []), ([("create", "a", None)], 1, [])])
@example([([("create", "b", None)], 1, ["late"]), ([("create", "a", None)], 1, ["late"])])
@given(st.lists(ROUNDS, max_size=20))
def test_no_domain_gets_more_pods_than_assigned(
    rounds: list[tuple[list[tuple[str, ...]], int, list[Outcome]]],
) -> None:
    cluster = Cluster()
    for changes, delivered, outcomes in rounds:
        for change, *arguments in changes:
            getattr(cluster, change)(*arguments)
            cluster.check()
        cluster.deliver(delivered)
        cluster.reconcile(outcomes)
        cluster.check()

    cluster.execute_late()
    cluster.deliver(len(cluster.events))
    for _ in range(2):  # the first may repeat writes that were executed late
        cluster.reconcile([])
        cluster.deliver(len(cluster.events))
        cluster.check()
    gated = sum(pod.has_gate(TOPOLOGY_GATE) for pod in cluster.pods.values())
    assert gated == max(0, len(cluster.pods) - sum(ASSIGNED.values())), "pods with a place are ungated"
