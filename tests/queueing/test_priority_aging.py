"""Priority ageing: waiting raises the order of workloads, by steps of the clock."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration import load_configuration
from quorate.api.configuration.priority_aging import PriorityAging, annotated_aging
from quorate.api.explanation import RaisedPriority, summary_of
from quorate.api.meta import Key, at_epoch, find_condition
from quorate.cli.verbs.explain.command import explanation_sections
from quorate.cli.verbs.printing import Fields
from quorate.queueing.conditions import has_quota_reservation, new_condition
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.workload import explain_workload
from quorate.queueing.pending.queue import PendingQueue
from quorate.queueing.planning.work_kinds import WorkKind
from tests.queueing.notation import Json
from tests.queueing.world import World
from tests.search import examples

RULE = PriorityAging(every_s=600, step=1, at_most=50)
ANNOTATION = "metadata.annotations[quorate.dev/priority-aging]"
TEN_MINUTES = "{every: 10m, atMost: 50}"
MINUTE = 60.0


def job(name: str, priority: int, created: float, **others: Any) -> Json:
    return {"name": name, "priority": priority, "created": created, "requests": {"cpu": 1}, **others}


def annotated(rule: str | None) -> Json:
    return {} if rule is None else {"annotations": {"priority-aging": rule}}


def a_world(*jobs: Json, now: float = 0, cpu: int = 1, aging: str | None = None, **queue: Any) -> World:
    queues = {"q": {"quota": [{"default": {"cpu": cpu}}], **annotated(aging), **queue}}
    workloads = [{"queue": "q", **one} for one in jobs]
    return World({"flavors": ["default"], "clusterQueues": queues, "workloads": workloads, "now": now})


def order(world: World) -> list[str]:
    return [entry.key.name for entry in world.state.ledger.cluster_queues["q"].pending.all_entries()]


def running(world: World) -> set[str]:
    return {name for name, workload in world.workloads.items() if has_quota_reservation(workload)}


def run_cycle(world: World, now: float) -> float | None:
    """Run one cycle with the product's own loop; return when the next one is due."""
    world.now = now
    result = world.admission_cycle.run(now)
    assert result.faults == ()
    world.carry_out(result.decisions)
    world.settle()
    return result.wake_at


@pytest.mark.parametrize(
    ("since", "now", "want"),
    [
        pytest.param(0, 599, 0, id="before the first step"),
        pytest.param(0, 600, 1, id="at the first step"),
        pytest.param(590, 600, 1, id="a step comes at its time of the clock"),
        pytest.param(300, 300 + 40 * 60, 4, id="forty minutes are four steps, whenever they begin"),
        pytest.param(0, 10**9, 50, id="no more than at most"),
        pytest.param(700, 600, 0, id="created in the future"),
    ],
)
def test_waiting_raises_the_priority_by_whole_steps(since: float, now: float, want: int) -> None:
    assert RULE.increase(since, RULE.step_at(now)) == want


rules = st.builds(
    PriorityAging, every_s=st.integers(1, 1000), step=st.integers(1, 9), at_most=st.integers(1, 99)
)
times = st.integers(0, 20_000).map(float)


@given(rules, times, times, times, times)
def test_the_longer_a_workload_waits_the_more_it_has(
    rule: PriorityAging, a: float, b: float, now: float, later: float
) -> None:
    (earlier_since, since), (now, later) = sorted((a, b)), sorted((now, later))
    step, later_step = rule.step_at(now), rule.step_at(later)
    assert rule.increase(since, step) <= rule.increase(earlier_since, step) <= rule.at_most
    assert rule.increase(since, step) <= rule.increase(since, later_step)
    whole = int(max(0.0, now - since)) // rule.every_s
    assert rule.increase(since, step) in {
        min(rule.at_most, rule.step * passed) for passed in (whole, whole + 1)
    }
    assert rule.increase(since, rule.last_step(since)) == rule.at_most


