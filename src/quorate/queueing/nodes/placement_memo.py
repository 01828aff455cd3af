"""Results of placements, kept until something changes that they depend on.

Many workloads of equal shape ask for places in the same state: the heads of a round, and those that wait for
quota, of which the pods could have places if no others had.
"""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

_MAX_SIZE: Final = 20_000  # domains of all results together, each of which counts at least as one

Result = TypeVar("Result")


class PlacementMemo(Generic[Result]):
    """Results by the identity of what was asked for, which is kept alive so that it stays unique."""

    def __init__(self) -> None:
        self._results: dict[tuple[object, ...], tuple[Sequence[object], Result]] = {}
        self._as_of = 0
        self._size = 0

    def get(self, key: tuple[object, ...], version: int) -> Result | None:
        """Return the result for ``key``, which contains identities; None if it is not known any more."""
        if self._as_of != version:
            self.clear()
            self._as_of = version
        found = self._results.get(key)
        return None if found is None else found[1]

    def put(self, key: tuple[object, ...], identified: Sequence[object], result: Result, size: int) -> None:
        """Keep a result for the version of the last ``get``; ``size`` is its number of domains."""
        self._size += 1 + size
        if self._size > _MAX_SIZE:
            self.clear()
        else:
            self._results[key] = identified, result

    def clear(self) -> None:
        self._results.clear()
        self._size = 0
