"""EarliestStart in the simulator: with exact run times it chooses the cluster that starts the job first."""

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.api.explanation import StartAnswer
from quorate.controllers.multikueue.dispatch.dispatchers import (
    ClusterStart,
    NeverStarts,
    Nomination,
    NominationInput,
    StartsBy,
    StartsLater,
    UnknownStart,
    cluster_start,
    earliest_start,
)
from quorate.simulate.engine.clusters import Clusters
from quorate.simulate.estimates.cluster_starts import SimulatedStarts
from quorate.simulate.results.summary import waits_ms
from tests.simulate.worlds import queue, world_of

SIZES = [4, 8, 2]


def scenario(jobs: list[tuple[int, int, int]]) -> str:
    """Return jobs of (submitted, cpus, minutes), each of which declares its run time exactly."""
    lines = [
        f"- {{name: j{number}, queue: q, requests: {{cpu: {cpu}}}, runs: {minutes}m, "
        f"maximumExecutionTimeSeconds: {60 * minutes + 1}, arrivals: {{at: [{at}m]}}}}"
        for number, (at, cpu, minutes) in enumerate(sorted(jobs))
    ]
    return "jobs:\n" + "\n".join(lines) + "\n"


def start_of_last(jobs: list[tuple[int, int, int]], forced: str = "") -> tuple[str, float]:
    """Return where and after how many seconds the last job starts.

    No cluster is asked again.  ``forced``: the only cluster that is offered to the last job.
    """
    text = scenario(jobs)
    workers = {name: world_of(text, queue("q", cpu)) for name, cpu in zip("abc", SIZES, strict=True)}
    clusters = Clusters(world_of(text, queue("q", 1000)), workers)
    starts = SimulatedStarts(clusters, workers, plays=1, learns=False)
    last = f"j{len(jobs) - 1}-q-0"

    def dispatch(info: NominationInput) -> Nomination:
        if info.workload.metadata.name == last and forced:
            return Nomination(clusters=(forced,))
        return Nomination(clusters=earliest_start(info).clusters)

    run = clusters.run(dispatch, starts.starts_of)
    (where,) = [name for key, name in run.started_in.items() if key.name == last]
    return where, float(waits_ms(run.manager)[len(jobs) - 1]) / 1000


JOBS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 8), st.integers(1, 120)), min_size=1, max_size=10
)


@given(JOBS, st.integers(1, 8), st.integers(1, 60))
@settings(max_examples=10, deadline=None)
def test_the_chosen_cluster_starts_the_last_job_first(
    jobs: list[tuple[int, int, int]], cpu: int, minutes: int
) -> None:
    jobs = [*jobs, (60, cpu, minutes)]
    chosen, wait_s = start_of_last(jobs)
    for name, size in zip("abc", SIZES, strict=True):
        if size >= cpu:
            forced, other_s = start_of_last(jobs, name)
            assert forced == name
            assert wait_s <= other_s + len(jobs) + 1, (
                f"{name} starts it after {other_s} s, {chosen} after {wait_s} s"
            )


def test_an_answer_is_in_epoch_seconds() -> None:
    def answered(answer: StartAnswer) -> ClusterStart:
        return cluster_start(answer, 1000.0)

    assert answered(StartAnswer(starts="Within", p50_seconds=60.0)) == StartsBy(1060.0)
    assert answered(StartAnswer(starts="Within", p50_seconds=0.0, spare=2.5)) == StartsBy(1000.0, None, 2.5)
    assert answered(StartAnswer(starts="Later")) == StartsLater()
    assert answered(StartAnswer(starts="Never", reason="needs 8 cpus")) == NeverStarts("needs 8 cpus")
    assert answered(StartAnswer(starts="Unknown", reason="slow")) == UnknownStart("slow")
