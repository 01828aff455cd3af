"""The files of the store: revisions in SQLite, and beside them a record of the latest revision.

The SQLite database consists of two files.  Without the write-ahead log, or with a damaged one, SQLite opens
what the database had some time ago, which may be nothing, and reports no error.  The record tells that
changes are missing.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from quorate.kube.log import logger

SCHEMA = """
CREATE TABLE IF NOT EXISTS revisions (
    revision   INTEGER PRIMARY KEY,
    resource   TEXT NOT NULL,        -- pods, jobs.batch
    namespace  TEXT NOT NULL,        -- empty: cluster-scoped
    name       TEXT NOT NULL,
    object     BLOB                  -- JSON without apiVersion and kind; NULL: deleted
);
CREATE TABLE IF NOT EXISTS compaction (
    revision   INTEGER NOT NULL      -- changes up to this revision are no longer kept
);
"""

Row: TypeAlias = tuple[int, str, str, str, bytes | None]
"""One row of ``revisions``."""


class Rows(NamedTuple):
    compacted: int
    revisions: Sequence[Row]


class DatabaseUnusable(Exception):
    """The database cannot be opened or read, or changes that it had are missing; the text says what to do."""

    def __init__(self, file: Path | str, problem: str) -> None:
        super().__init__(file, problem)
        self.file, self.problem = file, problem

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"


class StorageFailed(Exception):
    """The database cannot be written, for example because the disk is full; nothing was stored."""

    def __init__(self, path: Path | str, problem: str, is_full: bool) -> None:
        super().__init__(path, problem, is_full)
        self.path, self.problem, self.is_full = path, problem, is_full

    def __str__(self) -> str:
        remedy = "; make room there: what was stored before is intact" if self.is_full else ""
        return f"the object cannot be stored: {self.path}: {self.problem}{remedy}"


class Database:
    """The revisions in SQLite, which one thread reads and writes, and the record of the latest revision.

    With ``synchronous=NORMAL`` a crash of the process loses no write.  A power failure may lose the last
    writes but never their order: the log then ends earlier and has no gaps.
    """

    def __init__(self, path: Path | str) -> None:
        """Open a database, or create it.  ``path``: the file, or ":memory:".  Raises DatabaseUnusable."""
        self._path = path
        self.is_writable = True
        """False after a write that the database refused, until a write succeeds"""
        self._obsolete: list[tuple[int]] = []  # compacted revisions that are still in the database
        self._record: _RevisionRecord | None = None
        self._executor = ThreadPoolExecutor(1, "store")
        try:
            self._connection = self._executor.submit(_open, path).result()
        except sqlite3.Error as error:
            self._executor.shutdown()
            raise self.unusable(error) from error

    def read_rows(self) -> Rows:
        """Return the stored revisions in order.  Raises DatabaseUnusable."""
        try:
            return self._executor.submit(_read_rows, self._connection).result()
        except sqlite3.Error as error:
            raise self.unusable(error) from error

    def open_record(self, revision: int) -> None:
        """Open the record of a database that ends at ``revision``.

        Raises DatabaseUnusable if a later revision was stored before, and for a file that cannot be written.
        """
        if self._path != ":memory:":
            self._record = _RevisionRecord(Path(self._path).with_suffix(".revision"), revision)

    async def insert(self, rows: Sequence[Row]) -> None:
        """Store revisions, all or none, and record the last one.  Raises StorageFailed."""

        def insert() -> None:
            _insert_rows(self._connection, rows)
            if self._record is not None and rows:
                self._record.write(rows[-1][0])

        await self._run(insert)
        self.is_writable = True

    async def compact(self, compacted: int, obsolete: Sequence[tuple[int]]) -> None:
        """Delete obsolete revisions; if the database refuses that, the next compaction deletes them."""
        self._obsolete += obsolete
        with suppress(StorageFailed):
            await self._run(lambda: _delete_compacted(self._connection, compacted, self._obsolete))
            self._obsolete = []

    async def _run(self, write: Callable[[], None]) -> None:
        """Write in the thread; log the first failure until a write succeeds.  Raises StorageFailed."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, write)
        except sqlite3.Error as error:
            if self.is_writable:
                file, problem = str(self._path), str(error)
                logger(__name__).error("the database cannot be written", file=file, problem=problem)
            self.is_writable = False
            raise StorageFailed(self._path, str(error), _code(error) == sqlite3.SQLITE_FULL) from error

    def close(self) -> None:
        self._executor.submit(self._connection.close).result()
        self._executor.shutdown()
        if self._record is not None:
            self._record.close()

    def unusable(self, error: Exception) -> DatabaseUnusable:
        """Return the refusal of a database that raises an error: what is wrong, and what a user can do."""
        match _code(error):
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                advice = " (is there room on the disk?)"
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN:
                advice = " (this user must be allowed to write the file and its directory)"
            case _:
                advice = ": the file is damaged (restore it, or `quorate local reset` for an empty cluster)"
        return DatabaseUnusable(self._path, f"{error}{advice}")


def _code(error: Exception) -> int | None:
    """Return the primary error code of SQLite; None if the error has another cause."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


class _RevisionRecord:
    """The file that holds the latest stored revision; written after the database."""

    def __init__(self, path: Path, revision: int) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise DatabaseUnusable(path, (error.strerror or str(error)).lower()) from error
        stored = os.read(self._file, 20)
        if stored.isdigit() and int(stored) > revision:
            os.close(self._file)
            database = path.with_suffix(".db")
            missing = f"changes are missing: it ends at revision {revision}, and {int(stored)} was stored"
            remedy = f"put it back, or delete {path} to continue with what is left"
            raise DatabaseUnusable(database, f"{missing}; {database}-wal is missing or damaged ({remedy})")
        self.write(revision)

    def write(self, revision: int) -> None:
        """Overwrite the revision in place, which also a full disk allows; it stays behind if not."""
        with suppress(OSError):
            os.pwrite(self._file, b"%020d" % revision, 0)

    def close(self) -> None:
        os.close(self._file)


# The functions below run in the thread of the database.


def _open(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.executescript(SCHEMA)
    return connection


def _read_rows(connection: sqlite3.Connection) -> Rows:
    (compacted,) = connection.execute("SELECT coalesce(max(revision), 0) FROM compaction").fetchone()
    query = "SELECT revision, resource, namespace, name, object FROM revisions ORDER BY revision"
    return Rows(compacted, connection.execute(query).fetchall())


def _insert_rows(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    with connection:
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO revisions VALUES (?, ?, ?, ?, ?)", rows)


def _delete_compacted(connection: sqlite3.Connection, compacted: int, obsolete: Sequence[tuple[int]]) -> None:
    with connection:
        connection.execute("BEGIN")
        connection.execute("DELETE FROM compaction")
        connection.execute("INSERT INTO compaction VALUES (?)", (compacted,))
        connection.executemany("DELETE FROM revisions WHERE revision = ?", obsolete)
