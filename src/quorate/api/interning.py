"""Interning of equal values, so that the many similar pods of a cluster share memory.

Each cache keeps the most recently used values only. That suffices, because the pods of a gang arrive one
after the other. A value that was evicted from the cache stays valid; it is only not shared with later ones.
Caches are bounded in bytes too: an object may have more than a megabyte, and thousands of different ones may
come and go.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache, lru_cache, partial
from sys import intern
from typing import Any, Final, Generic, TypeVar

import msgspec

from quorate.api import codec
from quorate.api.meta import ObjectMeta

CACHE_SIZE: Final = 4096  # entries per cache
CACHE_BYTES: Final = 8 * 2**20  # of content per cache; the values take a few times as much
_MAX_CACHED_TEXTS: Final = 4096  # characters of a mapping
_LASTING_FIELDS: Final = ("name", "namespace", "uid", "creation_timestamp", "labels", "annotations")
_EMPTY: Final[dict[str, Any]] = {}  # shared, because decoded values are never mutated


V = TypeVar("V")


class InternCache(Generic[V]):
    """Returns the value that ``make`` returned for equal content, or makes it.

    The content in use is in two generations. When the young one is half of the cache it becomes the old one,
    from which used values return to the young one and the rest is dropped.
    """

    def __init__(
        self, make: Callable[[bytes], V], *, entries: int = CACHE_SIZE, size_bytes: int = CACHE_BYTES
    ) -> None:
        self._make = make
        self._most_entries = entries // 2
        self._most_bytes = size_bytes // 2
        self._young: dict[bytes, V] = {}
        self._young_bytes = 0
        self._old: dict[bytes, V] = {}

    def __call__(self, content: bytes) -> V:
        value = self._young.get(content)
        if value is None:
            value = self._old.pop(content, None)
            if value is None:
                value = self._make(content)
            self._add(content, value)
        return value

    def _add(self, content: bytes, value: V) -> None:
        if len(self._young) == self._most_entries or self._young_bytes + len(content) > self._most_bytes:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        if len(content) <= self._most_bytes:
            self._young[content] = value
            self._young_bytes += len(content)


class CompactMapping(Mapping[str, str]):
    """A small immutable mapping of strings with half the memory of a dict.

    Mappings with equal keys share one tuple of keys.
    """

    __slots__ = ("_keys", "_values")

    def __init__(self, keys: tuple[str, ...], values: tuple[str, ...]) -> None:
        self._keys = keys
        self._values = values

    def __getitem__(self, key: str) -> str:
        if key not in self._keys:
            raise KeyError(key)
        return self._values[self._keys.index(key)]

    def get(self, key: str, default: Any = None) -> Any:
        return self._values[self._keys.index(key)] if key in self._keys else default

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CompactMapping) and self._keys is other._keys:
            return self._values == other._values
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def __repr__(self) -> str:
        return repr(dict(self))


def intern_fields(holder: msgspec.Struct, types: Mapping[str, Any]) -> None:
    """Replace the named fields of ``holder`` with interned values; call it in ``__post_init__``.

    ``types`` gives the type of each field by name. Python already shares the empty tuple; empty mappings are
    shared here.
    """
    for name, type_ in types.items():
        value = getattr(holder, name)
        if value:
            msgspec.structs.force_setattr(holder, name, _cache_of(type_)(codec.encode(value)))
        elif isinstance(value, dict):
            msgspec.structs.force_setattr(holder, name, _EMPTY)


@cache
def _cache_of(type_: Any) -> InternCache[Any]:
    return InternCache(partial(codec.decode, type_))


def intern_strings(texts: Mapping[str, str]) -> CompactMapping:
    """Return labels or annotations as a mapping with interned keys and values."""
    keys, values = tuple(texts), tuple(map(intern, texts.values()))
    if sum(map(len, keys)) + sum(map(len, values)) > _MAX_CACHED_TEXTS:
        return CompactMapping(tuple(map(intern, keys)), values)
    return _intern_mapping(_intern_keys(keys), values)


_intern_mapping = lru_cache(maxsize=CACHE_SIZE)(CompactMapping)


@lru_cache(maxsize=CACHE_SIZE)
def _intern_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(intern, keys))


def share_unchanged_metadata(known: ObjectMeta, newer: ObjectMeta) -> None:
    """Replace fields of ``newer`` that are equal in ``known`` with the objects of ``known``.

    ``newer`` must not be shared yet. Indexes that keep the object's name or uid then keep no second copy of
    them.
    """
    for name in _LASTING_FIELDS:
        value = getattr(known, name)
        if value == getattr(newer, name):
            msgspec.structs.force_setattr(newer, name, value)


@lru_cache(maxsize=CACHE_SIZE)
def intern_time(moment: datetime | None) -> datetime | None:
    """Return an interned time.

    Times have a resolution of one second, so most pods of a gang have the same creation time.
    """
    return moment
