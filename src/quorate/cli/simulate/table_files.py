"""Tables as CSV and Parquet."""

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from quorate.inspect.errors import UsageError
from quorate.simulate.results.missing_extra import MissingExtra
from quorate.simulate.results.tables import Column, Columns

CSV: Final = ".csv"
PARQUET: Final = ".parquet"


def check_table_file(option: str, path: Path) -> None:
    """Raise ``UsageError`` if no table can be written to such a file, before anything is computed."""
    if path.suffix not in (CSV, PARQUET):
        raise UsageError(f"{option} {path}: is no {CSV} or {PARQUET} file (end its name with one of them)")
    if path.suffix == PARQUET:
        try:
            _pyarrow()
        except MissingExtra as error:
            raise UsageError(f"{option} {path}: {error}") from error


def write_table(option: str, path: Path, table: Columns) -> None:
    """Write a table to a file that ``check_table_file`` has accepted.  Raises ``UsageError``."""
    try:
        if path.suffix == PARQUET:
            pyarrow = _pyarrow()
            columns = {name: pyarrow.array(column, from_pandas=True) for name, column in table.items()}
            with path.open("wb") as file:
                _parquet().write_table(pyarrow.table(columns), file)
        else:
            path.write_text(csv_text(table), encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"{option} {path}: {(error.strerror or str(error)).lower()}") from error


def csv_text(table: Columns) -> str:
    """Return a table as CSV with a header; a cell of a time that never came is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*map(_cells, table.values()), strict=True))
    return text.getvalue()


def _cells(column: Column) -> Iterator[object]:
    for value in column if isinstance(column, list) else column.tolist():
        yield "" if isinstance(value, float) and math.isnan(value) else value


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise MissingExtra("Parquet", "pyarrow", "parquet") from error
    return pyarrow


def _parquet() -> Any:
    from pyarrow import parquet

    return parquet
