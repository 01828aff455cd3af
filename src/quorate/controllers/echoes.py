"""Whether the copies in memory are newer than what was written last: there is no deciding on the past."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, assert_never

from quorate.api.meta import Key
from quorate.controllers.writes import Apply, Create, Delete, Patch, Write
from quorate.kube.resources import HasMetadata, Resource

ECHO_S: Final = 5.0  # how late the watch may deliver our own writes before they are doubted

Version = tuple[str, str]  # a kind, and the resource version of one object of it; "" where there was none


def versions(resource: Resource[Any], objects: Sequence[HasMetadata]) -> set[Version]:
    """What of one kind a decision was made on."""
    if not objects:
        return {(resource.plural, "")}
    return {(resource.plural, each.metadata.resource_version) for each in objects}


class Echoes:
    def __init__(self) -> None:
        # What the last writes for each key have replaced, and until when, by a steady clock, that counts.
        self._outdated: dict[Key, tuple[frozenset[Version], float]] = {}

    def expect(self, key: Key, writes: Iterable[Write], now: float) -> None:
        self._outdated[key] = (frozenset(map(_replaced, writes)), now + ECHO_S)

    def awaited(self, key: Key, seen: Iterable[Version], now: float) -> float | None:
        """Until when to wait, since something of what is ``seen`` was replaced by ourselves."""
        outdated, until = self._outdated.get(key, (frozenset(), now))
        if now >= until:
            self._outdated.pop(key, None)
            return None
        return None if outdated.isdisjoint(seen) else until

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
