"""Interning of equal values, so that the many similar pods of a cluster share memory.

Each cache keeps the most recently used values only. That suffices, because the pods of a gang arrive one
after the other. A value that was evicted from the cache stays valid; it is only not shared with later ones.
Caches are bounded in bytes too: an object may have more than a megabyte, and thousands of different ones may
come and go.
"""

from collections.abc import Callable, ItemsView, Iterator, Mapping
from datetime import datetime
from functools import cache, lru_cache, partial
from sys import intern
from typing import Any, Final, Generic, TypeVar

import msgspec

from quorate.api import codec
from quorate.api.meta import Condition, ObjectMeta

CACHE_SIZE: Final = 4096  # entries per cache
CACHE_BYTES: Final = 8 * 2**20  # of content per cache; the values take a few times as much
_MAX_CACHED_TEXTS: Final = 4096  # characters of a mapping
_MAX_SHARED_FIELDS: Final = 64 * 1024  # bytes of JSON of one field, or of all fields of a struct
_MAX_SHARED_TEXT: Final = 256  # characters of a message
_MAX_COMPACT: Final = 64  # entries of a mapping in which a key is searched
_MAX_INTERNED: Final = 1024  # entries: to intern the texts of 20,000 takes 70 ms
# What describes an object: most of its changes keep it.
DESCRIPTION: Final = (
    "name", "namespace", "uid", "creation_timestamp", "labels", "annotations", "owner_references",
)  # fmt: skip
_EMPTY: Final[dict[str, Any]] = {}  # shared, because decoded values are never mutated


S = TypeVar("S", bound=msgspec.Struct)
V = TypeVar("V")


class ContentCache(Generic[V]):
    """The values in use of equal content.

    The content in use is in two generations. When the young one is half of the cache it becomes the old one,
    from which used values return to the young one and the rest is dropped.  Several threads may use it: large
    objects are processed beside the event loop.
    """

    def __init__(self, *, entries: int = CACHE_SIZE, size_bytes: int = CACHE_BYTES) -> None:
        self._most_entries = entries // 2
        self._most_bytes = size_bytes // 2
        self._young: dict[bytes, V] = {}
        self._young_bytes = 0
        self._old: dict[bytes, V] = {}

    def get_or(self, content: bytes, make: Callable[[], V]) -> V:
        """Return the interned value of ``content``; call ``make`` to create it on the first call."""
        value = self._young.get(content)
        if value is None:
            value = self._old.pop(content, None)
            if value is None:
                value = make()
            self._add(content, value)
        return value

    def _add(self, content: bytes, value: V) -> None:
        if len(self._young) >= self._most_entries or self._young_bytes + len(content) > self._most_bytes:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        if len(content) <= self._most_bytes:
            self._young[content] = value
            self._young_bytes += len(content)


class InternCache(ContentCache[V]):
    """Returns the value that ``make`` returned for equal content, or makes it."""

    def __init__(
        self, make: Callable[[bytes], V], *, entries: int = CACHE_SIZE, size_bytes: int = CACHE_BYTES
    ) -> None:
        super().__init__(entries=entries, size_bytes=size_bytes)
        self._make = make

    def __call__(self, content: bytes) -> V:
        value = self._young.get(content)
        return self.get_or(content, lambda: self._make(content)) if value is None else value


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
        return dict(self.items()) == other

    def items(self) -> ItemsView[str, str]:
        return dict(zip(self._keys, self._values, strict=True)).items()

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def __repr__(self) -> str:
        return repr(dict(self))


def intern_fields(holder: msgspec.Struct, types: Mapping[str, Any]) -> None:
    """Replace the named fields of ``holder`` with interned values; call it in ``__post_init__``.

    ``types`` gives the type of each field by name. Python already shares the empty tuple; empty mappings are
    shared here, and a large value is not shared with others, because that takes as long as a decoding.
    """
    for name, type_ in types.items():
        value = getattr(holder, name)
        if value:
            content = codec.encode(value)
            if len(content) <= _MAX_SHARED_FIELDS:
                msgspec.structs.force_setattr(holder, name, _cache_of(type_)(content))
        elif isinstance(value, dict):
            msgspec.structs.force_setattr(holder, name, _EMPTY)


