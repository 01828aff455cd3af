"""Expectations: whether an informer's copies already reflect our own latest writes.

A decision made on a copy that is older than our own write would repeat or undo that write.  A plan writes
several objects and the next decision reads all of them, so it waits; ``own_writes`` knows the result of one
write to one object, on which a single patch can be decided at once.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, assert_never

from quorate.api.meta import Key
from quorate.kube.clock import Clock
from quorate.kube.limits import OWN_WRITE_TIMEOUT_S
from quorate.kube.resources import HasMetadata, Resource
from quorate.kube.writes import Apply, Create, Delete, Patch, Write

Version = tuple[str, str]  # a kind, and the resource version of one object of it; "" if there was no object


def versions(resource: Resource[Any], objects: Sequence[HasMetadata]) -> set[Version]:
    """Return the versions of one kind that a decision was made on."""
    if not objects:
        return {(resource.plural, "")}
    return {(resource.plural, obj.metadata.resource_version) for obj in objects}


class Expectations:
    """By key: the versions that our writes have replaced, until the watch delivers newer ones."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steady = clock.steady
        # Per key: replaced versions, and the steady time until which to wait for the watch.
        self._replaced: dict[Key, tuple[frozenset[Version], float]] = {}

    def expect(self, key: Key, writes: Iterable[Write], intermediate: Collection[Version] = ()) -> None:
        """Record that ``writes`` succeeded: the watch will deliver their results.

        ``intermediate``: versions that a write produced and a later one replaced.
        """
        self._record(key, writes, self._steady.now() + OWN_WRITE_TIMEOUT_S, intermediate)

    def doubt(self, key: Key, writes: Iterable[Write]) -> None:
        """Record that ``writes`` failed: they may have taken effect, or be too late."""
        self._record(key, writes, self._steady.now())

    def _record(
        self, key: Key, writes: Iterable[Write], until: float, intermediate: Collection[Version] = ()
    ) -> None:
        before, earlier = self._replaced.get(key, _NONE)  # pending_until drops them once no longer seen
        replaced = before.union(map(_replaced_version, writes), intermediate)
        self._replaced[key] = (replaced, max(until, earlier))  # one of several concurrent plans may fail

    def pending_until(self, key: Key, seen: Iterable[Version]) -> float | None:
        """Return until when (epoch seconds) to wait, because a write of ours replaced one of ``seen``.

        None: nothing in ``seen`` was replaced, or the watch did not deliver in time (see ``is_stale``).
        """
        replaced, until = self._replaced.get(key, _NONE)
        if replaced.isdisjoint(seen):
            self._replaced.pop(key, None)
            return None
        left_s = until - self._steady.now()
        return self._clock.now() + left_s if left_s > 0 else None

    def is_stale(self, key: Key, seen: Iterable[Version]) -> bool:
        """Return True if one of ``seen`` may be outdated and the object must be read from the API server."""
        replaced, until = self._replaced.get(key, _NONE)
        return until <= self._steady.now() and not replaced.isdisjoint(seen)

    def forget(self, key: Key) -> None:
        self._replaced.pop(key, None)


_NONE: Final[tuple[frozenset[Version], float]] = (frozenset(), 0.0)


def _replaced_version(write: Write) -> Version:
    match write:
        case Create(resource):
            return (resource.plural, "")
        case Patch(resource, _, version):
            return (resource.plural, version)
        case Delete(resource, _, uid):
            return (resource.plural, uid)
        case Apply(resource):
            return (resource.plural, "applied")  # applying twice is harmless, whatever the version
    assert_never(write)
