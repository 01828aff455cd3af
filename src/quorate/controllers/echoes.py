"""Whether the copies in memory are newer than what was written last: there is no deciding on the past."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, assert_never

from quorate.api.meta import Key
from quorate.controllers.writes import Apply, Create, Delete, Patch, Write
from quorate.kube.clock import Clock
from quorate.kube.resources import HasMetadata, Resource

ECHO_S: Final = 5.0  # how late the watch may deliver our own writes before they are doubted

Version = tuple[str, str]  # a kind, and the resource version of one object of it; "" where there was none


def versions(resource: Resource[Any], objects: Sequence[HasMetadata]) -> set[Version]:
    """What of one kind a decision was made on."""
    if not objects:
        return {(resource.plural, "")}
    return {(resource.plural, each.metadata.resource_version) for each in objects}


class Echoes:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steady = clock.steady
        # What writes for each key have replaced, and until when, by the steady clock, to wait for their echo.
        self._outdated: dict[Key, tuple[frozenset[Version], float]] = {}

    def expect(self, key: Key, writes: Iterable[Write]) -> None:
        """``writes`` were made: the watch is going to tell."""
        self._note(key, writes, self._steady.now() + ECHO_S)

    def doubt(self, key: Key, writes: Iterable[Write]) -> None:
        """``writes`` failed, which they may have after they came about, or since others wrote before."""
        self._note(key, writes, self._steady.now())

    def _note(self, key: Key, writes: Iterable[Write], until: float) -> None:
        before, _ = self._outdated.get(key, _NOTHING)  # what is still seen of it, see ``awaited``
        self._outdated[key] = (before.union(map(_replaced, writes)), until)

    def awaited(self, key: Key, seen: Iterable[Version]) -> float | None:
        """Until when (epoch seconds) to wait, since we replaced something of what is ``seen``."""
        outdated, until = self._outdated.get(key, _NOTHING)
        if outdated.isdisjoint(seen):
            self._outdated.pop(key, None)
            return None
        left_s = until - self._steady.now()
        return self._clock.now() + left_s if left_s > 0 else None

    def are_doubted(self, key: Key, seen: Iterable[Version]) -> bool:
        """Whether something of what is ``seen`` may be the past, of which no watch has told: better ask."""
        outdated, until = self._outdated.get(key, _NOTHING)
        return until <= self._steady.now() and not outdated.isdisjoint(seen)

    def forget(self, key: Key) -> None:
        self._outdated.pop(key, None)


_NOTHING: Final[tuple[frozenset[Version], float]] = (frozenset(), 0.0)


def _replaced(write: Write) -> Version:
    match write:
        case Create(resource):
            return (resource.plural, "")
        case Patch(resource, _, version):
            return (resource.plural, version)
        case Delete(resource, _, uid):
            return (resource.plural, uid)
        case Apply(resource):
            return (resource.plural, "applied")  # whatever it was on, it may be done again
    assert_never(write)
