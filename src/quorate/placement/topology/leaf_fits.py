"""How many pods of one request each leaf of a tree can hold, known without counting all leaves again.

A change of what pods use concerns a few leaves, and only these are counted again when the request is next
asked for.  A change of the nodes forgets everything.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from quorate.placement.topology.leaf_hosts import HostRequest
from quorate.placement.vectors import Mask, Vector

_MAX_LOG: Final = 2_048  # changes that are kept
_MAX_NUMBERS: Final = 500_000  # numbers of pods that are kept, of all requests together
_MAX_REQUESTS: Final = 256


# What the numbers depend on, beside the leaves; True: as if no pods had been placed in the topology.
FitKey = tuple[HostRequest, bool]


class LeafFit(msgspec.Struct):
    """The numbers of pods by column, of all leaves and in sum."""

    pods: Vector
    accepted: Mask  # by labels and taints
    total: int
    as_of: int  # the number of changes that ``pods`` contains


class LeafFits:
    """The requests that were asked for, and the columns that changed since."""

    def __init__(self) -> None:
        self._known: dict[FitKey, LeafFit] = {}
        self._log: list[int] = []  # columns
        self._forgotten = 0  # changes that are not in the log any more

    def note(self, column: int) -> None:
        """Read that a leaf has another free capacity."""
        if not self._known:
            return
        self._log.append(column)
        if len(self._log) > _MAX_LOG:
            half = len(self._log) // 2
            del self._log[:half]
            self._forgotten += half

    def clear(self) -> None:
        self._known.clear()
        self._log.clear()

    def get(
        self, key: FitKey, count_all: Callable[[], tuple[Vector, Mask]], count_one: Callable[[int], int]
    ) -> LeafFit:
        """Return the present numbers.

        ``count_all`` returns the pods and whether labels and taints accept them, by column; ``count_one``
        the pods of one column of which they do.
        """
        now = self._forgotten + len(self._log)
        fit = self._known.get(key)
        if fit is None or fit.as_of < self._forgotten:
            pods, accepted = count_all()
            fit = LeafFit(pods, accepted, int(pods.sum()), now)
            self._known[key] = fit
            if len(self._known) > max(2, min(_MAX_REQUESTS, _MAX_NUMBERS // max(1, len(pods)))):
                del self._known[next(iter(self._known))]
        elif fit.as_of < now:
            for column in set(self._log[fit.as_of - self._forgotten :]):
                if fit.accepted[column]:
                    number = count_one(column)
                    fit.total += number - int(fit.pods[column])
                    fit.pods[column] = number
            fit.as_of = now
        return fit
