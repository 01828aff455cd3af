"""Priority ageing in virtual time: steps come when they are due, and a run ends."""

from quorate.simulate.engine.player import play
from quorate.simulate.results.summary import compare
from tests.simulate.worlds import queue, run_of, spans, world_of

JOBS = """
jobs:
- {name: runs, queue: q, arrivals: {at: [0s]}, requests: {cpu: 1}, runs: 500s}
- {name: old, queue: q, arrivals: {at: [1s]}, requests: {cpu: 1}, runs: 10s}
- {name: new, queue: q, arrivals: {at: [399s]}, requests: {cpu: 1}, runs: 10s, priority: 3}
"""


def with_rule(rule: str) -> str:
    return f"clusterQueues: {{q: {{priorityAging: {rule}}}}}{JOBS}"


def test_a_job_that_waited_starts_before_a_later_one_of_higher_priority() -> None:
    """At 500 s, ``old`` has waited for five steps of the clock, and ``new`` for two."""
    plain = spans(run_of(JOBS.lstrip(), queue("q", 1)))
    assert (plain["new"], plain["old"]) == ((500, 510), (510, 520))
    aged = spans(run_of(with_rule("{every: 100s, step: 2, atMost: 50}"), queue("q", 1)))
    assert (aged["old"], aged["new"]) == ((500, 510), (510, 520))


def test_a_run_ends_although_a_job_that_ages_never_fits() -> None:
    never = "- {name: never, queue: q, requests: {cpu: 2}, runs: 1s}\n"
    run = run_of(with_rule("{every: 1m, atMost: 3}") + never, queue("q", 1))
    assert spans(run)["never"] == (-1, -1)
    assert run.ended_ms < 1_000_000


def test_a_comparison_says_which_jobs_start_earlier_with_the_rule() -> None:
    before, after = (
        play(world_of(text, queue("q", 1)))
        for text in (JOBS.lstrip(), with_rule("{every: 100s, step: 2, atMost: 50}"))
    )
    jobs = compare("aging", before, after).jobs
    assert (jobs.sooner, jobs.later) == (1, 1)
