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
        # What the last writes for each key have replaced, and until when, by the steady clock, that counts.
        self._outdated: dict[Key, tuple[frozenset[Version], float]] = {}

    def expect(self, key: Key, writes: Iterable[Write]) -> None:
        self._outdated[key] = (frozenset(map(_replaced, writes)), self._steady.now() + ECHO_S)

    def awaited(self, key: Key, seen: Iterable[Version]) -> float | None:
        """Until when (epoch seconds) to wait, since we replaced something of what is ``seen``."""
        if key not in self._outdated:
            return None
        outdated, until = self._outdated[key]
        left_s = until - self._steady.now()
        if left_s <= 0:
            del self._outdated[key]
            return None
        return None if outdated.isdisjoint(seen) else self._clock.now() + left_s

    def forget(self, key: Key) -> None:
        self._outdated.pop(key, None)


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
