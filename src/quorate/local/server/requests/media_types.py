"""Content negotiation of responses, and parsing of request bodies."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec
import yaml

from quorate.api.codec import Json
from quorate.local.objects.errors import StatusError, bad_request
from quorate.local.objects.nesting import MAX_DEPTH, exceeds_depth
from quorate.local.objects.protobuf import envelope
from quorate.local.server.requests.yaml_bodies import read_yaml, write_yaml

APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
PATCHES = (APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)
PATCHES_OF_CUSTOM_RESOURCES = PATCHES[:-1]
JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
SUPPORTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


class Representation(Enum):
    """The representations in which an object can be returned."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


@dataclass(frozen=True, slots=True)
class AcceptedMediaType:
    """The negotiated representation, its API version (v1 or v1beta1), and the media type."""

    representation: Representation = Representation.OBJECT
    version: str = "v1"
    media_type: str = JSON

    @property
    def is_stored_form(self) -> bool:
        """True for objects in JSON, which the store has."""
        return self.representation is Representation.OBJECT and self.media_type == JSON

    @property
    def stream_type(self) -> str:
        """The media type of a watch."""
        return f"{PROTOBUF};stream=watch" if self.media_type == PROTOBUF else JSON

    def encode(self, document: Json) -> bytes:
        """Return a document with `apiVersion` and `kind`."""
        if self.media_type == PROTOBUF:
            return envelope.write_body(document)
        if self.media_type == YAML:
            return write_yaml(document)
        return msgspec.json.encode(document)


@lru_cache(maxsize=256)  # a client sends the same header with every request
def negotiate(header: str, *, protobuf: bool, table: bool = True) -> AcceptedMediaType:
    """Return the first choice of an Accept header that is supported.

    ``protobuf``: objects of the requested kind have that format.  Metadata always has it, tables never.
    ``table``: the requested kind has tables.
    Raises StatusError(406).
    """
    error = not_acceptable()
    error.details = {}  # empty, unless only the representation is unsupported
    for media_type, parameters in parse_accept(header):
        encoding = _ENCODINGS.get(media_type)
        if encoding is None:
            continue
        error.details = None
        representation = Representation.__members__.get(_REPRESENTATIONS.get(parameters.get("as", ""), ""))
        version = parameters.get("v", "v1")
        is_supported = parameters.get("g", "meta.k8s.io") == "meta.k8s.io" and version in ("v1", "v1beta1")
        is_supported &= table or representation is not Representation.TABLE
        if encoding == PROTOBUF:
            is_object = representation is Representation.OBJECT
            is_supported &= representation is not Representation.TABLE and (protobuf or not is_object)
        if representation is not None and is_supported:
            return AcceptedMediaType(representation, version, encoding)
    raise error


@lru_cache(maxsize=256)
def negotiate_error(header: str) -> AcceptedMediaType:
    """Return the format of errors: the first choice that is an object, else JSON."""
    for media_type, parameters in parse_accept(header):
        if media_type in _ENCODINGS and "as" not in parameters:
            return AcceptedMediaType(media_type=_ENCODINGS[media_type])
    return AcceptedMediaType()


_ENCODINGS = {
    "*/*": JSON,
    "application/*": JSON,
    JSON: JSON,
    YAML: YAML,
    "text/yaml": YAML,
    PROTOBUF: PROTOBUF,
}
_REPRESENTATIONS = {representation.value: representation.name for representation in Representation}


def not_acceptable() -> StatusError:
    message = f"only the following media types are accepted: {SUPPORTED}"
    return StatusError(406, "NotAcceptable", message)


