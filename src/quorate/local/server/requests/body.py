"""Decoding of request bodies into objects of the requested kind."""

import re

from quorate.api.codec import Json
from quorate.local.objects.errors import StatusError, bad_request, invalid, invalid_value
from quorate.local.objects.protobuf.envelope import open_envelope
from quorate.local.objects.protobuf.table import Malformed, find_message
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests import media_types
from quorate.local.server.requests.context import RequestContext

SCHEME = 'k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'


async def read_object(context: RequestContext, kind: Kind) -> Json:
    """Decode the body as ``decode_object`` does, a large one in a thread."""
    return await context.compute(context.body_size, decode_object, context, kind)


def decode_object(context: RequestContext, kind: Kind) -> Json:
    """Decode the body into an object of the kind, without unknown fields.

    Raises StatusError: 415, 400.  Findings of field validation become warnings or, if it is strict, an error.
    """
    strictness = field_validation(context)
    body = _parse(context, kind)
    obj = body.document
    if kind.custom:
        _check_custom_version(obj, kind)
    else:
        _check_version(obj, kind)
    obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
    decoded = kind.strategy.decode(obj)
    duplicates = body.strict_findings if strictness == "Strict" else body.duplicates
    findings = [*decoded.warnings, *duplicates]
    report_findings(
        context,
        strictness,
        findings,
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}',
    )
    return decoded.object


def report_findings(context: RequestContext, strictness: str, findings: list[str], problem: str) -> None:
    """Report unknown and duplicate fields as an error, as warnings, or not at all."""
    if strictness == "Strict" and findings:
        raise bad_request(f"{problem}: strict decoding error: {', '.join(findings)}")
    if strictness == "Warn":
        context.warnings.extend(findings)


def field_validation(context: RequestContext) -> str:
    """Return the fieldValidation option: Strict, Warn or Ignore."""
    return context.query.get("fieldValidation") or "Warn"


def _parse(context: RequestContext, kind: Kind) -> media_types.ParsedBody:
    media_type = media_types.body_media_type(context.content_type)
    if media_type == media_types.PROTOBUF:
        return media_types.ParsedBody(_parse_protobuf(context.body, kind))
    parse = media_types.parse_yaml if media_type == media_types.YAML else media_types.parse_json
    try:
        body = parse(context.body)
    except StatusError as error:
        raise _unrecognized(kind, f"couldn't get version/kind; {error.message}", context.body) from error
    if not isinstance(body.document, dict):
        problem = "couldn't get version/kind; json parse error: not an object"
        raise _unrecognized(kind, problem, context.body)
    return body


def _parse_protobuf(body: bytes, kind: Kind) -> Json:
    """Return the object of a body.  Raises StatusError: 415 for a kind without this format, 400."""
    if find_message(kind.api_version, kind.kind) is None:
        raise media_types.unsupported_media_type()
    try:
        envelope = open_envelope(body)
    except Malformed as error:
        raise _unrecognized(kind, str(error), body) from error
    _check_version({"apiVersion": envelope.api_version, "kind": envelope.kind}, kind)
    try:
        return envelope._replace(api_version=kind.api_version, kind=kind.kind).read()
    except Malformed as error:
        problem = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{problem}: {error}") from error


def _unrecognized(kind: Kind, problem: str, body: bytes) -> StatusError:
    message = f"the object provided is unrecognized (must be of type {kind.kind}): {problem}"
    return bad_request(f"{message} ({_excerpt(body)})")


def _excerpt(body: bytes) -> str:
    if not body:
        return "<empty>"
    text = body[:100].decode("utf-8", "replace")
    return text if text.isprintable() else body[:50].hex()


def _check_version(obj: Json, kind: Kind) -> None:
    api_version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    if not isinstance(api_version, str) or not isinstance(name, str):
        raise bad_request("couldn't get version/kind; json parse error: apiVersion and kind must be strings")
    api_version, name = api_version or kind.api_version, name or kind.kind
    if (api_version, name) == (kind.api_version, kind.kind):
        return
    version = api_version.rpartition("/")[2]
    problem = f'{name} in version "{version}" cannot be handled as a {kind.kind}'
    if re.fullmatch(r"v\d\w*", version) and name in _REGISTERED_KINDS and api_version == kind.api_version:
        raise bad_request(
            f"{problem}: converting ({version}.{name}) to (core.{kind.kind}): unknown conversion"
        )
    raise bad_request(
        f'{problem}: no kind "{name}" is registered for version "{api_version}" in scheme "{SCHEME}'
    )


def _check_custom_version(obj: Json, kind: Kind) -> None:
    api_version, name = obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind
    if api_version != kind.api_version:
        data = f"the API version in the data ({api_version})"
        raise bad_request(f"{data} does not match the expected API version ({kind.api_version})")
    if name != kind.kind:
        cause = invalid_value("kind", name, f"must be {kind.kind}")
        raise invalid(kind.group, name, (obj.get("metadata") or {}).get("name", ""), [cause])


_REGISTERED_KINDS = frozenset(
    {"Secret", "ConfigMap", "Pod", "Service", "Node", "Namespace", "ServiceAccount", "Event", "Job"}
)