@given(rules, times, times, times, times)
def test_two_workloads_keep_their_difference_until_one_has_the_most(
    rule: PriorityAging, a: float, b: float, now: float, later: float
) -> None:
    now, later = sorted((max(now, a, b), max(later, a, b)))
    raised = [[rule.increase(since, rule.step_at(time)) for since in (a, b)] for time in (now, later)]
    if max(map(max, raised)) < rule.at_most:
        assert raised[0][0] - raised[0][1] == raised[1][0] - raised[1][1]


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200), st.integers(1, 3)), min_size=1, max_size=12),
    st.lists(st.integers(0, 400), min_size=1, max_size=6),
)
def test_the_heap_agrees_with_sorting_by_the_raised_priority(
    jobs: list[tuple[int, int, int]], moments: list[int]
) -> None:
    """An independent order: every workload sorted anew at each moment, by a formula of its own."""
    given_jobs = [
        job(f"w{index:02}", priority, created, requests={"cpu": cpu})
        for index, (priority, created, cpu) in enumerate(jobs)
    ]
    world = a_world(*given_jobs, now=200, cpu=0, aging="{every: 20s, step: 2, atMost: 7}")
    pending = world.state.ledger.cluster_queues["q"].pending

    def raised(index: int, now: float) -> int:
        priority, created, _ = jobs[index]
        return priority + min(7, 2 * (int(now) // 20 - created // 20))

    for moment in sorted(moments):
        now = 200.0 + moment
        world.state.ledger.age(now)
        indices = sorted(range(len(jobs)), key=lambda index: (-raised(index, now), jobs[index][1], index))
        want = [f"w{index:02}" for index in indices]
        assert order(world) == want
        popped = []
        while (entry := pending.pop()) is not None:
            popped.append(entry)
            pending.in_flight = None
        assert [entry.key.name for entry in popped] == want
        for entry in popped:
            pending.push(entry)


def test_an_old_workload_precedes_a_later_one_of_higher_priority() -> None:
    jobs = (job("old", 100, 0), job("new", 104, 45 * MINUTE))
    plain = a_world(*jobs, now=50 * MINUTE)
    assert order(plain) == ["new", "old"]
    ageing = a_world(*jobs, now=50 * MINUTE, aging=TEN_MINUTES)
    assert order(ageing) == ["old", "new"]  # 105 against 105, and it waits longer
    run_cycle(ageing, 50 * MINUTE)
    assert running(ageing) == {"old"}


def test_the_order_changes_at_the_step_at_which_the_older_workload_has_the_most() -> None:
    world = a_world(
        job("old", 0, 0), job("new", 3, 100), now=100, cpu=0, aging="{every: 50s, step: 3, atMost: 6}"
    )
    assert order(world) == ["old", "new"]  # 6 against 3
    world.state.ledger.age(150.0)
    assert order(world) == ["old", "new"]  # 6 against 6
    world.state.ledger.age(200.0)
    assert order(world) == ["new", "old"]  # 6 against 9


def counted(monkeypatch: pytest.MonkeyPatch) -> list[PendingQueue]:
    """Return the list to which each pass over the shape queues of a queue adds the queue."""
    passes: list[PendingQueue] = []
    rebuild = PendingQueue._rebuild_heads

    def count(pending: PendingQueue) -> None:
        passes.append(pending)
        rebuild(pending)

    monkeypatch.setattr(PendingQueue, "_rebuild_heads", count)
    return passes


def test_the_cycle_wakes_up_for_steps_until_nothing_can_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(job("w", 0, 0), now=10, cpu=0, aging="{every: 60s, atMost: 2}")
    passes = counted(monkeypatch)
    assert [run_cycle(world, now) for now in (10, 60, 119, 120, 180)] == [60, 120, 120, None, None]
    assert len(passes) == 3  # one for each step


def test_without_a_rule_no_step_is_taken_and_no_cycle_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(job("w", 0, 0), now=10, cpu=0)
    passes = counted(monkeypatch)
    assert [run_cycle(world, now) for now in (10, 10**6)] == [None, None]
    assert passes == []


def test_a_strict_queue_tries_the_workload_that_a_step_makes_its_head() -> None:
    world = a_world(
        job("large", 0, 0, requests={"cpu": 2}),
        job("small", 3, 100),
        now=150,
        strategy="StrictFIFO",
        aging="{every: 50s, step: 3, atMost: 6}",
    )
    assert run_cycle(world, 150) == 200
    assert running(world) == set()  # the large one blocks
    run_cycle(world, 200)
    assert running(world) == {"small"}


RUNS = job("runs", 102, 0, admitted=True)
PREEMPTING: Json = {"preemption": {"withinClusterQueue": "LowerPriority"}}


@pytest.mark.parametrize(
    ("rule", "preempted"),
    [
        pytest.param("{every: 10m, atMost: 50}", False, id="raised priorities only order"),
        pytest.param("{every: 10m, atMost: 50, alsoPreempts: true}", True, id="and also preempt"),
    ],
)
def test_a_raised_priority_preempts_only_if_the_rule_says_so(rule: str, preempted: bool) -> None:
    runs = job("runs", 102, 100 * MINUTE, maximumExecutionTimeSeconds=9)
    world = a_world(runs, now=100 * MINUTE, aging=rule, **PREEMPTING)
    run_cycle(world, 100 * MINUTE)
    assert running(world) == {"runs"}
    world.given["workloads"].append({"queue": "q", **job("old", 100, 60 * MINUTE), "create": "later"})
    world.create("old")  # 104 by waiting
    world.settle()
    run_cycle(world, 100 * MINUTE + 1)
    assert (set(world.preempted()) == {"runs"}) is preempted


def test_a_step_that_lets_a_workload_preempt_evaluates_it_again() -> None:
    rule = "{every: 10m, atMost: 2, alsoPreempts: true}"
    world = a_world(job("runs", 102, 0), now=100 * MINUTE, aging=rule, **PREEMPTING)
    run_cycle(world, 100 * MINUTE)
    world.given["workloads"].append({"queue": "q", **job("waits", 103, 95 * MINUTE), "create": "later"})
    world.create("waits")
    world.settle()
    assert run_cycle(world, 100 * MINUTE + 1) == 110 * MINUTE
    assert world.preempted() == {}  # 104 by waiting, and so has the one that runs
    run_cycle(world, 110 * MINUTE)
    assert set(world.preempted()) == {"runs"}


def test_a_workload_that_waiting_let_start_first_is_not_preempted_by_one_that_waited_behind_it() -> None:
    jobs = (job("old", 100, 0), job("new", 102, 45 * MINUTE))
    world = a_world(*jobs, now=45 * MINUTE, aging=TEN_MINUTES, **PREEMPTING)
    run_cycle(world, 45 * MINUTE)
    run_cycle(world, 45 * MINUTE + 1)
    assert (running(world), world.preempted()) == ({"old"}, {})
    world.given["workloads"].append({"queue": "q", **job("higher", 105, 46 * MINUTE), "create": "later"})
    world.create("higher")
    world.settle()
    run_cycle(world, 46 * MINUTE)
    assert set(world.preempted()) == {"old"}  # it had 104 when it started


def test_the_heads_of_two_queues_compete_by_their_raised_priorities() -> None:
    queues = {
        name: {"quota": [{"default": {"cpu": 0}}], "cohort": "all", **annotated(rule)}
        for name, rule in (("a", TEN_MINUTES), ("b", "None"))
    }
    workloads = [
        {"queue": "a", **job("old", 100, 0)},
        {"queue": "b", **job("new", 103, 45 * MINUTE)},
    ]
    cohorts = {"all": {"quota": [{"default": {"cpu": 1}}]}}
    world = World(
        {
            "flavors": ["default"],
            "cohorts": cohorts,
            "clusterQueues": queues,
            "workloads": workloads,
            "now": 45 * MINUTE,
        }
    )
    run_cycle(world, 45 * MINUTE)
    assert running(world) == {"old"}


def test_the_configuration_has_the_rule_of_queues_without_the_annotation() -> None:
    aging = {"every": "10m", "atMost": 50}
    jobs = [{"queue": "q", **job("old", 100, 0)}, {"queue": "q", **job("new", 104, 45 * MINUTE)}]
    for annotation, want in ((None, ["old", "new"]), ("None", ["new", "old"]), ("?", ["old", "new"])):
        queues = {"q": {"quota": [{"default": {"cpu": 0}}], **annotated(annotation)}}
        world = World(
            {
                "config": {"priorityAging": aging},
                "flavors": ["default"],
                "clusterQueues": queues,
                "workloads": jobs,
                "now": 50 * MINUTE,
            }
        )
        assert order(world) == want


def test_the_explanation_of_a_pending_workload_has_both_priorities() -> None:
    world = a_world(job("old", 100, 0), job("new", 106, 39 * MINUTE), cpu=0, aging=TEN_MINUTES)
    run_cycle(world, 40 * MINUTE)
    workload = world.workloads["old"]
    explanation = explain_workload(
        world.state, workload, run(pending_facts(world.state, workload.metadata.key))
    )
    text = "priority 100, 104 with 40 minutes of waiting"
    assert explanation.priority == RaisedPriority(own=100, raised=104, since=at_epoch(0), text=text)
    assert summary_of(explanation, workload.metadata).priority == explanation.priority
    (facts, *_) = explanation_sections(explanation, world.now)
    assert isinstance(facts, Fields)
    assert ("Priority", text) in facts.rows


def test_without_a_rule_an_explanation_has_no_other_priority() -> None:
    world = a_world(job("old", 100, 0), cpu=0)
    run_cycle(world, 40 * MINUTE)
    facts = run(pending_facts(world.state, Key("default", "old")))
    assert explain_workload(world.state, world.workloads["old"], facts).priority is None


def test_a_model_without_cycles_orders_by_waiting_too() -> None:
    """A follower, or a dashboard, shows positions and decides nothing."""
    rule = "{every: 50s, step: 3, atMost: 6}"
    world = a_world(job("old", 0, 0), job("new", 3, 100), now=100, cpu=0, aging=rule)
    assert order(world) == ["old", "new"]
    world.state.put_workload(world.workloads["old"], 200.0)
    assert order(world) == ["new", "old"]


def test_an_update_of_the_annotation_orders_the_queue_anew() -> None:
    world = a_world(job("old", 100, 0), job("new", 104, 45 * MINUTE), now=50 * MINUTE, cpu=0)
    run_cycle(world, 50 * MINUTE)
    assert order(world) == ["new", "old"]
    for rule, want in ((TEN_MINUTES, ["old", "new"]), (None, ["new", "old"])):
        world.run({"update": {"clusterQueues": {"q": {"annotations": {}, **annotated(rule)}}}})
        run_cycle(world, 50 * MINUTE)
        assert order(world) == want


@pytest.mark.parametrize(
    ("rule", "evicted"),
    [
        pytest.param("{every: 1s, atMost: 5}", True, id="the planned one comes first by waiting"),
        pytest.param("None", False, id="the other one has the higher priority"),
    ],
)
def test_what_passed_a_planned_workload_by_waiting_is_evicted_for_an_overrun(
    rule: str, evicted: bool
) -> None:
    annotations = {"backfill": "EASY", "on-overrun": "Evict", "priority-aging": rule}
    queues = {"q": {"quota": [{"default": {"cpu": 8}}], "annotations": annotations}}
    four: Json = {"queue": "q", "requests": {"cpu": 4}}
    jobs = [
        {**job("other", 9, 0, maximumExecutionTimeSeconds=60), **four},
        {**job("large", 0, 1), **four, "requests": {"cpu": 8}},
        {**job("short", 2, 9), **four, "create": "later"},
    ]
    world = World({"flavors": ["default"], "clusterQueues": queues, "workloads": jobs, "now": 10})
    world.state.set_learned_bounds({WorkKind(("default", "q")): 50.0})
    run_cycle(world, 10)
    world.create("short")
    world.settle()
    run_cycle(world, 11)
    assert running(world) == {"other", "short"}
    world.run({"finish": ["other"]})
    run_cycle(world, 72)
    run_cycle(world, 73)
    condition = find_condition(world.workloads["short"].status.conditions, "Evicted")
    assert (condition is not None) is evicted


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("{every: 10m, step: 2, atMost: 50, alsoPreempts: true}", None),
        (json.dumps({"every": "1h", "atMost": 5}), None),
        ("None", None),
        ("10m", f"{ANNOTATION}: '10m' is not a mapping of fields"),
        (
            "{every: 10, atMost: 5}",
            f"{ANNOTATION}.every: 10 is not text (put it in quotes)",
        ),
        (
            "{every: 100ms, atMost: 5}",
            f"{ANNOTATION}.every: '100ms' is too short, must be at least 1s",
        ),
        (
            "{every: 1500ms, atMost: 5}",
            f"{ANNOTATION}.every: '1500ms' is not a number of whole seconds (write 10m, 1h30m or 90s)",
        ),
        (
            "{every: 10m, step: 0, atMost: 5}",
            f"{ANNOTATION}.step: 0 is out of range, must be 1 to 1000000000",
        ),
        (
            "{every: 10m}",
            f"{ANNOTATION}.atMost: is missing (write {{every: 10m, step: 1, atMost: 50}})",
        ),
        (
            "{every: 10m, at most: 50, atMost: 50}",
            f"{ANNOTATION}[at most]: 50 is in an unknown field (did you mean atMost?)",
        ),
    ],
)
def test_the_annotation_is_checked(text: str, want: str | None) -> None:
    default = PriorityAging(every_s=1, at_most=1)
    rule, findings = annotated_aging(text, default)
    assert [str(finding).removeprefix("line 1: ") for finding in findings] == ([] if want is None else [want])
    assert (rule is default) is (want is not None)


