"""Admission without preemption, compared with a second, slow and simple implementation of the rules.

The reference model knows the formulas of Kueue's quota (nominal, borrowing, lending, nested cohorts) and its
order of heads.  It shares no code with the core, and computes all sums from the running workloads each time.
"""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.queueing.notation import Json
from tests.queueing.world import World
from tests.search import examples

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

QUEUES = ("a", "b", "c", "d")
COHORTS = ("R", "S", "T")  # each may have an earlier one as parent: with the queues, up to four levels
FLAVORS = ("one", "two")


class Running(NamedTuple):
    name: str
    queue: str
    flavor: str
    pods: int
    cpu: int  # of all its pods


class Pending(NamedTuple):
    name: str
    queue: str
    rank: tuple[int, int, str]  # priority negated, creation, name: smaller goes first
    pods: int
    minimum: int
    cpu: int  # of one pod


class ReferenceModel:
    """The given world, and the workloads that run in it so far."""

    def __init__(self, given: Json) -> None:
        self.queues: Json = given["clusterQueues"]
        self.cohorts: Json = given["cohorts"]
        self.running: list[Running] = []
        self.start: dict[str, int] = {}  # by workload: the flavor at which its next search begins, if not 0
        self.pending = [
            Pending(
                one["name"],
                one["queue"],
                (-one["priority"], one["created"], one["name"]),
                one["podSets"][0]["count"],
                one["podSets"][0]["minCount"],
                one["podSets"][0]["requests"]["cpu"],
            )
            for one in given["workloads"]
        ]

    # Quota, by the formulas.

    def parent(self, node: str) -> str:
        if node in self.queues:
            return str(self.queues[node]["cohort"])
        return str(self.cohorts[node].get("parent", ""))

    def children(self, node: str) -> list[str]:
        return [other for other in (*self.queues, *self.cohorts) if self.parent(other) == node]

    def limits(self, node: str, flavor: str) -> Json:
        quotas = (self.queues.get(node) or self.cohorts[node]).get("quota", [])
        found: Json = next((entry[flavor]["cpu"] for entry in quotas if flavor in entry), {})
        return found

    def subtree_quota(self, node: str, flavor: str) -> int:
        lent = [self.subtree_quota(c, flavor) - self.guaranteed(c, flavor) for c in self.children(node)]
        return int(self.limits(node, flavor).get("nominal", 0)) + sum(lent)

    def guaranteed(self, node: str, flavor: str) -> int:
        lending = self.limits(node, flavor).get("lendingLimit")
        return 0 if lending is None else max(0, self.subtree_quota(node, flavor) - lending)

    def usage(self, node: str, flavor: str) -> int:
        own = sum(one.cpu for one in self.running if (one.queue, one.flavor) == (node, flavor))
        below = [
            max(0, self.usage(child, flavor) - self.guaranteed(child, flavor))
            for child in self.children(node)
        ]
        return own + sum(below)

    def available(self, node: str, flavor: str) -> int:
        owned, kept = self.subtree_quota(node, flavor), self.guaranteed(node, flavor)
        used, parent = self.usage(node, flavor), self.parent(node)
        if not parent:
            return owned - used
        above = self.available(parent, flavor)
        borrowing = self.limits(node, flavor).get("borrowingLimit")
        if borrowing is not None:
            above = min(above, (owned - kept) - max(0, used - kept) + borrowing)
        return max(0, kept - used) + above

    def potential_available(self, node: str, flavor: str) -> int:
        """Return what would be available in an empty tree."""
        owned, parent = self.subtree_quota(node, flavor), self.parent(node)
        if not parent:
            return owned
        borrowing = self.limits(node, flavor).get("borrowingLimit")
        whole = self.guaranteed(node, flavor) + self.potential_available(parent, flavor)
        return whole if borrowing is None else min(whole, owned + borrowing)

    def height(self, node: str) -> int:
        return 1 + max((self.height(child) for child in self.children(node)), default=-1)

    def level(self, queue: str, flavor: str, cpu: int) -> tuple[int, bool]:
        """Return the borrowing level, and whether there is a cohort above it."""
        if not self.parent(queue) or self.usage(queue, flavor) + cpu <= self.subtree_quota(queue, flavor):
            return 0, bool(self.parent(queue))
        rest = cpu - max(0, self.guaranteed(queue, flavor) - self.usage(queue, flavor))
        node = queue
        while self.parent(node):
            node = self.parent(node)
            if self.usage(node, flavor) + rest <= self.subtree_quota(node, flavor):
                return self.height(node), bool(self.parent(node))
            rest -= max(0, self.guaranteed(node, flavor) - self.usage(node, flavor))
        return self.height(node), False

    # Admission.

    def assign(self, one: Pending, pods: int) -> tuple[int, int] | None:
        """Return level and flavor for ``pods`` pods: the first flavor that fits, beginning at the start."""
        for index in range(self.start.get(one.name, 0), len(self.flavors(one))):
            flavor = self.flavors(one)[index]
            if pods * one.cpu <= self.available(one.queue, flavor):
                return self.level(one.queue, flavor, pods * one.cpu)[0], index
        return None

    def flavors(self, one: Pending) -> list[str]:
        return [flavor for entry in self.queues[one.queue]["quota"] for flavor in entry]

    def best(self, one: Pending) -> tuple[int, str, int] | None:
        """Return level, flavor and the most pods that fit.  The next search begins after that flavor."""
        for pods in range(one.pods, one.minimum - 1, -1):
            assigned = self.assign(one, pods)
            if assigned is not None:
                level, index = assigned
                self.start[one.name] = (index + 1) % len(self.flavors(one))
                return level, self.flavors(one)[index], pods
        return None

    def needs_preemption(self, one: Pending) -> tuple[int, str] | None:
        """Return level and flavor if only preemption could help, for which there are no candidates."""
        cpu = one.pods * one.cpu
        for flavor in self.flavors(one)[self.start.get(one.name, 0) :]:
            level, may_reclaim = self.level(one.queue, flavor, cpu)
            nominal = int(self.limits(one.queue, flavor).get("nominal", 0))
            if cpu <= self.potential_available(one.queue, flavor) and (cpu <= nominal or may_reclaim):
                return level, flavor
        return None

    def reserved_for_round(self, one: Pending, level: int, flavor: str) -> Running:
        """Return the quota that is reserved for it for the rest of the round."""
        cpu, quota = one.pods * one.cpu, self.limits(one.queue, flavor)
        left = int(quota.get("nominal", 0)) - self.usage(one.queue, flavor)
        if level == 0:
            cpu = max(0, min(cpu, left))
        elif quota.get("borrowingLimit") is not None:
            cpu = max(0, min(cpu, left + quota["borrowingLimit"]))
        return Running(one.name, one.queue, flavor, 0, cpu)

    def head(self, queue: str, inadmissible: set[str]) -> Pending | None:
        line = [one for one in self.pending if one.queue == queue and one.name not in inadmissible]
        return min(line, key=lambda one: one.rank, default=None)

    def admit_all(self) -> set[tuple[str, str, int]]:
        """Nominate all heads, then process them in order; repeat until nothing changes."""
        inadmissible: set[str] = set()
        while True:
            nominations: list[tuple[int, tuple[int, int, str], Pending, str, int]] = []
            changed = False
            for head in [self.head(queue, inadmissible) for queue in self.queues]:
                if head is None:
                    continue
                found = self.best(head)
                if found is not None:
                    nominations.append((found[0], head.rank, head, *found[1:]))
                    continue
                needs_preemption = self.needs_preemption(head)
                if needs_preemption is not None:
                    nominations.append((needs_preemption[0], head.rank, head, needs_preemption[1], 0))
                self.start[head.name] = 0
                if self.queues[head.queue]["strategy"] == "BestEffortFIFO":
                    inadmissible.add(head.name)
                    changed = True
            admitted = list(self.running)
            for level, _, one, flavor, pods in sorted(nominations):
                if not pods:
                    self.running.append(self.reserved_for_round(one, level, flavor))
                elif pods * one.cpu <= self.available(one.queue, flavor):
                    started = Running(one.name, one.queue, flavor, pods, pods * one.cpu)
                    self.running.append(started)
                    admitted.append(started)
                    self.pending.remove(one)
                    changed = True
            self.running = admitted
            if not changed:
                return {(one.name, one.flavor, one.pods) for one in self.running}


