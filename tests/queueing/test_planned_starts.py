"""Planned starts: the first workload that does not fit, and what may start before it."""

from typing import Any

import pytest
from hypothesis import given as given_by
from hypothesis import settings
from hypothesis import strategies as st

from quorate.api.meta import Key
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.conditions import has_quota_reservation
from quorate.queueing.decisions import CycleResult
from quorate.queueing.explain import pending_facts, run, why_pending
from quorate.queueing.explanation.reasons import remedies
from quorate.queueing.inadmissible_reasons import ReservedForEarlierWorkload
from quorate.queueing.pending.entry import Entry
from quorate.queueing.planning.work_kinds import WorkKind
from quorate.queueing.scheduling.planned_starts import PlannedStarts
from quorate.queueing.scheduling.start_search import Plans
from tests.queueing.notation import Json
from tests.queueing.world import World


def queue(cpu: int, **others: Any) -> Json:
    return {"quota": [{"default": {"cpu": cpu}}], "annotations": {"backfill": "EASY"}, **others}


def job(name: str, cpu: int, created: int, maximum_s: int | None = None, **others: Any) -> Json:
    return {
        "name": name,
        "queue": "q",
        "requests": {"cpu": cpu},
        "created": created,
        "maximumExecutionTimeSeconds": maximum_s,
        **others,
    }


def a_world(*jobs: Json, **queues: Json) -> World:
    """Return the world at second 10 of which the first cycle has run."""
    queues = queues or {"q": queue(8)}
    world = World({"flavors": ["default"], "clusterQueues": queues, "workloads": jobs, "now": 10})
    for _ in range(3):
        run_cycle(world)
    return world


def run_cycle(world: World) -> CycleResult:
    """Run a cycle as the driver does: also write what is told of planned starts."""
    result = world.admission_cycle.run(world.now)
    world.carry_out(result.decisions)
    for key in result.announced:
        hold = why_pending(world.state, key)
        if hold is not None:
            world.carry_out((hold,))
    world.settle()
    return result


def started(world: World) -> set[str]:
    return {name for name, workload in world.workloads.items() if has_quota_reservation(workload)}


def planned(world: World, cluster_queue: str = "q") -> tuple[str, float] | None:
    """Return the first workload of a queue that has a planned start, and when that is."""
    return next(iter(all_planned(world, cluster_queue).items()), None)


def all_planned(world: World, cluster_queue: str = "q") -> dict[str, float]:
    """Return the planned starts of a queue, by workload."""
    state = world.state
    plans = PlannedStarts(state).of_queue(state.ledger.cluster_queues[cluster_queue], world.now)
    return {plan.entry.key.name: plan.at for plan in plans}


def reasons(world: World, name: str) -> list[object]:
    hold = world.state.ledger.entries[Key("default", name)].hold
    return [] if hold is None else list(hold.reasons)


FIRST = job("first", 4, 0, 100)  # it runs from second 10 to 110
LARGE = job("large", 8, 1, 60)


@pytest.mark.parametrize(
    ("later", "starts"),
    [
        pytest.param(job("later", 4, 2, 100), True, id="it ends when the planned one starts"),
        pytest.param(job("later", 4, 2, 101), False, id="it ends a second later"),
        pytest.param(job("later", 4, 2), False, id="it has no bound"),
        pytest.param(job("later", 4, 2, priority=1), True, id="it comes first"),
    ],
)
def test_a_later_workload_starts_if_it_ends_before_the_planned_start(later: Json, starts: bool) -> None:
    world = a_world(FIRST, LARGE, later)
    assert started(world) == ({"first", "later"} if starts else {"first"})
    if "priority" not in later:
        assert planned(world) == ("large", 110)
    if not starts:
        (reason,) = reasons(world, "later")
        assert isinstance(reason, ReservedForEarlierWorkload)
        (shortage,) = reason.shortages
        assert (reason.workload, reason.starts_at, shortage.short_by) == (Key("default", "large"), 110, 4000)


