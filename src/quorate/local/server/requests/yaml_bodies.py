"""YAML in bodies."""

from collections.abc import Iterator
from typing import Any, Final

import yaml
from yaml.representer import SafeRepresenter
from yaml.resolver import Resolver

from quorate.local.objects.nesting import MAX_DEPTH

MAX_YAML_PARTS: Final = 400_000
_CHARACTERS_OF_A_PART: Final = 16
_STRING: Final = "tag:yaml.org,2002:str"
_RESOLVER: Final[Any] = Resolver()
_REPRESENTER: Final = SafeRepresenter()


def read_yaml(data: bytes) -> tuple[Any, tuple[str, ...]]:
    """Return the document of a YAML text, and its duplicate keys, of which the last one counts.

    Raises yaml.YAMLError or ValueError, also for aliases that make the document much larger.
    """
    duplicates = tuple(duplicate_keys(data))
    document = yaml.load(data, Loader=yaml.CSafeLoader)
    if b"*" in data:
        _check_aliases(document, {})
    return document, duplicates


def write_yaml(document: Any) -> bytes:
    """Return the YAML text of a JSON document, with sorted keys.

    PyYAML's dumper would build a tree of nodes, which takes longer, 15 times more memory, and time of the
    garbage collector, which stops all threads.
    """
    text: str = yaml.emit(_document_events(document), Dumper=yaml.CSafeDumper)
    return text.encode()


def _document_events(document: Any) -> Iterator[yaml.Event]:
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)
    yield from _events(document)
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _events(value: Any) -> Iterator[yaml.Event]:
    match value:
        case dict():
            yield yaml.MappingStartEvent(None, None, True, flow_style=False)
            for name in sorted(value):
                yield from _events(name)
                yield from _events(value[name])
            yield yaml.MappingEndEvent()
        case list():
            yield yaml.SequenceStartEvent(None, None, True, flow_style=False)
            for item in value:
                yield from _events(item)
            yield yaml.SequenceEndEvent()
        case str():
            needs_no_quotes = _RESOLVER.resolve(yaml.ScalarNode, value, (True, False)) == _STRING
            yield yaml.ScalarEvent(None, None, (needs_no_quotes, True), value)
        case _:
            yield yaml.ScalarEvent(None, None, (True, False), _REPRESENTER.represent_data(value).value)


def duplicate_keys(data: bytes) -> Iterator[str]:
    """Yield a message for each duplicate key, with its line, in the words of kube-apiserver.

    Raises ValueError for too deep nesting, which exhausts the stack.
    """
    maps: list[_Keys] = []  # the open maps and lists
    events: Iterator[Any] = yaml.parse(data, Loader=yaml.CSafeLoader)
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            maps.pop()
            continue
        if not isinstance(event, yaml.NodeEvent) or event.start_mark is None:
            continue
        if maps and (key := maps[-1].duplicate(event)) is not None:
            yield f'line {event.start_mark.line + 1}: key "{key}" already set in map'
        if isinstance(event, yaml.CollectionStartEvent):
            maps.append(_Keys(is_map=isinstance(event, yaml.MappingStartEvent)))
            if len(maps) > MAX_DEPTH:
                raise ValueError(f"exceeded max depth of {MAX_DEPTH}")


class _Keys:
    """The keys of an open map; a list has none."""

    def __init__(self, *, is_map: bool) -> None:
        self._expects_key = is_map
        self._is_map = is_map
        self._known: set[str] = set()

    def duplicate(self, event: Any) -> str | None:
        """Return the next node of the collection if it is a key that it has already."""
        is_key = self._expects_key
        self._expects_key = self._is_map and not is_key
        if not is_key or not isinstance(event, yaml.ScalarEvent) or event.value == "<<":
            return None
        key = str(event.value)
        is_known = key in self._known
        self._known.add(key)
        return key if is_known else None


def _check_aliases(value: Any, sizes: dict[int, int]) -> int:
    """Return the number of parts of a value, with each alias counted in full.

    Raises ValueError if there are too many.  ``sizes``: by identity, of the lists and maps that are done.
    """
    if not isinstance(value, dict | list):
        return 1 + len(value) // _CHARACTERS_OF_A_PART if isinstance(value, str) else 1
    if id(value) not in sizes:
        parts = value.values() if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(_check_aliases(part, sizes) for part in parts)
        if sizes[id(value)] > MAX_YAML_PARTS:
            raise ValueError("document contains excessive aliasing")
    return sizes[id(value)]