@st.composite
def limits(draw: st.DrawFn, *, below: bool) -> Json:
    nominal = draw(st.integers(0, 6))
    result: Json = {"nominal": nominal}
    if below and draw(st.booleans()):
        result["borrowingLimit"] = draw(st.integers(0, 6))
    if below and draw(st.booleans()):
        result["lendingLimit"] = draw(st.integers(0, nominal))
    return result


@st.composite
def quota(draw: st.DrawFn, flavors: int, *, below: bool) -> list[Json]:
    return [{flavor: {"cpu": draw(limits(below=below))}} for flavor in FLAVORS[:flavors]]


@st.composite
def worlds(draw: st.DrawFn, flavors: int) -> Json:
    cohorts: Json = {}
    for index, name in enumerate(COHORTS):
        parent = draw(st.sampled_from(("", *COHORTS[:index])))
        cohorts[name] = {"parent": parent, "quota": draw(quota(flavors, below=bool(parent)))}
    queues: Json = {}
    for name in QUEUES:
        cohort = draw(st.sampled_from(("", *COHORTS)))
        queues[name] = {
            "cohort": cohort,
            "strategy": draw(st.sampled_from(("BestEffortFIFO", "StrictFIFO"))),
            "quota": draw(quota(flavors, below=bool(cohort))),
        }
    workloads = []
    for index in range(draw(st.integers(1, 9))):
        count = draw(st.integers(1, 4))
        minimum = draw(st.integers(1, count)) if draw(st.booleans()) else count
        pod_set = {"count": count, "minCount": minimum, "requests": {"cpu": draw(st.integers(1, 3))}}
        workloads.append(
            {
                "name": f"w{index}",
                "queue": draw(st.sampled_from(QUEUES)),
                "created": draw(st.integers(0, 3)),
                "priority": draw(st.integers(0, 2)),
                "podSets": [pod_set],
            }
        )
    return {
        "flavors": list(FLAVORS),
        "cohorts": cohorts,
        "clusterQueues": queues,
        "workloads": workloads,
    }


def admitted(given_: Json) -> set[tuple[str, str, int]]:
    world = World(given_)
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    result: set[tuple[str, str, int]] = set()
    for name, admission in world.admitted().items():
        (pods,) = admission.pod_set_assignments
        result.add((name, pods.flavors["cpu"], int(pods.count or 0)))
    return result


def agree(given_: Any) -> None:
    assert admitted(given_) == ReferenceModel(given_).admit_all()


@given(worlds(flavors=1))
@examples(150)
def test_the_core_admits_what_the_reference_model_admits(given_: Json) -> None:
    agree(given_)


@given(worlds(flavors=2))
@examples(150)
def test_the_core_assigns_the_flavors_of_the_reference_model(given_: Json) -> None:
    agree(given_)
