"""The store of the history: samples and transitions in one SQLite file.

Samples get coarser with age: those of 10 s are kept for an hour, their means of 1 min for a day, and means
of 10 min for 30 days.  The number of rows is bounded as well; beyond it the oldest are deleted.  Values are
means over their interval, weighted by the number of samples.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from quorate.api import codec

VERSION: Final = 1
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS samples (
    subject TEXT NOT NULL,         -- "overview", or "queue/" and the name of a cluster queue
    interval_s INTEGER NOT NULL,
    at INTEGER NOT NULL,           -- the begin of the interval, epoch seconds
    samples INTEGER NOT NULL,      -- how many the means are of
    means TEXT NOT NULL,           -- JSON: numbers by name; a name without a number was not known
    PRIMARY KEY (subject, interval_s, at)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS samples_by_age ON samples (interval_s, at);
CREATE TABLE IF NOT EXISTS transitions (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    kind TEXT NOT NULL,            -- Workload or PodGroup
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    step TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    preemptor TEXT NOT NULL,
    cluster_queue TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS transitions_once ON transitions (uid, step, at, reason);
CREATE INDEX IF NOT EXISTS transitions_of_queue ON transitions (cluster_queue, at);
CREATE INDEX IF NOT EXISTS transitions_by_age ON transitions (at);
"""

RAW_S: Final = 10
# The intervals, and how long the samples of each are kept; those of one become samples of the next.
KEPT: Final = ((RAW_S, 3_600), (60, 86_400), (600, 30 * 86_400))
KEPT_S: Final = KEPT[-1][1]
MAX_SAMPLES: Final = 1_000_000
MAX_TRANSITIONS: Final = 500_000
_BATCH: Final = 20_000  # samples that one compaction reads of one interval


class StoredSample(NamedTuple):
    subject: str
    interval_s: int
    at: int
    samples: int
    means: dict[str, float]


class StoredTransition(NamedTuple):
    at: float
    kind: str
    namespace: str
    name: str
    uid: str
    step: str
    reason: str
    message: str
    preemptor: str
    cluster_queue: str


_COLUMNS: Final = ", ".join(StoredTransition._fields)


