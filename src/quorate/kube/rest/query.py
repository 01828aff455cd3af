"""Query strings of requests."""

import functools
from urllib.parse import urlencode


@functools.lru_cache(maxsize=64)
def encoded_query(query: tuple[tuple[str, str], ...]) -> str:
    """Return the query string; nearly all writes have the same one."""
    return urlencode(query)


def selectors_query(label_selector: str, field_selector: str) -> dict[str, str]:
    """Return the parameters of the selectors that are not empty."""
    both = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in both.items() if value}