def test_a_later_workload_starts_if_it_uses_nothing_that_the_plan_needs() -> None:
    world = a_world(FIRST, LARGE, job("small", 2, 2), job("smaller", 1, 3), q=queue(10))
    assert started(world) == {"first", "small"}  # of the two cpus that are left none is for the other one
    assert planned(world) == ("large", 110)


def test_without_the_annotation_nothing_is_planned() -> None:
    world = a_world(FIRST, LARGE, job("later", 4, 2), q={"quota": [{"default": {"cpu": 8}}]})
    assert started(world) == {"first", "later"}
    assert planned(world) is None


def test_a_queue_without_planned_starts_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    of_queue, offer = PlannedStarts.of_queue, PlannedStarts.offer

    def counted_of_queue(self: PlannedStarts, queue: ClusterQueueState, now: float) -> Plans:
        asked.append(queue.name)
        return of_queue(self, queue, now)

    def counted_offer(self: PlannedStarts, queue: ClusterQueueState, entry: Entry, now: float) -> None:
        asked.append(queue.name)
        offer(self, queue, entry, now)

    monkeypatch.setattr(PlannedStarts, "of_queue", counted_of_queue)
    monkeypatch.setattr(PlannedStarts, "offer", counted_offer)
    plain = queue(4, annotations={})
    jobs = [job(f"{name}-{number}", 4, number, queue=name) for name in ("q", "plain") for number in range(2)]
    for queues, want in (({"q": plain, "plain": plain}, set()), ({"q": queue(4), "plain": plain}, {"q"})):
        a_world(*jobs, **queues)
        assert set(asked) == want


def test_without_bounds_the_amounts_of_the_planned_workload_are_kept() -> None:
    world = a_world(job("first", 4, 0), LARGE, job("later", 4, 2), job("bounded", 4, 3, 50))
    assert started(world) == {"first", "bounded"}
    assert planned(world) == ("large", float("inf"))


def test_without_bounds_later_workloads_together_leave_what_the_planned_one_needs() -> None:
    """Beside ``large`` there are 4 cpus: two small ones start, and one more when one of them ends."""
    small = [job(f"small-{number}", 2, 2 + number) for number in range(4)]
    world = a_world(job("first", 6, 0), LARGE, *small, q=queue(12))
    for ended, starts in (None, {"small-0", "small-1"}), ("small-0", {"small-1", "small-2"}):
        world.run({"finish": [ended] if ended else []})
        for _ in range(2):
            run_cycle(world)
        assert planned(world) == ("large", float("inf"))
        assert started(world) - {ended} == {"first", *starts}


def test_without_bounds_what_started_before_the_planned_one_arrived_is_to_end() -> None:
    world = a_world(
        job("first", 6, 3), {**LARGE, "create": "later"}, job("small", 2, 4, create="later"), q=queue(12)
    )
    world.now = 20
    world.run({"create": ["large", "small"]})
    for _ in range(2):
        run_cycle(world)
    assert planned(world) == ("large", float("inf"))
    assert started(world) == {"first", "small"}


def test_without_bounds_what_borrows_together_leaves_what_another_queue_has_planned() -> None:
    jobs = (
        job("first", 3, 0),
        job("large", 6, 1),
        *(job(f"borrowing-{number}", 1, 2 + number, queue="other") for number in range(4)),
    )
    world = a_world(*jobs, q=queue(8, cohort="all"), other=queue(0, cohort="all"))
    assert planned(world) == ("large", float("inf"))
    assert started(world) == {"first", "borrowing-0", "borrowing-1"}


def test_a_workload_that_never_fits_has_no_planned_start() -> None:
    world = a_world(FIRST, job("never", 9, 1), LARGE, job("later", 4, 2, 50))
    assert started(world) == {"first", "later"}
    assert planned(world) == ("large", 110)


