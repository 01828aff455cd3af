"""The latest stored revision, in a file beside the database.

The database consists of two files.  Without the write-ahead log, or with a damaged one, SQLite opens what the
database had some time ago, which may be nothing, and reports no error.  This record tells that changes are
missing.
"""

import os
from contextlib import suppress
from pathlib import Path


class DatabaseUnusable(Exception):
    """The database cannot be opened or read, or changes that it had are missing; the text says what to do."""

    def __init__(self, file: Path | str, problem: str) -> None:
        super().__init__(file, problem)
        self.file, self.problem = file, problem

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"


class RevisionRecord:
    """The file that holds the latest stored revision; written after the database."""

    def __init__(self, path: Path, revision: int) -> None:
        """Open the record of a database that ends at ``revision``.

        Raises DatabaseUnusable if a later revision was stored before, and for a file that cannot be written.
        """
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
