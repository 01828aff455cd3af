"""Suggestions for a name that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return `` (did you mean NAME?)`` with the most similar of ``names``; empty if none is similar."""
    near = similar_names(name, names, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def similar_names(name: str, names: Iterable[str], count: int) -> list[str]:
    """Return at most ``count`` of ``names`` that are similar to ``name``, the most similar first."""
    return get_close_matches(name, sorted(names), n=count)
