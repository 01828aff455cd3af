"""Tables in HTML, which a notebook shows."""

from collections.abc import Iterable, Sequence
from html import escape


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers that are no integers have two decimals, and None is empty."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return escape(f"{value:.2f}" if isinstance(value, float) and value % 1 else f"{value}")
