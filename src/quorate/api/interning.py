"""Equal values as one value: most pods of a cluster are alike, and a hundred thousand of them are in memory.

Only what was seen of late is remembered, which is enough: the pods of a gang come one after the other.  What
is forgotten is no longer shared with what comes later, and nothing else changes.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.meta import ObjectMeta

CACHE_SIZE: Final = 4096  # values of one kind
_LASTING_FIELDS: Final = ("name", "namespace", "uid", "creation_timestamp", "labels", "annotations")
_EMPTY: Final[dict[str, Any]] = {}  # nobody changes what was decoded


class CompactMapping(Mapping[str, str]):
    """A few words by key, in half the memory of a dict: of equal keys there is one tuple."""

    __slots__ = ("_keys", "_words")

    def __init__(self, keys: tuple[str, ...], words: tuple[str, ...]) -> None:
        self._keys = keys
        self._words = words

    def __getitem__(self, key: str) -> str:
        if key not in self._keys:
            raise KeyError(key)
        return self._words[self._keys.index(key)]

    def get(self, key: str, default: Any = None) -> Any:
        return self._words[self._keys.index(key)] if key in self._keys else default

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CompactMapping) and self._keys is other._keys:
            return self._words == other._words
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def __repr__(self) -> str:
        return repr(dict(self))


def intern_fields(holder: msgspec.Struct, types: Mapping[str, Any]) -> None:
    """Replace those fields of ``holder`` by equal ones that others have too; to be called as it is made.

    ``types`` are their types by name.  Of empty tuples there is one already; of empty mappings there is here.
    """
    for name, type_ in types.items():
        value = getattr(holder, name)
        if value:
            msgspec.structs.force_setattr(holder, name, _intern(type_, codec.encode(value)))
        elif isinstance(value, dict):
            msgspec.structs.force_setattr(holder, name, _EMPTY)


@lru_cache(maxsize=CACHE_SIZE)
def _intern(type_: Any, content: bytes) -> Any:
    return codec.decode(type_, content)


def intern_strings(texts: Mapping[str, str]) -> CompactMapping:
    """The same for labels and annotations, of which at least the keys and the words are shared."""
    return _intern_mapping(_intern_keys(tuple(texts)), tuple(map(intern, texts.values())))


_intern_mapping = lru_cache(maxsize=CACHE_SIZE)(CompactMapping)


@lru_cache(maxsize=CACHE_SIZE)
def _intern_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(intern, keys))


def share_unchanged_metadata(known: ObjectMeta, newer: ObjectMeta) -> None:
    """Let ``newer``, a version that nobody has seen yet, have what did not change from the ``known`` one.

    Whoever remembers the object by its name or its uid then does not keep a copy of them.
    """
    for name in _LASTING_FIELDS:
        value = getattr(known, name)
        if value == getattr(newer, name):
            msgspec.structs.force_setattr(newer, name, value)


@lru_cache(maxsize=CACHE_SIZE)
def intern_time(moment: datetime | None) -> datetime | None:
    """The same for times, which are told to the second: pods of a gang were mostly created at the same."""
    return moment
