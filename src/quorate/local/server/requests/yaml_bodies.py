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


def read_yaml(data: bytes) -> Any:
    """Return the document of a YAML text.

    Raises yaml.YAMLError or ValueError, also for aliases that make the document much larger.
    """
    _check_depth(data)
    document = yaml.load(data, Loader=yaml.CSafeLoader)
    if b"*" in data:
        _check_aliases(document, {})
    return document


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


def _check_depth(data: bytes) -> None:
    """Raise ValueError for too deep nesting, which exhausts the stack."""
    depth = 0
    for event in yaml.parse(data, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ValueError(f"exceeded max depth of {MAX_DEPTH}")


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