def test_an_invalid_annotation_is_shown_on_its_queue_alone() -> None:
    world = a_world(job("w", 0, 0), aging="{every: soon, atMost: 5}")
    world.given["clusterQueues"]["other"] = {"quota": [{"default": {"cpu": 1}}]}
    world.put_cluster_queue("other")
    shown = {
        name: condition.message
        for name in ("q", "other")
        for condition in world.state.cluster_queue_status(name, 0).conditions
    }
    assert shown == {
        "q": f"Can admit new workloads; without effect: {ANNOTATION}.every: 'soon' "
        "is not a duration (write 10m, 1h30m or 500ms)",
        "other": "Can admit new workloads",
    }
    run_cycle(world, 1)
    assert running(world) == {"w"}


def test_a_hostile_annotation_is_read_in_bounded_time() -> None:
    _, (finding,) = annotated_aging("[" * 100_000, None)
    assert finding.rule.startswith("is longer than 500 characters")
    for text in ("[" * 400, "{a: &a [x, x], b: [*a, *a]}", "every: \x00", "- 1\n---\n- 2", ""):
        assert annotated_aging(text, None)[1]
    levels = [f"{name}: &{name} [{', '.join([f'*{of}'] * 10)}]" for of, name in pairwise("abcdefg")]
    _, (finding,) = annotated_aging(f"{{a: &a [1], {', '.join(levels)}}}", None)  # a million values
    assert finding.rule.startswith("has an anchor")


def test_the_section_of_the_configuration_has_the_same_fields() -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\npriorityAging: {}"
    loaded = load_configuration(text.format("{every: 10m, step: 2, atMost: 8, alsoPreempts: true}"))
    assert loaded.configuration.priority_aging == PriorityAging(
        every_s=600, step=2, at_most=8, also_preempts=True
    )
    assert load_configuration(text.replace("{}", "null")).configuration.priority_aging is None


def test_a_workload_that_loses_its_rank_begins_to_wait_again() -> None:
    """Kueue's rule of the queue-order timestamp says since when a workload waits."""
    world = a_world(job("w", 0, 0), now=MINUTE, cpu=0, aging="{every: 10s, atMost: 50}")
    pending = world.state.ledger.cluster_queues["q"].pending

    def raised() -> tuple[int, float]:
        return pending.order(world.state.ledger.entries[Key("default", "w")])[:2]

    assert raised() == (-6, 0)
    for reason, want in (("Preempted", (-6, 0)), ("PodsReadyTimeout", (-1, 50))):
        evicted = new_condition("Evicted", "True", reason, "", 50)
        status = msgspec.structs.replace(world.workloads["w"].status, conditions=(evicted,))
        world.put_status("w", status)
        assert raised() == want