def test_what_was_kept_is_free_when_the_planned_workload_is_gone() -> None:
    world = a_world(FIRST, LARGE, job("later", 4, 2))
    world.run({"delete": ["large"]})
    world.run({"cycle": 12})
    assert started(world) == {"first", "later"}
    assert planned(world) is None


def test_the_planned_workload_starts_as_soon_as_it_fits() -> None:
    world = a_world(FIRST, LARGE, job("later", 4, 2, 90))
    world.run({"finish": ["first", "later"]})
    world.run({"cycle": 12})
    assert started(world) >= {"large"}


def test_of_another_queue_only_what_borrows_waits_for_the_plan() -> None:
    jobs = (
        job("first", 2, 0, 100),
        job("large", 8, 1, 60),
        job("own", 4, 2, 100, queue="other"),
        job("borrowing", 1, 3, queue="other"),
    )
    world = a_world(*jobs, q=queue(4, cohort="all"), other=queue(4, cohort="all"))
    assert started(world) == {"first", "own"}
    (reason,) = reasons(world, "borrowing")
    assert isinstance(reason, ReservedForEarlierWorkload)


Jobs = st.lists(
    st.tuples(st.integers(1, 8), st.integers(1, 60), st.integers(1, 60), st.integers(0, 40)),
    min_size=2,
    max_size=9,
)


def conservative(depth: int = 10) -> Json:
    return queue(8, annotations={"backfill": "Conservative", "backfill-depth": str(depth)})


@pytest.mark.parametrize("rules", [queue(8), conservative(1), conservative(3), conservative()])
@settings(max_examples=40, deadline=None)
@given_by(Jobs)
def test_no_later_workload_delays_a_planned_start(
    rules: Json, sizes: list[tuple[int, int, int, int]]
) -> None:
    """With bounds that are enforced, a planned start is kept, and no workload after it moves it later.

    With several planned starts, one may move later because a workload before it starts earlier than planned.
    """
    jobs = [
        job(f"j{number}", cpu, arrives, max(limit, runs), create="later")
        for number, (cpu, limit, runs, arrives) in enumerate(sizes)
    ]
    runs_s = {f"j{number}": runs for number, (_, _, runs, _) in enumerate(sizes)}
    world = World({"flavors": ["default"], "clusterQueues": {"q": rules}, "workloads": jobs})
    promised: dict[str, float] = {}
    told: dict[str, float] = {}
    ends: dict[str, float] = {}
    moments = {each["created"] for each in jobs}
    while moments:
        second = min(moments)
        moments.remove(second)
        world.now = float(second)
        world.run({"create": [each["name"] for each in jobs if each["created"] == second]})
        world.run({"finish": [name for name, end in ends.items() if end == second]})
        run_cycle(world)
        promises = {key.name: promise for key, promise in world.state.ledger.announced.items()}
        for name in started(world) - ends.keys():
            assert second <= max(promised.get(name, second), told.get(name, second)), f"{name} starts late"
            ends[name] = second + runs_s[name]
            moments.add(second + runs_s[name])
        for name, at in all_planned(world).items():
            told.setdefault(name, at)
            if at > promised.get(name, at):
                assert rules != queue(8), f"the planned start of {name} moved later"
                promise = promises[name]
                is_revised = promise.reason == "HigherPriorityArrived" and promise.made_at == second
                assert at <= promise.at
                assert is_revised or at <= told[name], promise.message
            promised[name], told[name] = at, promises[name].at
    assert len(ends) == len(jobs), "each job starts"


def test_conservative_plans_each_workload_beside_those_before_it() -> None:
    jobs = (
        FIRST,  # 4 cpus until 110
        LARGE,  # all 8 from 110 to 170
        job("medium", 6, 2, 50),  # from 170
        job("small", 2, 3, 300),  # beside it
        job("later", 4, 4, 300),  # when both have ended it needs 4 beside the 2
        job("short", 4, 5, 60),
    )
    world = a_world(*jobs, q=conservative())
    assert all_planned(world) == {"large": 110, "medium": 170, "small": 170, "later": 220}
    assert started(world) == {"first", "short"}
    assert all_planned(a_world(*jobs, q=conservative(2))) == {"large": 110, "medium": 170}


