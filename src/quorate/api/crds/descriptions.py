"""Descriptions of fields: texts of a YAML file, merged into the schemas of CustomResourceDefinitions."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import yaml

from quorate.api.codec import Json, convert

Texts = Mapping[str, Mapping[str, str]]

ROOT: Final = "root"
ANYWHERE: Final = "anywhere"


@lru_cache(maxsize=1)
def read_texts(text: str) -> Texts:
    """Return texts by section and path; sections are kinds (``group/kind``), ``root`` and ``anywhere``."""
    return convert(dict[str, dict[str, str]], yaml.load(text, Loader=yaml.CSafeLoader) or {})


def described(schema: Json, kind: str, texts: Texts, path: str = "") -> Json:
    """Return ``schema`` of ``kind`` (``group/kind``) with the descriptions that ``texts`` has."""
    result = dict(schema)
    if (found := source_of(kind, path, texts)) is not None:
        section, key = found
        result = {"description": texts[section][key], **result}
    for holder, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if holder in schema:
            result[holder] = described(schema[holder], kind, texts, path + mark)
    if "properties" in schema:
        result["properties"] = {
            name: described(inner, kind, texts, f"{path}.{name}" if path else name)
            for name, inner in schema["properties"].items()
        }
    return result


def source_of(kind: str, path: str, texts: Texts) -> tuple[str, str] | None:
    """Return section and path of the text for a field; None: there is none."""
    if path in texts.get(kind, {}):
        return kind, path
    if path in texts.get(ROOT, {}):
        return ROOT, path
    general = texts.get(ANYWHERE, {})
    return next(((ANYWHERE, end) for end in _ends(path) if end in general), None)


def _ends(path: str) -> Iterator[str]:
    """Yield the path and its ends at a field, the longest first."""
    while path:
        yield path
        path = path.partition(".")[2]
