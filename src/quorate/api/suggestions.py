"""Suggestions for a name that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return `` (did you mean NAME?)`` with the most similar of ``names``; empty if none is similar."""
    near = get_close_matches(name, sorted(names), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