def test_conservative_plans_for_workloads_of_one_shape_that_are_not_evaluated_themselves() -> None:
    jobs = (FIRST, *(job(f"equal-{number}", 8, number, 10) for number in range(1, 5)))
    world = a_world(*jobs, q=conservative(3))
    assert all_planned(world) == {"equal-1": 110, "equal-2": 120, "equal-3": 130}


def test_a_workload_gets_a_planned_start_once_it_has_waited_as_long_as_its_queue_says() -> None:
    rules = queue(8, annotations={"backfill": "EASY", "reserve-after": "30s"})
    world = a_world(FIRST, LARGE, job("later", 4, 2, 200, create="later"), q=rules)
    assert planned(world) is None
    assert run_cycle(world).wake_at == 31
    world.now = 31
    run_cycle(world)
    assert planned(world) == ("large", 110)
    world.run({"create": ["later"]})
    run_cycle(world)
    assert started(world) == {"first"}


def enough(world: World, name: str) -> list[str]:
    key = Key("default", name)
    facts = run(pending_facts(world.state, key))
    assert facts is not None
    assert facts.hold is not None
    return list(remedies(world.state, key, facts.hold.reasons, facts))


def test_an_explanation_tells_the_planned_start() -> None:
    world = a_world(FIRST, LARGE, job("later", 4, 2))
    assert (
        enough(world, "large")[0] == "wait until 1970-01-01 00:01:50 UTC at the latest: its start is planned"
    )
    (sentence,) = enough(world, "later")
    assert sentence == (
        "wait until default/large has started, or set a maximumExecutionTimeSeconds that ends "
        "before 1970-01-01 00:01:50 UTC"
    )


def test_what_waits_for_the_pods_of_others_keeps_its_quota() -> None:
    """``first`` fits, and waits until the pods of ``unready`` are ready: ``later`` may not take its quota."""
    queues = {"q": queue(4), "other": queue(4)}
    rules = {
        "waitForPodsReady": {"timeout": "1h", "blockAdmission": True, "blockAdmissionScope": "SameFlavors"}
    }
    jobs = (
        job("unready", 1, 0, queue="other"),
        job("first", 4, 1, 100),
        job("later", 4, 2, 100),
    )
    world = World(
        {"flavors": ["default"], "config": rules, "clusterQueues": queues, "workloads": jobs, "now": 10}
    )
    world.run({"cycle": 12})
    assert started(world) == {"unready"}
    assert planned(world) == ("first", 10)


def test_the_planned_start_of_a_growing_job_leaves_its_former_slice_out() -> None:
    gates = {"featureGates": {"ElasticJobsViaWorkloadSlices": True}}
    jobs = (
        job("small", 4, 0, 100, elastic=True),
        job("other", 4, 1, 50),
        job("grown", 8, 2, 100, elastic=True, replaces="small", create="later"),
        job("later", 1, 3, create="later"),
    )
    world = World(
        {
            "flavors": ["default"],
            "config": gates,
            "clusterQueues": {"q": queue(8)},
            "workloads": jobs,
            "now": 10,
        }
    )
    world.run({"cycle": 12})
    world.run({"create": ["grown", "later"]})
    world.run({"cycle": 12})
    assert planned(world) == ("grown", 60)
    assert started(world) == {"small", "other"}


def test_the_heads_of_other_queues_keep_to_a_plan_of_the_same_round() -> None:
    """With fair sharing ``borrowing`` comes first; it would take what ``large`` needs."""
    queues = {"q": queue(4, cohort="all"), "other": queue(0, cohort="all")}
    jobs = (
        job("first", 3, 0, admitted="default"),
        job("large", 4, 1),
        job("borrowing", 1, 2, queue="other"),
    )
    config: Json = {"fairSharing": {}}
    world = World(
        {"flavors": ["default"], "config": config, "clusterQueues": queues, "workloads": jobs, "now": 10}
    )
    world.run({"cycle": 12})
    assert started(world) == {"first"}
    assert planned(world) == ("large", float("inf"))