class HistoryStore:
    """One connection; each thread has a store of its own.  SQLite lets one write while others read."""

    def __init__(
        self, path: Path, *, max_samples: int = MAX_SAMPLES, max_transitions: int = MAX_TRANSITIONS
    ) -> None:
        """Open the file.  Raises ``sqlite3.DatabaseError`` if it is not one of this version."""
        self._max_samples, self._max_transitions = max_samples, max_transitions
        self._database = database = sqlite3.connect(path, timeout=10.0, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")  # the last second may be lost with the machine
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            database.close()
            raise sqlite3.DatabaseError(f"it has version {version}, this dashboard reads version {VERSION}")
        if version == 0:
            database.executescript(SCHEMA)
            database.execute(f"PRAGMA user_version = {VERSION}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._database.close()

    # Writes.

    def write(self, samples: Iterable[StoredSample], transitions: Iterable[StoredTransition]) -> None:
        """Add samples and transitions; a transition that is known already is added once."""
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._put_samples(samples)
            self._database.executemany(
                f"INSERT OR IGNORE INTO transitions ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                transitions,
            )

    def _put_samples(self, samples: Iterable[StoredSample]) -> None:
        self._database.executemany(
            "INSERT OR REPLACE INTO samples (subject, interval_s, at, samples, means) VALUES (?, ?, ?, ?, ?)",
            [(*sample[:4], codec.encode(sample.means).decode()) for sample in samples],
        )

    def compact(self, now: float) -> None:
        """Replace old samples by coarser ones, and delete what is older than 30 days or too much."""
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            for (interval_s, kept_s), (coarser_s, _) in pairwise(KEPT):
                self._coarsen(interval_s, coarser_s, int(now - kept_s) // coarser_s * coarser_s)
            self._database.execute("DELETE FROM samples WHERE at < ?", (now - KEPT_S,))
            self._database.execute("DELETE FROM transitions WHERE at < ?", (now - KEPT_S,))
            self._limit("samples", self._max_samples)
            self._limit("transitions", self._max_transitions)

    def _coarsen(self, interval_s: int, coarser_s: int, before: int) -> None:
        """Replace the samples of an interval that began before a moment by their means."""
        rows = self._rows("WHERE interval_s = ? AND at < ? ORDER BY at LIMIT ?", (interval_s, before, _BATCH))
        if not rows:
            return
        if len(rows) == _BATCH:  # the last interval may have more
            before = rows[-1].at // coarser_s * coarser_s
            rows = [row for row in rows if row.at < before]
        groups: dict[tuple[str, int], list[StoredSample]] = {}
        for row in rows:
            groups.setdefault((row.subject, row.at // coarser_s * coarser_s), []).append(row)
        coarser = {
            (row.subject, row.at): row
            for row in self._rows(
                "WHERE interval_s = ? AND at >= ? AND at < ?",
                (coarser_s, min((at for _, at in groups), default=before), before),
            )
        }
        means = []
        for (subject, at), group in groups.items():
            earlier = coarser.get((subject, at))
            means.append(mean_of(subject, coarser_s, at, [*group, *(() if earlier is None else (earlier,))]))
        self._put_samples(means)
        self._database.execute("DELETE FROM samples WHERE interval_s = ? AND at < ?", (interval_s, before))

    def _limit(self, table: str, most: int) -> None:
        (number,) = self._database.execute(f"SELECT count(*) FROM {table}").fetchone()
        if number <= most:
            return
        (moment,) = self._database.execute(
            f"SELECT at FROM {table} ORDER BY at LIMIT 1 OFFSET ?", (number - most - 1,)
        ).fetchone()
        self._database.execute(f"DELETE FROM {table} WHERE at <= ?", (moment,))

    # Reads.

    def samples(self, subjects: Sequence[str], since: float) -> list[StoredSample]:
        """Return the samples of some subjects that began at ``since`` or later, by time."""
        marks = ", ".join("?" * len(subjects))
        return self._rows(f"WHERE subject IN ({marks}) AND at >= ? ORDER BY at", (*subjects, since))

    def _rows(self, where: str, values: Sequence[Any]) -> list[StoredSample]:
        rows = self._database.execute(
            f"SELECT subject, interval_s, at, samples, means FROM samples {where}", values
        )
        return [
            StoredSample(subject, interval_s, at, samples, codec.decode(dict[str, float], means.encode()))
            for subject, interval_s, at, samples, means in rows
        ]

    def transitions(
        self,
        *,
        uid: str = "",
        cluster_queue: str = "",
        namespaces: Sequence[str] | None = None,
        steps: Sequence[str] = (),
        limit: int,
    ) -> list[StoredTransition]:
        """Return the latest transitions, newest first; an empty argument selects all.

        ``namespaces``: only of objects in these; None: in all.
        """
        conditions, values = ["1"], list[Any]()
        for column, value in (("uid", uid), ("cluster_queue", cluster_queue)):
            if value:
                conditions.append(f"{column} = ?")
                values.append(value)
        for column, several in (("namespace", namespaces), ("step", steps or None)):
            if several is not None:
                conditions.append(f"{column} IN ({', '.join('?' * len(several))})")
                values.extend(several)
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM transitions WHERE {' AND '.join(conditions)} "
            "ORDER BY at DESC, id DESC LIMIT ?",
            (*values, limit),
        )
        return [StoredTransition(*row) for row in rows]

    def counts(self) -> tuple[int, int]:
        """Return the numbers of samples and of transitions."""
        numbers = [
            self._database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("samples", "transitions")
        ]
        return numbers[0], numbers[1]


def mean_of(subject: str, interval_s: int, at: int, group: Sequence[StoredSample]) -> StoredSample:
    """Return the mean of samples; the mean of a number covers only the samples that have it."""
    sums: dict[str, float] = {}
    weights: dict[str, int] = {}
    for sample in group:
        for name, value in sample.means.items():
            sums[name] = sums.get(name, 0.0) + value * sample.samples
            weights[name] = weights.get(name, 0) + sample.samples
    means = {name: total / weights[name] for name, total in sums.items()}
    return StoredSample(subject, interval_s, at, sum(sample.samples for sample in group), means)
