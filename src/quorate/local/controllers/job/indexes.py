"""Sets of completion indexes, and the text in which a job's status carries them.

Source: the documentation of ``status.completedIndexes`` in batch/v1: increasing, separated by commas,
three or more in a row shortened to ``first-last``.
"""

from collections.abc import Iterable

IndexSet = frozenset[int]


def parse_indexes(text: str, completions: int) -> IndexSet:
    """The indexes named in ``text`` that are below ``completions``: an elastic job may have shrunk.

    Raises ``ValueError`` for what is no such text.
    """
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return frozenset(found)


def format_indexes(indexes: Iterable[int]) -> str:
    runs: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return ",".join(_run(first, last) for first, last in runs)


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if last - first > 1 else f"{first},{last}"