def test_annotations_without_effect_are_shown_on_their_queue_alone() -> None:
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"q": queue(8, annotations={"backfill": "easy"}), "other": queue(8)},
            "workloads": [],
        }
    )
    (active,) = world.state.cluster_queue_status("q", 0.0).conditions
    assert (active.status, active.message) == (
        "True",
        "Can admit new workloads; without effect: metadata.annotations[quorate.dev/backfill]: 'easy' is not "
        "allowed here (write None, EASY, Conservative)",
    )
    (active,) = world.state.cluster_queue_status("other", 0.0).conditions
    assert active.message == "Can admit new workloads"


def test_a_learned_bound_lets_a_workload_pass_and_gives_the_planned_start() -> None:
    world = a_world(job("first", 4, 0), LARGE, job("later", 4, 2))
    assert planned(world) == ("large", float("inf"))
    world.state.set_learned_bounds({WorkKind(("default", "q")): 50.0})
    world.run({"cycle": 12})
    assert planned(world) == ("large", 60)
    assert started(world) == {"first", "later"}
    world.now = 61.0  # both have run longer than expected
    world.state.set_learned_bounds({WorkKind(("default", "q")): 51.0})
    assert planned(world) == ("large", 110)


def test_the_default_of_its_queue_lets_a_workload_pass() -> None:
    annotations = {"backfill": "EASY", "default-maximum-execution-time": "100s"}
    world = a_world(FIRST, LARGE, job("later", 4, 2), q=queue(8, annotations=annotations))
    assert started(world) == {"first", "later"}
    assert planned(world) == ("large", 110)


@pytest.mark.parametrize("mode", ["EASY", "Conservative"])
def test_what_was_held_back_starts_as_soon_as_the_planned_start_moves_later(mode: str) -> None:
    """The first workload runs longer than expected, and nothing else happens."""
    annotations = {"backfill": mode, "default-maximum-execution-time": "100s"}
    later = job("later", 4, 50, 90, create="later")
    world = a_world(job("first", 4, 0), LARGE, later, q=queue(8, annotations=annotations))
    assert planned(world) == ("large", 110)
    world.now = 50
    world.run({"create": ["later"]})
    run_cycle(world)
    assert started(world) == {"first"}
    due = run_cycle(world).wake_at
    while due is not None and due < 150 and "later" not in started(world):
        world.now = due
        due = run_cycle(world).wake_at
    assert world.now == 111
    assert planned(world) == ("large", 210)
    assert started(world) == {"first", "later"}


@pytest.mark.parametrize(
    ("percent", "bound_s", "starts"),
    [
        pytest.param("50", 150, True, id="it ends within half of the time until the planned start"),
        pytest.param("50", 151, False, id="it ends a second later"),
        pytest.param("0", 101, False, id="no slack"),
        pytest.param("many", 101, False, id="an annotation without effect"),
    ],
)
def test_a_later_workload_may_use_the_slack_of_a_planned_start(
    percent: str, bound_s: int, starts: bool
) -> None:
    """The first workload ends at 110, a hundred seconds from now."""
    rules = queue(8, annotations={"backfill": "EASY", "backfill-slack-percent": percent})
    world = a_world(FIRST, LARGE, job("later", 4, 2, bound_s), q=rules)
    assert started(world) == ({"first", "later"} if starts else {"first"})
    announced = world.state.ledger.announced[Key("default", "large")]
    assert announced.at == (160 if percent == "50" else 110)
    assert planned(world) == ("large", 160 if starts else 110)
    if starts:
        world.run({"create": []})
        world.now = 60
        run_cycle(world)
        assert world.state.ledger.announced[Key("default", "large")].at == 160, "it stays"
