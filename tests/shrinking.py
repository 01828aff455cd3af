"""The smallest version of a world with a history that still fails, found by leaving out parts."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import yaml

Json = dict[str, Any]
Failure = Callable[[Json, list[Any]], str]  # what fails, of the given objects and the steps; empty: nothing


def smallest_failure(given: Json, steps: list[Any], failure: Failure) -> str:
    """Return the smallest given objects and steps that fail as those given, as YAML; empty if none fail."""
    text = failure(given, steps)
    if not text:
        return ""
    has_changed = True
    while has_changed:
        has_changed = False
        for smaller in _smaller(given, steps):
            if _kind(failure(*smaller)) == _kind(text):
                (given, steps), has_changed = smaller, True
                break
    content = {"failure": failure(given, steps), "given": given, "steps": steps}
    return yaml.dump(content, default_flow_style=None, sort_keys=False, width=110)


def _kind(failure: str) -> str:
    """Return the first word, which names a decision or an exception."""
    return failure.split(" ")[0]


def _smaller(given: Json, steps: list[Any]) -> Iterator[tuple[Json, list[Any]]]:
    for index in range(len(steps)):
        yield copy.deepcopy(given), copy.deepcopy(steps[:index] + steps[index + 1 :])
    for path in sorted(_paths(given), key=len):
        smaller = copy.deepcopy(given)
        parent: Any = smaller
        for key in path[:-1]:
            parent = parent[key]
        del parent[path[-1]]
        yield smaller, copy.deepcopy(steps)


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where something can be left out: entries of mappings, and of lists of mappings."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            if isinstance(value, dict) or isinstance(value[key], dict):
                yield (*above, key)
            yield from _paths(value[key], (*above, key))
