"""The action ``enqueue`` against a second, simple implementation of its rules.

The groups have no pods and request whole cpus only; a drawn sequence of changes has one session after each
change.  The reference recounts everything in every session.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.volcano import UNSCHEDULABLE
from tests.gang.enqueue_worlds import LIMIT, QUOTA, RESOURCES, Json, world
from tests.search import examples

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

BASE_S, MOST_S, TIMEOUT_S = 10, 30, 100
QUEUES = ("default", "fifo", "other")
ATTEMPTS = "scheduling.volcano.sh/requeue-attempts"


@dataclass
class Group:
    name: str
    queue: str
    created: int
    least: int | None
    phase: str = ""
    since: float = 0.0
    not_before: float = 0.0
    attempts: int = 0
    reason: str | None = None  # of its condition

    @property
    def needs(self) -> int:
        return self.least or 0


class EnqueueReference:
    def __init__(self, start: Json, *, fair: bool) -> None:
        self.now = 1000.0
        self.fair = fair
        self.nodes: dict[str, int] = {}
        self.used, self.hard = 0, start["quotas"][0]["hard"]["cpu"]
        self.state: dict[str, str] = {}
        self.limit: dict[str, int] = {}
        self.groups: list[Group] = []
        self.change("addNodes", start["nodes"])
        self.change("addPodGroups", start["podGroups"])

    def change(self, what: str, to: Any) -> None:
        match what:
            case "advance":
                self.now += to
            case "addNodes":
                self.nodes |= {node["name"]: node["cpu"] for node in to}
            case "setQuota":
                self.used = to["used"]["cpu"]
            case "setQueue":
                self.state[to["name"]] = to.get("state", self.state.get(to["name"], "Open"))
                self.limit[to["name"]] = to.get("maxPodGroups", self.limit.get(to["name"], 99))
            case "addPodGroups":
                for given in to:
                    least = given.get("minResources", {"cpu": None})["cpu"]
                    self.groups.append(Group(given["name"], given["queue"], given["created"], least))

    def session(self) -> None:
        """Recheck admitted groups, the first admitted first, and then evaluate waiting ones."""
        self._admitted: list[Group] = []
        by_age = sorted(self.groups, key=lambda group: (group.created, group.name))
        for group in sorted(by_age, key=lambda group: group.since):
            if group.phase != "Inqueue":
                continue
            reason = self._refusal(group)
            if reason is None and self.now - group.since >= TIMEOUT_S:
                reason = "InqueueTimeout"
            if reason is None:
                self._admitted.append(group)
            else:
                group.phase, group.reason = "back", reason
                group.attempts += 1
                group.not_before = self.now + min(MOST_S, BASE_S * 2 ** (group.attempts - 1))
        blocked = set()
        for group in self._waiting(by_age):
            group.phase = "Pending"
            if group.queue in blocked or self._try_admit(group):
                continue
            if group.queue == "fifo":
                blocked.add(group.queue)

    def _waiting(self, by_age: list[Group]) -> Iterator[Group]:
        waiting = [group for group in by_age if group.phase != "Inqueue"]
        return iter(sorted(waiting, key=lambda group: QUEUES.index(group.queue)) if self.fair else waiting)

    def _try_admit(self, group: Group) -> bool:
        if self.now < group.not_before:
            return False
        reason = self._refusal(group)
        full = Counter(each.queue for each in self._admitted)[group.queue] >= self.limit.get(group.queue, 99)
        if full and reason != "QueueNotOpen":
            reason = LIMIT
        if reason is None:
            group.phase, group.since = "Inqueue", self.now
            self._admitted.append(group)
        else:
            group.reason = reason
        return reason is None

    def _refusal(self, group: Group) -> str | None:
        reserved = sum(each.needs for each in self._admitted)
        if self.state.get(group.queue, "Open") != "Open":
            return "QueueNotOpen"
        if group.needs and reserved + group.needs > sum(self.nodes.values()):
            return RESOURCES
        if group.least is not None and self.used + reserved + group.needs > self.hard:
            return QUOTA
        return None


def groups(name: str) -> st.SearchStrategy[Json]:
    return st.builds(
        lambda queue, created, least: {
            "name": name,
            "queue": queue,
            "created": created,
            **({} if least is None else {"minResources": {"cpu": least}}),
        },
        st.sampled_from(QUEUES),
        st.integers(0, 5),
        st.none() | st.integers(0, 4),
    )


@st.composite
def histories(draw: st.DrawFn) -> tuple[Json, list[tuple[str, Any]]]:
    """The initial groups, queues and quotas, and the changes that follow."""
    start = {
        "nodes": [{"name": "n0", "cpu": draw(st.integers(1, 6))}],
        "queues": [{"name": QUEUES[0]}, {"name": QUEUES[1], "created": 1, "dequeueStrategy": "fifo"},
                   {"name": QUEUES[2], "created": 2}],
        "quotas": [{"name": "rq", "hard": {"cpu": draw(st.integers(2, 9))}}],
        "podGroups": [draw(groups(f"g{index}")) for index in range(draw(st.integers(1, 5)))],
    }  # fmt: skip
    of_queue = st.fixed_dictionaries(
        {"name": st.sampled_from(QUEUES)},
        optional={"state": st.sampled_from(["Open", "Closed"]), "maxPodGroups": st.integers(0, 3)},
    )
    changes: list[tuple[str, Any]] = []
    for step in range(draw(st.integers(1, 12))):
        change = st.one_of(
            st.tuples(st.just("advance"), st.sampled_from([5, 10, 20, 100])),
            st.tuples(st.just("addNodes"), st.just([{"name": "n0", "cpu": draw(st.integers(1, 6))}])),
            st.tuples(st.just("setQuota"), st.just({"name": "rq", "used": {"cpu": draw(st.integers(0, 6))}})),
            st.tuples(st.just("setQueue"), of_queue),
            st.tuples(st.just("addPodGroups"), st.tuples(groups(f"g{step + 5}"))),
        )
        changes.append(draw(change))
    return start, changes


@examples(15)
@given(history=histories(), fair=st.booleans(), restarting=st.booleans())
def test_enqueue_agrees_with_the_reference_implementation(
    history: tuple[Json, list[tuple[str, Any]]], fair: bool, restarting: bool
) -> None:
    start, changes = history
    reference = EnqueueReference(start, fair=fair)
    here = world(
        start,
        restarting=restarting,
        order="fair" if fair else "fcfs",
        requeue_backoff_base=BASE_S,
        requeue_backoff_max=MOST_S,
        inqueue_timeout=TIMEOUT_S,
    )
    for what, to in [("advance", 0), *changes]:
        reference.change(what, to)
        here.do(what, to)
        reference.session()
        here.session()
        got = {
            key.name: (
                stored.status.phase,
                here.condition(key.name, UNSCHEDULABLE),
                int(stored.metadata.annotations.get(ATTEMPTS, 0)),
            )
            for key, stored in here.groups.items()
        }
        assert got == {each.name: (each.phase, each.reason, each.attempts) for each in reference.groups}
