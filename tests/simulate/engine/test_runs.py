"""What holds of every run: the same input gives the same output, and quota is kept."""

from collections.abc import Sequence
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from quorate.quota.amount import FlavorResource
from quorate.simulate.engine.player import play
from quorate.simulate.engine.records import NEVER, UsageRecords
from quorate.simulate.results.summary import compare, summarize
from tests.search import examples
from tests.simulate.worlds import queue, run_of, world_of

few = examples(12)
SHARED = """namespaceSelector: {}
  cohortName: all
  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}"""
SHORT = """- name: short
  queues: [%s]
  arrivals: {every: {choice: [10s, 20s]}, count: 30}
  requests: {cpu: 1}
  runs: {exponential: 1m}
"""
WIDE = """- name: wide
  queue: q
  priority: 5
  arrivals: {every: {choice: [1m, 2m]}, count: 6}
  pods: {choice: [2, 6]}
  minPods: 2
  requests: {cpu: 1}
  runs: {uniform: [1m, 3m]}
  stops: 2s
"""
QUEUES = (queue("q", 4, SHARED), queue("r", 4, SHARED))


def scenario(seed: int, local_queues: Sequence[str] = ("q", "r"), *, wide_first: bool = False) -> str:
    classes = (SHORT % ", ".join(local_queues), WIDE)
    return f"seed: {seed}\njobs:\n" + "".join(reversed(classes) if wide_first else classes)


@few
@given(st.integers(0, 1000), st.permutations(QUEUES), st.permutations(["q", "r"]), st.booleans())
def test_a_run_does_not_depend_on_the_order_of_its_input(
    seed: int, queues: list[str], local_queues: list[str], wide_first: bool
) -> None:
    first = run_of(scenario(seed), *QUEUES)
    second = run_of(scenario(seed, local_queues, wide_first=wide_first), *queues)
    assert summarize(first) == summarize(second)
    assert first.jobs.ended_ms == second.jobs.ended_ms
    assert first.transitions.job == second.transitions.job
    assert first.usage.samples == second.usage.samples


@few
@given(st.integers(0, 1000))
def test_all_jobs_end_and_the_cohort_never_uses_more_than_its_quota(seed: int) -> None:
    run = run_of(scenario(seed), *QUEUES)
    jobs = run.jobs
    assert NEVER not in jobs.ended_ms
    assert all(
        submitted <= admitted < ended
        for submitted, admitted, ended in zip(jobs.submitted_ms, jobs.admitted_ms, jobs.ended_ms, strict=True)
    )
    used = [sum(series) for series in zip(*run.usage.samples.values(), strict=True)]
    between = zip([0, *run.usage.sampled_ms], run.usage.sampled_ms, [0, *used], used, strict=False)
    assert all(after - before <= 8_000 * (end - start) for start, end, before, after in between)


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 9)), min_size=1, max_size=40))
def test_samples_are_exact_whatever_their_interval(changes: list[tuple[int, int]]) -> None:
    pair = FlavorResource("default", "cpu")
    usage = UsageRecords(1)
    now, integral, level = 0, 0, 0
    for gap, amount in changes:
        usage.advance(now + gap - 1, 0)
        integral += level * gap
        now, level = now + gap, level + amount
        usage.change("q", {pair: amount}, 1, now)
    usage.finish(now, 0)
    assert usage.samples["q", pair][-1] == integral
    assert list(accumulate(usage.sampled_ms, max)) == usage.sampled_ms


def test_more_quota_lets_jobs_start_sooner() -> None:
    four = "jobs: [{name: a, queue: q, requests: {cpu: 4}, runs: 10s, arrivals: {count: 4}}]"
    before, after = (play(world_of(four, queue("q", cpu))) for cpu in (4, 8))
    comparison = compare("more", before, after)
    assert (comparison.jobs.sooner, comparison.jobs.later) == (3, 0)
    assert (comparison.before.jobs.mean_s, comparison.after.jobs.mean_s) == (15, 5)
    assert comparison.by_queue["default/q"].after.slowdown == 1.5
