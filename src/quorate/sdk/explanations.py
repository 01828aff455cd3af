"""Why jobs are in their state, and the tables in HTML that a notebook shows of results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from quorate.api.explanation import Explanation


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