class SharedStructs(Generic[S]):
    """The structs of one type by their content; ``types`` as of ``intern_fields``."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        self._types = types
        self._structs: ContentCache[S] = ContentCache()

    def shared(self, fresh: S) -> S:
        """Return a struct equal to ``fresh``, which was just decoded and which this may change.

        The fields of a large one are not shared with others, because that takes as long as a decoding.
        """
        content = codec.encode(fresh)

        def finished() -> S:
            if len(content) <= _MAX_SHARED_FIELDS:
                intern_fields(fresh, self._types)
            return fresh

        return self._structs.get_or(content, finished)


@cache
def _cache_of(type_: Any) -> InternCache[Any]:
    return InternCache(partial(codec.decode, type_))


def intern_strings(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return labels or annotations as a mapping with interned keys and values.

    Only one of many entries is a dict, in which each access takes the same time.
    """
    if not texts:
        return _EMPTY  # which is not encoded, as any default
    if len(texts) > _MAX_INTERNED:
        return dict(texts)
    if len(texts) > _MAX_COMPACT:
        return {intern(key): intern(value) for key, value in texts.items()}
    keys, values = tuple(texts), tuple(texts.values())
    if len("".join(keys)) + len("".join(values)) > _MAX_CACHED_TEXTS:
        return CompactMapping(tuple(map(intern, keys)), tuple(map(intern, values)))
    return _intern_mapping(keys, values)


@lru_cache(maxsize=CACHE_SIZE)
def _intern_mapping(keys: tuple[str, ...], values: tuple[str, ...]) -> CompactMapping:
    return CompactMapping(_intern_keys(keys), tuple(map(intern, values)))


@lru_cache(maxsize=CACHE_SIZE)
def _intern_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(intern, keys))


def share_unchanged_metadata(older: ObjectMeta, newer: ObjectMeta) -> bool:
    """Replace fields of ``newer`` that are equal in ``older``; return True if ``DESCRIPTION`` is equal.

    ``newer`` must not be shared yet. Indexes that keep the object's name or uid then keep no second copy of
    them.
    """
    are_equal = True
    for name in DESCRIPTION:
        value, newer_value = getattr(older, name), getattr(newer, name)
        if value is newer_value:
            continue
        if value == newer_value:
            msgspec.structs.force_setattr(newer, name, value)
        else:
            are_equal = False
    return are_equal


def identity_of(metadata: ObjectMeta) -> ObjectMeta:
    """Return name, namespace, uid, version and generation: what is kept of objects that are only followed."""
    return ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        labels=_EMPTY,  # otherwise each has a mapping of its own
        annotations=_EMPTY,
    )


def intern_metadata(metadata: ObjectMeta) -> bool:
    """Replace what ``metadata`` has in common with that of others; return False if that was done before."""
    if (
        metadata.labels is _EMPTY or type(metadata.labels) is CompactMapping
    ):  # not isinstance: Mapping is slow
        return False
    msgspec.structs.force_setattr(metadata, "namespace", intern(metadata.namespace))
    msgspec.structs.force_setattr(metadata, "labels", intern_strings(metadata.labels))
    msgspec.structs.force_setattr(metadata, "annotations", intern_strings(metadata.annotations))
    msgspec.structs.force_setattr(metadata, "finalizers", _shared_texts(metadata.finalizers))
    msgspec.structs.force_setattr(metadata, "creation_timestamp", intern_time(metadata.creation_timestamp))
    return True


def shared_conditions(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Return conditions equal to ``conditions``, which were just decoded, as other objects have them.

    Objects that change in the same second mostly have equal conditions.
    """
    for condition in conditions:
        if len(condition.message) > _MAX_SHARED_TEXT:
            for shared in conditions:
                _intern_condition(shared)
            return conditions
    return _interned_conditions(conditions)


@lru_cache(maxsize=CACHE_SIZE)
def _interned_conditions(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    for condition in conditions:
        _intern_condition(condition)
    return conditions


def _intern_condition(condition: Condition) -> None:
    """Replace the texts and the time of a condition, except a long message."""
    msgspec.structs.force_setattr(condition, "type", intern(condition.type))
    msgspec.structs.force_setattr(condition, "reason", intern(condition.reason))
    if len(condition.message) <= _MAX_SHARED_TEXT:
        msgspec.structs.force_setattr(condition, "message", _shared_text(condition.message))
    time = intern_time(condition.last_transition_time)
    msgspec.structs.force_setattr(condition, "last_transition_time", time)


@lru_cache(maxsize=CACHE_SIZE)
def _shared_text(text: str) -> str:
    return text


@lru_cache(maxsize=CACHE_SIZE)
def _shared_texts(texts: tuple[str, ...]) -> tuple[str, ...]:
    return texts


@lru_cache(maxsize=CACHE_SIZE)
def intern_time(moment: datetime | None) -> datetime | None:
    """Return an interned time.

    Times have a resolution of one second, so most pods of a gang have the same creation time.
    """
    return moment
