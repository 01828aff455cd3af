"""The store: coarser with age, bounded, each transition once, and the same after a restart."""

import sqlite3
from pathlib import Path

import pytest

from quorate.dashboard.history.store import HistoryStore, StoredSample, StoredTransition

DAY = 86_400
NOW = 100 * DAY


def a_sample(
    at: int, value: float, subject: str = "queue/q", interval_s: int = 10, samples: int = 1
) -> StoredSample:
    return StoredSample(subject, interval_s, at, samples, {"pending": value})


def a_transition(at: float, name: str = "w", step: str = "Evicted", **fields: str) -> StoredTransition:
    values = {
        "kind": "Workload", "namespace": "red", "uid": f"uid-{name}", "reason": "Preempted",
        "message": "", "preemptor": "", "cluster_queue": "q", **fields,
    }  # fmt: skip
    return StoredTransition(at=at, name=name, step=step, **values)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


def rows(store: HistoryStore, subject: str = "queue/q") -> list[tuple[int, int, int, float]]:
    """Return interval, age, number and value of each sample."""
    return [
        (each.interval_s, NOW - each.at, each.samples, each.means["pending"])
        for each in store.samples([subject], 0)
    ]


def test_samples_become_means_of_a_minute_after_an_hour_and_of_ten_minutes_after_a_day(path: Path) -> None:
    with HistoryStore(path) as store:
        old, young = NOW - 3_600, NOW - 3_540  # the minute that is an hour old, and the next one
        store.write([a_sample(old - 60 + second, second) for second in range(0, 60, 10)], ())
        store.write([a_sample(young, 7.0)], ())
        store.compact(NOW)
        assert rows(store) == [(60, 3_660, 6, 25.0), (10, 3_540, 1, 7.0)]
        store.compact(NOW)  # nothing is left to do
        assert rows(store) == [(60, 3_660, 6, 25.0), (10, 3_540, 1, 7.0)]
        store.compact(NOW + DAY - 3_600)
        assert rows(store) == [(600, 4_200, 6, 25.0), (60, 3_540, 1, 7.0)]


def test_a_mean_counts_what_was_compacted_before(path: Path) -> None:
    with HistoryStore(path) as store:
        at = NOW - 2 * DAY
        store.write(
            [
                a_sample(at, 10.0, interval_s=600, samples=30),
                a_sample(at + 60, 0.0, interval_s=60, samples=10),
            ],
            (),
        )
        store.compact(NOW)
        assert rows(store) == [(600, 2 * DAY, 40, 7.5)]


def test_a_number_that_some_samples_lack_is_the_mean_of_the_others(path: Path) -> None:
    with HistoryStore(path) as store:
        at = NOW - 7_200
        store.write([StoredSample("overview", 10, at, 1, {"pending": 2.0, "wait p50": 30.0}),
                     StoredSample("overview", 10, at + 10, 1, {"pending": 4.0})], ())  # fmt: skip
        store.compact(NOW)
        (found,) = store.samples(["overview"], 0)
        assert found.means == {"pending": 3.0, "wait p50": 30.0}


def test_what_is_older_than_thirty_days_is_deleted(path: Path) -> None:
    with HistoryStore(path) as store:
        store.write(
            [a_sample(NOW - 31 * DAY, 1.0, interval_s=600), a_sample(NOW - 29 * DAY, 1.0, interval_s=600)],
            [a_transition(NOW - 31 * DAY, "old"), a_transition(NOW - 29 * DAY, "kept")],
        )
        store.compact(NOW)
        assert [age for _, age, _, _ in rows(store)] == [29 * DAY]
        assert [each.name for each in store.transitions(limit=9)] == ["kept"]


def test_the_number_of_rows_is_bounded_and_the_oldest_are_deleted(path: Path) -> None:
    with HistoryStore(path, max_samples=100, max_transitions=10) as store:
        store.write(
            [a_sample(NOW - number * 10, number) for number in range(300)],
            [a_transition(NOW - number, f"w{number}") for number in range(50)],
        )
        store.compact(NOW)
        samples, transitions = store.counts()
        assert samples <= 100
        assert transitions == 10
        assert {each.name for each in store.transitions(limit=99)} == {f"w{number}" for number in range(10)}


def test_a_month_of_samples_of_ten_queues_has_a_bounded_number_of_rows(path: Path) -> None:
    """Coarser samples in, as time would make them: the sum of all three intervals is what is kept."""
    with HistoryStore(path) as store:
        for queue in range(10):
            subject = f"queue/{queue}"
            store.write(
                [a_sample(NOW - age, 1.0, subject, 600) for age in range(DAY, 40 * DAY, 600)]
                + [a_sample(NOW - age, 1.0, subject, 60) for age in range(3_600, DAY + 7_200, 60)]
                + [a_sample(NOW - age, 1.0, subject, 10) for age in range(0, 7_200, 10)],
                (),
            )
        store.compact(NOW)
        by_interval = {60: 0, 600: 0, 10: 0}
        for each in store.samples(["queue/3"], 0):
            by_interval[each.interval_s] += 1
        assert by_interval[10] <= 360 + 6
        assert by_interval[60] <= 1_440 + 10
        assert by_interval[600] <= 4_320 + 1


def test_a_transition_is_stored_once(path: Path) -> None:
    with HistoryStore(path) as store:
        store.write((), [a_transition(5.0), a_transition(5.0)])
        store.write((), [a_transition(5.0), a_transition(6.0)])
        assert [each.at for each in store.transitions(limit=9)] == [6.0, 5.0]


def test_transitions_are_selected_by_queue_namespace_step_and_object(path: Path) -> None:
    with HistoryStore(path) as store:
        store.write(
            (),
            [
                a_transition(1.0, "a"),
                a_transition(2.0, "b", namespace="blue"),
                a_transition(3.0, "c", cluster_queue="other"),
                a_transition(4.0, "d", "Admitted"),
            ],
        )

        def names(**selection: object) -> str:
            return "".join(each.name for each in store.transitions(limit=9, **selection))  # type: ignore[arg-type]

        assert names() == "dcba"
        assert names(cluster_queue="q") == "dba"
        assert names(namespaces=["blue"]) == "b"
        assert names(namespaces=[]) == ""
        assert names(steps=["Evicted"], namespaces=["red"]) == "ca"
        assert names(uid="uid-c") == "c"
        assert [each.name for each in store.transitions(limit=2)] == ["d", "c"]


def test_a_restart_finds_everything(path: Path) -> None:
    with HistoryStore(path) as store:
        store.write([a_sample(NOW, 3.0)], [a_transition(NOW)])
    with HistoryStore(path) as store:
        assert rows(store) == [(10, 0, 1, 3.0)]
        assert store.transitions(limit=9) == [a_transition(NOW)]


def test_a_file_of_another_version_is_refused(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(sqlite3.DatabaseError, match="version 99"):
        HistoryStore(path)
