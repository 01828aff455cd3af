"""Results of simulations; times are in seconds after the start of the scenario."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from html import escape
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from msgspec import structs

from quorate.api.explanation import Explanation
from quorate.simulate.results.summary import Comparison, Summary, Waits
from quorate.simulate.results.tables import Columns, MissingExtra, number_of_rows

R = TypeVar("R")

_SHOWN_ROWS: Final = 20  # of a table in a notebook


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers that are no integers have two decimals, and None is empty."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return escape(f"{value:.2f}" if isinstance(value, float) and value % 1 else f"{value}")


class Explanations(tuple[Explanation, ...]):
    """Explanations of several objects."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the state of each object, the reason for it, and what would be enough, for a notebook."""
        return table(
            ("object", "state", "reason", "message", "enough"),
            [(row.object, row.state, row.code, row.message, "; ".join(row.enough)) for row in self],
        )


NO_EXPLANATIONS: Final = Explanations()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended; a job that has failed has ``explanations``."""

    job: str
    succeeded: bool
    message: str
    explanations: Explanations = NO_EXPLANATIONS

    def _repr_html_(self) -> str:
        """Return the end of the job, for a notebook."""
        result = "succeeded" if self.succeeded else "failed"
        return table(("job", "result", "message"), [(self.job, result, self.message)])


@dataclass(frozen=True, slots=True)
class Job:
    """When one simulated job was submitted, admitted and ended, with how many pods, and how it ended."""

    number: int  # in the order of submission
    job_class: str
    queue: str  # namespace/name of the LocalQueue
    submitted_s: float
    admitted_s: float | None  # for the first time; None: never
    ended_s: float | None
    wait_s: float | None  # until the first admission
    runs_s: float  # with all its pods and without interruption
    pods: int
    admissions: int
    preemptions: int
    evictions: int  # for another reason
    outcome: str  # waiting, running, succeeded, failed or deactivated


@dataclass(frozen=True, slots=True)
class Usage:
    """The mean use of one resource of one flavor in one cluster queue between two samples."""

    from_s: float
    until_s: float
    cluster_queue: str
    flavor: str
    resource: str
    amount: float  # in the unit of the resource: cpus, bytes, devices
    waiting: int  # jobs in all queues, at the end


class Table(Generic[R]):
    """Rows as dataclasses, or all at once as a DataFrame."""

    def __init__(self, row: type[R], columns: Columns) -> None:
        self._row = row
        self.columns = columns  # lists of text, and arrays in which NaN means never

    def __len__(self) -> int:
        return number_of_rows(self.columns)

    def __iter__(self) -> Iterator[R]:
        cells = [column if isinstance(column, list) else column.tolist() for column in self.columns.values()]
        for row in zip(*cells, strict=True):
            yield self._row(*(None if cell != cell else cell for cell in row))  # NaN is not equal to itself

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``.  Raises ``MissingExtra``, an ``ImportError``, without pandas."""
        return pandas("to_pandas()").DataFrame(self.columns)

    def _repr_html_(self) -> str:
        """Return the first rows, for a notebook."""
        rows = [astuple(row) for row in islice(self, _SHOWN_ROWS)]  # type: ignore[call-overload]
        return f"{table([*self.columns], rows)}<p>{len(self)} rows</p>"


@dataclass(frozen=True)
class Result:
    """One run: its figures, its jobs and its use of quota."""

    name: str
    summary: Summary
    jobs: Table[Job]
    usage: Table[Usage]
    comparison: Comparison | None  # with the scenario as it is; None for that one

    def _repr_html_(self) -> str:
        """Return the waits by class, for a notebook."""
        return _html_of_waits((self,))


@dataclass(frozen=True)
class Simulation:
    """The scenario as it is, and the runs with changes by their names."""

    scenario: Result
    changes: dict[str, Result]

    @cached_property
    def results(self) -> tuple[Result, ...]:
        return (self.scenario, *self.changes.values())

    def _repr_html_(self) -> str:
        """Return the waits of each run by class, for a notebook."""
        return _html_of_waits(self.results)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with the waits of each run by class.

        Raises ``MissingExtra``, an ``ImportError``, without pandas.
        """
        rows = [
            {"run": result.name, "class": name, **structs.asdict(waits)}
            for result in self.results
            for name, waits in result.summary.by_class.items()
        ]
        return pandas("to_pandas()").DataFrame(rows)


def _html_of_waits(results: Sequence[Result]) -> str:
    rows = [
        (result.name, name, *structs.astuple(waits))
        for result in results
        for name, waits in result.summary.by_class.items()
    ]
    return table(["run", "class", *Waits.__struct_fields__], rows)


def pandas(what: str) -> Any:
    """Return the module pandas.  Raises ``MissingExtra`` if it is not installed."""
    try:
        import pandas as module
    except ModuleNotFoundError as error:
        raise MissingExtra(what, "pandas", "pandas") from error
    return module
