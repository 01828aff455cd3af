"""Planned starts of pod groups: the first one that lacks room on the nodes, and what may start before it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given as given_by
from hypothesis import strategies as st

from quorate.gang.outcome import Outcome
from quorate.gang.pending_reasons import (
    AwaitsPlannedStart,
    AwaitsUnplannedStart,
    NotEnoughResources,
    NotPlanned,
    ReservedForEarlierGroup,
)
from tests.gang.enqueue_worlds import Json, group_states, message, pod
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of
from tests.search import examples

NOW = 1000
BACKFILL = {"quorate.dev/backfill": "EASY"}
MAXIMUM = "kueue.x-k8s.io/max-exec-time-seconds"
TIERS = (["priority", "gang"], ["predicates", "nodeorder"])


def a_world(
    groups: Sequence[Json], pods: Sequence[Json], nodes: int = 2, backfill: str = "EASY", **others: Any
) -> World:
    """Return a world of nodes with 4 cpus each."""
    conf = {
        "actions": others.pop("actions", "enqueue, allocate, backfill"),
        "tiers": others.pop("tiers", TIERS),
        "configurations": {"enqueue": {"backfill": backfill}},
    }
    given = {
        "now": NOW,
        "nodes": [{"name": f"n{index}", "cpu": 4} for index in range(nodes)],
        "podGroups": groups,
        "pods": pods,
        **others,
    }
    return World(given, settings_of(conf, "design"), restarting=True)


def gang(name: str, members: int, cpu: int, created: int, **given: Any) -> Json:
    least = {"minResources": {"cpu": str(members * cpu)}}
    return {"name": name, "minMember": members, "created": created, **least, **given}


def members(of: str, count: int, cpu: int, deadline: int | None = None, **given: Any) -> Json:
    declared = {} if deadline is None else {"deadline": deadline}
    return {"name": of, "group": of, "count": count, "cpu": str(cpu), **declared, **given}


# Its pod takes a node until second 1090.
FIRST = gang("first", 1, 4, 0, phase="Running")
FIRST_POD = pod("first", cpu="4", node="n0", phase="Running", deadline=100, started=990)
LARGE = gang("large", 2, 4, 1)
LARGE_PODS = members("large", 2, 4, 500)


@pytest.mark.parametrize(
    ("deadline", "starts"),
    [
        pytest.param(90, True, id="it ends when the planned one starts"),
        pytest.param(91, False, id="it ends a second later"),
        pytest.param(None, False, id="it has no bound"),
    ],
)
def test_a_later_group_starts_if_it_ends_before_the_planned_start(deadline: int | None, starts: bool) -> None:
    later = gang("later", 1, 4, 2)
    here = a_world([FIRST, LARGE, later], [FIRST_POD, LARGE_PODS, members("later", 1, 4, deadline)])
    outcome = here.session()
    reason = outcome.pending_reasons[key_of("large")]
    assert isinstance(reason, AwaitsPlannedStart)
    assert reason.at == 1090
    assert bool(here.placed("later")) is starts
    if not starts:
        refusal = outcome.pending_reasons[key_of("later")]
        assert isinstance(refusal, ReservedForEarlierGroup)
        assert (refusal.group, refusal.at) == (key_of("large"), 1090)
        assert group_states(here)["later"] == "ReservedForEarlierPodGroup"
        assert "reserved for pod group large, which starts at 1970-01-01 00:18:10 UTC" in message(
            here, "later"
        )
    assert "its start is planned for 1970-01-01 00:18:10 UTC at the latest" in message(here, "large")


def test_a_group_of_another_namespace_does_not_learn_the_name() -> None:
    later = gang("later", 1, 4, 2, namespace="other")
    here = a_world([FIRST, LARGE, later], [FIRST_POD, LARGE_PODS])
    refusal = here.session().pending_reasons[key_of("other/later")]
    assert "large" not in str(refusal)


def test_a_later_group_starts_on_nodes_that_the_plan_does_not_need() -> None:
    """Two nodes are idle, and the plan needs one of them beside the node of the first group."""
    later = gang("later", 1, 4, 2), gang("last", 1, 4, 3)
    pods = [members("later", 1, 4), members("last", 1, 4)]
    large = gang("large", 3, 4, 1)
    here = a_world([FIRST, large, *later], [FIRST_POD, members("large", 3, 4, 500), *pods], nodes=4)
    # Three nodes are idle: the large group fits now.
    here.session()
    assert here.placed("large") == 3
    large = gang("large", 4, 4, 1)
    here = a_world([FIRST, large, *later], [FIRST_POD, members("large", 4, 4, 500), *pods], nodes=5)
    here.session()
    assert here.placed("large") == 4
    here = a_world([FIRST, large, *later], [FIRST_POD, members("large", 4, 4, 500), *pods], nodes=4)
    here.session()
    assert group_states(here) == {
        "first": "Running",
        "large": "NotEnoughResources",
        "later": "ReservedForEarlierPodGroup",
        "last": "ReservedForEarlierPodGroup",
    }


def test_what_the_planned_group_needs_on_a_node_is_kept_there() -> None:
    """The nodes have 2 cpus each that the plan does not need, and no member of 3 finds room beside it."""
    first = [gang("first", 2, 3, 0, phase="Running")]
    running = [
        pod("first", name=f"first-{at}", cpu="3", node=f"n{at}", phase="Running", deadline=100, started=990)
        for at in range(2)
    ]
    large = gang("large", 3, 3, 1)
    small = gang("small", 1, 1, 2), gang("smaller", 1, 1, 3)
    pods = [members("large", 3, 3, 500), members("small", 1, 1), members("smaller", 1, 1)]
    here = a_world([*first, large, *small], [*running, *pods], nodes=2)
    here.session()  # three members of 3 cpus never fit two nodes: there is no plan
    assert (here.placed("small"), here.placed("smaller")) == (1, 1)
    large = gang("large", 2, 4, 1)
    pods[0] = members("large", 2, 4, 500)
    here = a_world([*first, large, *small], [*running, *pods], nodes=2)
    here.session()
    assert (here.placed("small"), here.placed("smaller")) == (0, 0)


@pytest.mark.parametrize(("backfill", "queue"), [("None", {}), ("EASY", {"quorate.dev/backfill": "None"})])
def test_without_backfill_nothing_is_planned(backfill: str, queue: Json) -> None:
    later = gang("later", 1, 4, 2)
    here = a_world(
        [FIRST, LARGE, later],
        [FIRST_POD, LARGE_PODS, members("later", 1, 4)],
        backfill=backfill,
        queues=[{"name": "default", "annotations": queue}],
    )
    outcome = here.session()
    assert isinstance(outcome.pending_reasons[key_of("large")], NotEnoughResources)
    assert here.placed("later") == 1


def test_the_annotation_of_a_queue_plans_the_starts_of_its_groups() -> None:
    later = gang("later", 1, 4, 2)
    here = a_world(
        [FIRST, LARGE, later],
        [FIRST_POD, LARGE_PODS, members("later", 1, 4)],
        backfill="None",
        queues=[{"name": "default", "annotations": BACKFILL}],
    )
    here.session()
    assert group_states(here)["later"] == "ReservedForEarlierPodGroup"


def test_without_bounds_the_nodes_of_the_planned_group_are_kept() -> None:
    first_pod = {name: value for name, value in FIRST_POD.items() if name != "deadline"}
    later = gang("later", 1, 4, 2), gang("bounded", 1, 4, 3)
    pods = [members("later", 1, 4), members("bounded", 1, 4, 60)]
    here = a_world([FIRST, LARGE, *later], [first_pod, LARGE_PODS, *pods])
    outcome = here.session()
    reason = outcome.pending_reasons[key_of("large")]
    assert isinstance(reason, AwaitsPlannedStart)
    assert reason.at is None
    assert (here.placed("later"), here.placed("bounded")) == (0, 1)


def test_an_overdue_group_does_not_wait_for_a_plan() -> None:
    tiers = (["priority", "gang", {"name": "sla", "arguments": {"sla-waiting-time": "1h"}}], TIERS[1])
    annotated = gang("later", 1, 4, 2, annotations={"sla-waiting-time": "10s"})
    here = a_world([FIRST, LARGE, annotated], [FIRST_POD, LARGE_PODS, members("later", 1, 4)], tiers=tiers)
    here.session()
    assert here.placed("later") == 1


def test_a_group_that_declares_a_bound_and_creates_pods_without_it_is_rolled_back() -> None:
    later = gang("later", 1, 4, 2, labels={MAXIMUM: "60"})
    here = a_world([FIRST, LARGE, later], [FIRST_POD, LARGE_PODS], delayedPods=[members("later", 1, 4)])
    here.session()
    assert group_states(here)["later"] == "Inqueue"
    here.do("controller", None)
    here.session()
    assert (here.placed("later"), group_states(here)["later"]) == (0, "ReservedForEarlierPodGroup")


@pytest.mark.parametrize(("seconds", "placed"), [(30, 1), (31, 0)])
def test_a_group_that_would_end_before_the_plan_has_to_start_in_time(seconds: int, placed: int) -> None:
    later = gang("later", 1, 4, 2, labels={MAXIMUM: "60"})
    here = a_world([FIRST, LARGE, later], [FIRST_POD, LARGE_PODS], delayedPods=[members("later", 1, 4, 60)])
    here.session()
    assert group_states(here)["later"] == "Inqueue"
    here.do("advance", seconds)
    here.do("controller", None)
    here.session()
    assert here.placed("later") == placed


def test_a_gang_that_may_grow_does_not_take_what_is_kept() -> None:
    """The first group has its minimum, and a further member of it finds the idle node kept."""
    further = pod("first", name="first-1", cpu="4")
    here = a_world([FIRST, LARGE], [FIRST_POD, LARGE_PODS, further])
    here.session()
    assert here.placed("first") == 1
    here = a_world([FIRST, LARGE], [FIRST_POD, LARGE_PODS, further], backfill="None")
    here.session()
    assert here.placed("first") == 2


def test_a_group_with_a_workload_has_no_plan_of_its_own() -> None:
    large = gang("large", 2, 4, 1, quota={"count": 2})
    later = gang("later", 1, 4, 2)
    here = a_world([FIRST, large, later], [FIRST_POD, LARGE_PODS, members("later", 1, 4)])
    outcome = here.session()
    assert isinstance(outcome.pending_reasons[key_of("large")], NotEnoughResources)
    assert here.placed("later") == 1


RACKS = [
    {"name": f"rack-{letter}", "tier": 1, "nodes": " ".join(f"n{at}" for at in nodes)}
    for letter, nodes in (("a", (0, 1)), ("b", (2, 3)))
]
IN_ONE_RACK = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
SECOND = gang("second", 1, 4, 0, phase="Running")
SECOND_POD = pod("second", cpu="4", node="n2", phase="Running", deadline=200, started=990)


def test_a_group_that_needs_a_hyper_node_has_a_planned_start_in_the_first_that_is_free() -> None:
    """A node of each rack is idle: enough in all, and no rack has two.  The first one is whole at 1090."""
    large = gang("large", 2, 4, 1, **IN_ONE_RACK)
    later = gang("later", 1, 4, 2), gang("last", 1, 4, 3)
    groups = [FIRST, SECOND, large, *later]
    pods = [FIRST_POD, SECOND_POD, LARGE_PODS, members("later", 1, 4), members("last", 1, 4)]
    here = a_world(groups, pods, nodes=4, hyperNodes=RACKS)
    reason = here.session().pending_reasons[key_of("large")]
    assert isinstance(reason, AwaitsPlannedStart)
    assert (reason.at, reason.reason) == (1090, "NetworkTopologyUnsatisfied")
    assert "needs 2 pods within one HyperNode of tier ≤ 1: the largest of 2 has room for 1 (rack-a)" in str(
        reason
    )
    assert here.binds["later-0"] == "n3", "the idle node of the first rack is kept"
    assert group_states(here)["last"] == "ReservedForEarlierPodGroup"
    here.do("advance", 90)
    here.do("finish", {"pods": ["first-0"]})
    here.session()
    assert {here.binds[f"large-{at}"] for at in range(2)} == {"n0", "n1"}


def test_without_backfill_a_group_that_needs_a_hyper_node_is_admitted_and_waits() -> None:
    large = gang("large", 2, 4, 1, **IN_ONE_RACK)
    here = a_world([FIRST, SECOND, large], [FIRST_POD, SECOND_POD, LARGE_PODS], 4, "None", hyperNodes=RACKS)
    here.session()
    assert group_states(here)["large"] == "Inqueue"


@pytest.mark.parametrize(
    ("large", "pods", "why"),
    [  # two of four nodes are idle
        pytest.param(
            gang("large", 4, 4, 1)
            | {
                "subGroupPolicy": [
                    {"name": "s", "subGroupSize": 2, "networkTopology": IN_ONE_RACK["networkTopology"]}
                ]
            },
            [members("large", 4, 4, 500)],
            NotPlanned.SUB_GROUPS,
            id="sub groups",
        ),
        pytest.param(
            gang("large", 2, 4, 1, **IN_ONE_RACK),
            [{**pod("web", cpu="1", node="n3"), "group": "", "phase": "Running"}],
            NotPlanned.UNKNOWN_REQUESTS,
            id="no pods yet",
        ),
        pytest.param(
            gang("large", 4, 4, 1),
            [
                members("large", 4, 4, 500),
                {**pod("web", cpu="4", node="n3"), "group": "", "phase": "Running"},
            ],
            NotPlanned.HELD_BY_OTHERS,
            id="pods of no group",
        ),
    ],
)
def test_a_group_of_which_no_start_can_be_planned_is_told_why(
    large: Json, pods: Sequence[Json], why: NotPlanned
) -> None:
    here = a_world([FIRST, SECOND, large], [FIRST_POD, SECOND_POD, *pods], nodes=4, hyperNodes=RACKS)
    reason = here.session().pending_reasons[key_of("large")]
    assert isinstance(reason, AwaitsUnplannedStart)
    assert reason.why is why
    assert why.value in message(here, "large")


class Job(NamedTuple):
    """A gang of equal members that declares how long it runs."""

    members: int
    cpu: int  # of each member
    declared_s: int
    part: float  # of the declared time that it runs
    created_s: int
    creates_pods_after_s: int | None  # its admission; None: before it


class Run:
    """Jobs on nodes with 4 cpus each, with a session whenever something happens."""

    def __init__(self, jobs: Sequence[Job], nodes: int, now: float = NOW) -> None:
        self.world = a_world([], [], nodes=nodes, now=now)
        self.jobs = {f"g{at}": job for at, job in enumerate(jobs)}
        self._now = now  # at the beginning
        self._due: list[tuple[float, str, str]] = [
            (now + job.created_s, "create", name) for name, job in self.jobs.items()
        ]
        self._asked_for_pods: set[str] = set()
        self._running = set(self.jobs)  # or to run yet

    def step(self) -> Outcome | None:
        """Go to the next time at which something happens and run a session; return None at the end."""
        if not self._running or not self._due:
            return None
        self._due.sort()
        self.world.do("advance", max(0.0, self._due[0][0] - self.world.now))
        while self._due and self._due[0][0] <= self.world.now:
            _, what, name = self._due.pop(0)
            if what == "create":
                self._create(name)
            elif what == "pods":
                self.world.do("addPods", [self._pods(name)])
            elif what == "end":
                self._running.discard(name)
                count = self.jobs[name].members
                self.world.do("finish", {"pods": [f"{name}-{at}" for at in range(count)]})
        self.world.start_step()
        outcome = self.world.session()
        self.world.do("start", None)
        for name in {bound.rpartition("-")[0] for bound in self.world.binds}:
            job = self.jobs[name]
            self._due.append((self.world.now + job.declared_s * job.part, "end", name))
        for admitted in outcome.admitted:
            name, after_s = admitted.gang.name, self.jobs[admitted.gang.name].creates_pods_after_s
            if after_s is not None and name not in self._asked_for_pods:
                self._asked_for_pods.add(name)
                self._due.append((self.world.now + after_s, "pods", name))
        if outcome.wake_at is not None:
            self._due.append((outcome.wake_at, "wake", ""))
        return outcome

    def _create(self, name: str) -> None:
        job = self.jobs[name]
        labels = {MAXIMUM: str(job.declared_s)}
        created = gang(name, job.members, job.cpu, int(self._now) + job.created_s, labels=labels)
        self.world.do("addPodGroups", [created])
        if job.creates_pods_after_s is None:
            self.world.do("addPods", [self._pods(name)])

    def _pods(self, name: str) -> Json:
        job = self.jobs[name]
        labels = {MAXIMUM: str(job.declared_s)}
        return members(name, job.members, job.cpu, job.declared_s, labels=labels)


jobs = st.builds(
    Job,
    members=st.integers(1, 4),
    cpu=st.integers(1, 4),
    declared_s=st.integers(5, 40),
    part=st.floats(0.1, 1),
    created_s=st.integers(0, 30),
    creates_pods_after_s=st.none() | st.sampled_from([0, 3, 20]),
)


@examples(60)
@given_by(jobs=st.lists(jobs, min_size=3, max_size=12), nodes=st.integers(1, 4))
def test_no_later_group_moves_a_planned_start(jobs: list[Job], nodes: int) -> None:
    """With declared bounds, and times that annotations store in µs."""
    assert_planned_starts_are_kept(Run(jobs, nodes))


def assert_planned_starts_are_kept(run: Run) -> None:
    """Play to the end; only groups before a planned one may move it."""
    planned = dict[str, float]()

    def order(name: str) -> tuple[int, str]:
        return run.jobs[name].created_s, name

    for _ in range(500):
        outcome = run.step()
        if outcome is None:
            break
        reasons = {key.name: reason for key, reason in outcome.pending_reasons.items()}
        now_planned = {
            name: reason.at
            for name, reason in reasons.items()
            if isinstance(reason, AwaitsPlannedStart) and reason.at is not None
        }
        started = {bound.rpartition("-")[0] for bound in run.world.binds}
        ahead = {*now_planned, *started, *(one.gang.name for one in outcome.admitted)}
        first = min(map(order, ahead), default=None)
        for name in [name for name in planned if first is not None and first < order(name)]:
            del planned[name]
        for name, at in now_planned.items():
            assert at <= planned.get(name, at) + 1e-5, f"{name} is planned later"
            planned[name] = at
        for name, at in list(planned.items()):
            if run.world.phase(name) == "Pending":
                assert run.world.now < at, f"{name} has not started in time"
            else:
                del planned[name]
    else:
        pytest.fail("the run does not end")
    waiting = {name for name, state in group_states(run.world).items() if state.startswith("Reserved")}
    assert not waiting
