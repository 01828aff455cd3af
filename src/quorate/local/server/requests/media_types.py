"""Content negotiation: the form and format an answer is wanted in, and bodies read into JSON objects."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from quorate.local.objects import protobuf
from quorate.local.server.errors import StatusError, bad_request

Json = dict[str, Any]

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
KNOWN = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


class Form(Enum):
    """In which shape objects are answered."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the client takes: a form, its API version (v1 or v1beta1), and a format."""

    form: Form = Form.OBJECT
    version: str = "v1"
    media_type: str = JSON

    def encode(self, document: Json) -> bytes:
        if self.media_type == YAML:
            text: bytes = yaml.dump(document, Dumper=yaml.CSafeDumper, encoding="utf-8", sort_keys=True)
            return text
        return msgspec.json.encode(document)


@lru_cache(maxsize=256)  # a client sends the same one with each request
def accepted(header: str) -> Accepted:
    """The first choice of an Accept header that this server can serve.  Raises StatusError(406)."""
    refusal = not_acceptable()
    refusal.details = {}  # there, and empty, unless it is the form alone that is not served
    for media_type, parameters in choices(header):
        plain = {"*/*": JSON, "application/*": JSON, "text/yaml": YAML}.get(media_type, media_type)
        if plain not in (JSON, YAML):
            continue
        refusal.details = None
        form = Form.__members__.get(_FORM_NAMES.get(parameters.get("as", ""), ""))
        version = parameters.get("v", "v1")
        known = parameters.get("g", "meta.k8s.io") == "meta.k8s.io" and version in ("v1", "v1beta1")
        if form is not None and known:
            return Accepted(form, version, plain)
    raise refusal


_FORM_NAMES = {form.value: form.name for form in Form}


def not_acceptable() -> StatusError:
    message = f"only the following media types are accepted: {KNOWN}"
    return StatusError(406, "NotAcceptable", message)


def choices(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The media types of an Accept header with their parameters, the best liked first."""
    read = [_choice(part) for part in (header or "*/*").split(",")]
    yield from sorted(read, key=lambda choice: -_quality(choice[1].get("q", "1")))


def _choice(part: str) -> tuple[str, dict[str, str]]:
    media_type, *parameters = (piece.strip() for piece in part.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    return media_type.lower(), {name.strip(): value.strip() for name, _, value in pairs}


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def body_format(content_type: str) -> str:
    """JSON, YAML or PROTOBUF.  Raises StatusError(415) for anything else."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in ("", JSON, "*/*"):
        return JSON
    if media_type in (YAML, "application/x-yaml", "text/yaml"):
        return YAML
    if media_type == PROTOBUF:
        return PROTOBUF
    message = f"the body of the request was in an unknown format - accepted media types include: {KNOWN}"
    raise StatusError(415, "UnsupportedMediaType", message)


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it was written: the document, and the fields it names twice (the last one counts)."""

    document: Any
    duplicates: tuple[str, ...] = ()


def read_json(data: bytes) -> Body:
    """Raises StatusError(400) for what is no JSON, or nested deeper than anyone writes by hand."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(_syntax_error(data) or f"json parse error: {error}") from error
    except RecursionError as error:
        raise bad_request("json parse error: exceeded max depth") from error
    # Most clients write as this server would: what is written again as it was has lost no member.
    lost_none = msgspec.json.encode(document) == data
    return Body(document, () if lost_none else tuple(_duplicates(data)))


def read_protobuf(data: bytes) -> Body:
    """Raises StatusError(400) for a kind that is not read in this format, too."""
    try:
        return Body(protobuf.read(data))
    except protobuf.Malformed as error:
        raise bad_request(f"protobuf parse error: {error}") from error


def read_yaml(data: bytes) -> Body:
    try:
        document = yaml.load(data, Loader=yaml.CSafeLoader)
        # Dates and the like become the JSON that was meant.
        return Body(msgspec.json.decode(msgspec.json.encode(document)))
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, RecursionError) as error:
        raise bad_request(f"yaml parse error: {' '.join(str(error).split())}") from error


def _syntax_error(data: bytes) -> str:
    """What is wrong with a text that is no JSON, in kube-apiserver's words; empty if the text is JSON."""
    # The standard library says what it expected where.
    import json

    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc):
            return "unexpected end of JSON input"
        expected = _EXPECTED.get(error.msg.partition(" ")[2], "in JSON")
        return f"invalid character '{error.doc[error.pos]}' {expected}"
    except (UnicodeDecodeError, RecursionError):
        pass
    return ""


_EXPECTED = {
    "value": "looking for beginning of value",
    "property name enclosed in double quotes": "looking for beginning of object key string",
    "':' delimiter": "after object key",
    "',' delimiter": "after value",
    "data": "after top-level value",
}


def _duplicates(data: bytes) -> Iterable[str]:
    """Paths of the object members that are named more than once: ``data.a``, ``spec.containers[0].image``."""
    # Only the standard library's reader shows an object's members before they are one.
    doubled: dict[int, list[str]] = {}

    def members(pairs: list[tuple[str, Any]]) -> Json:
        built = dict(pairs)
        if len(built) != len(pairs):
            names = [name for name, _ in pairs]
            doubled[id(built)] = [name for index, name in enumerate(names) if name in names[:index]]
        return built

    document = json.loads(data, object_pairs_hook=members)
    return _paths(document, doubled, "") if doubled else ()


def _paths(value: Any, doubled: dict[int, list[str]], path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in doubled.get(id(value), ()):
            yield f"{path}.{name}".lstrip(".")
        for name, inner in value.items():
            yield from _paths(inner, doubled, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths(inner, doubled, f"{path}[{index}]")
