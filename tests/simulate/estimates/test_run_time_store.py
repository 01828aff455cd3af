"""What is learned about run times: kinds of work, what they fall back to, and bounds."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.kueue import Workload
from quorate.queueing.planning.work_kinds import WorkKind, name_pattern
from quorate.simulate.estimates.run_time_store import RunTimeStore, ran_s

QUEUE = ("team", "training")
NIGHTLY = WorkKind(QUEUE, "Job", "nightly-#")
RARE = WorkKind(QUEUE, "Job", "rare")
ELSEWHERE = WorkKind(("team", "other"), "Job", "nightly-#")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("nightly-29384756", "nightly-#"),
        ("train-v2-7f9xk", "train-v#-*"),
        ("train-v3-2bqzl", "train-v#-*"),
        ("web-7d9f8c6b5-x2x4z", "web-*-*"),
        ("job-train-9a9a6", "job-train-*"),
        ("sweep-lr0.01-seed4", "sweep-lr#.#-seed#"),
        ("evaluate-model", "evaluate-model"),
        ("deadbeef", "deadbeef"),
        ("x7f9k", "x#f#k"),
        ("etl_2026-11-23", "etl_#-#-#"),
        ("", ""),
    ],
)
def test_names_that_differ_in_digits_and_generated_parts_have_one_pattern(name: str, pattern: str) -> None:
    assert name_pattern(name) == pattern


@pytest.mark.parametrize(
    ("seen", "asked", "best"),
    [
        pytest.param([(NIGHTLY, 60)] * 3, NIGHTLY, NIGHTLY, id="the kind"),
        pytest.param([(NIGHTLY, 60)] * 2, NIGHTLY, WorkKind(QUEUE), id="seen too rarely: its queue"),
        pytest.param([(NIGHTLY, 60)] * 3, RARE, WorkKind(QUEUE), id="never seen: its queue"),
        pytest.param(
            [(NIGHTLY, 60)] * 3, WorkKind(("team", "other"), "Job", "nightly-#"), None, id="unknown queue"
        ),
        pytest.param([], NIGHTLY, None, id="a cold start"),
    ],
)
def test_a_kind_falls_back_to_its_queue(
    seen: list[tuple[WorkKind, float]], asked: WorkKind, best: WorkKind | None
) -> None:
    store = RunTimeStore()
    for number, (kind, seconds) in enumerate(seen):
        store.add(kind, str(number), seconds)
    assert store.best_kind(asked) == best


def test_a_workload_that_is_listed_again_is_counted_once() -> None:
    store = RunTimeStore()
    for _ in range(2):
        store.add(NIGHTLY, "uid", 60)
    assert store.times_of(NIGHTLY) == store.everywhere() == (60,)


def test_the_kind_that_was_learned_least_recently_is_dropped() -> None:
    store = RunTimeStore(most_kinds=3)
    kinds = [WorkKind(QUEUE, "Job", name) for name in "abac"]
    for number, kind in enumerate(kinds):
        store.add(kind, str(number), number)
    assert [store.times_of(WorkKind(QUEUE, "Job", name)) for name in "abc"] == [(0, 2), (), (3,)]
    assert store.times_of(WorkKind(QUEUE)) == (0, 1, 2, 3)


@dataclass
class Reference:
    """All that was learned, in order."""

    runs: list[tuple[WorkKind, float]] = field(default_factory=list)

    def latest(self, kind: WorkKind, most: int) -> list[float]:
        found = [seconds for each, seconds in self.runs if kind in (each, WorkKind(each.queue))]
        return sorted(found[-most:])


KINDS = st.builds(
    WorkKind, st.tuples(st.just("team"), st.sampled_from("ab")), st.just("Job"), st.sampled_from("xyz")
)


@given(st.lists(st.tuples(KINDS, st.floats(0, 1e6)), max_size=60), st.integers(2, 9), st.integers(1, 5))
def test_memory_is_bounded_and_what_is_kept_are_the_latest(
    runs: list[tuple[WorkKind, float]], most_kinds: int, most_run_times: int
) -> None:
    store, reference = RunTimeStore(most_kinds, most_run_times), Reference(runs)
    for number, (kind, seconds) in enumerate(runs):
        store.add(kind, str(number), seconds)
    known = {kind for each, _ in runs for kind in (each, WorkKind(each.queue))}
    kept = {kind: store.times_of(kind) for kind in known if store.times_of(kind)}
    assert len(kept) == len(store) == min(most_kinds, len(known))
    for kind, times in kept.items():
        assert len(times) <= most_run_times
        if len(known) <= most_kinds:
            assert list(times) == reference.latest(kind, most_run_times)
    if runs:
        assert runs[-1][1] in kept[runs[-1][0]]


@pytest.mark.parametrize(
    ("granted", "seconds"),
    [
        pytest.param(8, 60.0, id="with all its pods"),
        pytest.param(4, 30.0, id="with half of them, it took twice as long"),
        pytest.param(None, 60.0, id="without a count"),
    ],
)
def test_a_run_time_is_that_of_all_pods(granted: int | None, seconds: float) -> None:
    finished = codec.convert(
        Workload,
        {
            "metadata": {"name": "a", "namespace": "team"},
            "spec": {"queueName": "training", "podSets": [{"name": "main", "count": 8}]},
            "status": {
                "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": granted}]},
                "conditions": [
                    {"type": "Admitted", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"},
                    {"type": "Finished", "status": "True", "lastTransitionTime": "2026-03-01T12:01:00Z"},
                ],
            },
        },
    )
    assert ran_s(finished) == seconds


def test_the_bound_of_a_kind_is_the_90th_percentile_of_enough_run_times() -> None:
    store, queue = RunTimeStore(), ("team", "training")
    often, rarely = WorkKind(queue, "Job", "often-#"), WorkKind(queue, "Job", "rarely")
    for number in range(10):
        store.add(often, str(number), 10.0 * (number + 1))
    store.add(rarely, "a", 1000.0)
    assert dict(store.bounds()) == {often: 90.0, WorkKind(queue): 100.0}