def parse_accept(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the media types of an Accept header with their parameters, by descending quality."""
    parsed = [_parse_choice(part) for part in (header or "*/*").split(",")]
    yield from sorted(parsed, key=lambda choice: -_quality(choice[1].get("q", "1")))


def _parse_choice(part: str) -> tuple[str, dict[str, str]]:
    media_type, *parameters = (piece.strip() for piece in part.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    return media_type.lower(), {name.strip(): value.strip() for name, _, value in pairs}


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def body_media_type(content_type: str) -> str:
    """Return JSON, YAML or PROTOBUF.  Raises StatusError(415) for any other media type."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in ("", JSON, "*/*"):
        return JSON
    if media_type in (YAML, "application/x-yaml", "text/yaml"):
        return YAML
    if media_type == PROTOBUF:
        return PROTOBUF
    raise unsupported_media_type()


def unsupported_media_type() -> StatusError:
    message = f"the body of the request was in an unknown format - accepted media types include: {SUPPORTED}"
    return StatusError(415, "UnsupportedMediaType", message)


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """A parsed body: the document, and what to say of duplicate fields, of which the last one counts."""

    document: Any
    duplicates: tuple[str, ...] = ()
    is_yaml: bool = False

    @property
    def strict_findings(self) -> tuple[str, ...]:
        """Return the duplicates as strict validation reports them: all duplicates of YAML as one error."""
        if not self.is_yaml or not self.duplicates:
            return self.duplicates
        return ("yaml: unmarshal errors:\n  " + "\n  ".join(self.duplicates),)


def parse_json(data: bytes) -> ParsedBody:
    """Parse JSON.  Raises StatusError(400) for a syntax error, a too large number or too deep nesting."""
    if exceeds_depth(data):
        raise too_deep()
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(_syntax_error(data) or f"json parse error: {error}") from error
    if _LONG_NUMBER.search(data):
        document = _with_go_numbers(document)
    # Most clients write compact JSON.  If encoding gives the same bytes, no field was a duplicate.
    has_no_duplicates = msgspec.json.encode(document) == data
    paths = () if has_no_duplicates else tuple(_duplicate_fields(data))
    return ParsedBody(document, tuple(f'duplicate field "{path}"' for path in paths))


def too_deep() -> StatusError:
    return bad_request(f"json parse error: exceeded max depth of {MAX_DEPTH}")


_LONG_NUMBER = re.compile(rb"\d{19}")


def _with_go_numbers(value: Any) -> Any:
    """Return a value with integers beyond 64 bits as floats, as Go decodes them.

    Raises StatusError(400) for a number that is too large for a float.
    """
    match value:
        case dict():
            return {name: _with_go_numbers(part) for name, part in value.items()}
        case list():
            return [_with_go_numbers(part) for part in value]
        case int() if not -(1 << 63) <= value < 1 << 63:
            try:
                return float(value)
            except OverflowError as error:
                raise bad_request("json parse error: a number is out of the range of float64") from error
        case _:
            return value


def parse_yaml(data: bytes) -> ParsedBody:
    """Parse YAML.  Raises StatusError(400), also for aliases that make the document much larger."""
    if data[:1] == b"{":  # clients send most configurations as JSON, which is parsed much faster
        with suppress(StatusError):
            return parse_json(data)
    try:
        # Encode and decode as JSON, so that YAML dates become strings.
        document, duplicates = read_yaml(data)
        return ParsedBody(parse_json(msgspec.json.encode(document)).document, duplicates, is_yaml=True)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise bad_request(f"yaml parse error: {' '.join(str(error).split())}") from error


def _syntax_error(data: bytes) -> str:
    """Return the syntax error of a JSON text in kube-apiserver's words; empty if the text is valid."""
    try:
        json.loads(data)  # reports what it expected, and where
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc):
            return "unexpected end of JSON input"
        expected = _SYNTAX_ERRORS.get(error.msg.partition(" ")[2], "in JSON")
        return f"invalid character '{error.doc[error.pos]}' {expected}"
    except ValueError:  # not UTF-8, or an integer with thousands of digits
        pass
    return ""


_SYNTAX_ERRORS = {
    "value": "looking for beginning of value",
    "property name enclosed in double quotes": "looking for beginning of object key string",
    "':' delimiter": "after object key",
    "',' delimiter": "after value",
    "data": "after top-level value",
}


MAX_DUPLICATES = 100
"""the most duplicate fields of a map that are reported"""


def _duplicate_fields(data: bytes) -> Iterable[str]:
    """Return the paths of duplicate fields: ``data.a``, ``spec.containers[0].image``."""
    # Only the standard library's parser exposes the pairs before they become a dict.
    duplicates: dict[int, list[str]] = {}

    def collect(pairs: list[tuple[str, Any]]) -> Json:
        built = dict(pairs)
        if len(built) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            repeated = (name for name, count in counts.items() for _ in range(count - 1))
            duplicates[id(built)] = list(islice(repeated, MAX_DUPLICATES))
        return built

    document = json.loads(data, object_pairs_hook=collect)
    return _paths(document, duplicates, "") if duplicates else ()


def _paths(value: Any, duplicates: dict[int, list[str]], path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in duplicates.get(id(value), ()):
            yield f"{path}.{name}".lstrip(".")
        for name, inner in value.items():
            yield from _paths(inner, duplicates, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths(inner, duplicates, f"{path}[{index}]")
