"""AdmissionReview of ``admission.k8s.io/v1``: decode the request and its objects, encode the response.

A refusal has the same status as one of Kueue: 403 Forbidden, with a cause for each field.  For a 422,
``kubectl`` would print the causes like violations of the schema, and other tools distinguish the two as well.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

from quorate.api import codec
from quorate.api.field_path import InvalidPath, look_up, parse_path
from quorate.api.findings import Finding
from quorate.api.limits import LARGE_BYTES
from quorate.api.meta import Struct
from quorate.kube.patches import Operation as PatchOperation
from quorate.kube.patches import json_patch
from quorate.kube.resources import Json
from quorate.webhooks.limits import MAX_COUNTED, MAX_FINDINGS

API_VERSION: Final = "admission.k8s.io/v1"
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
FORBIDDEN: Final = 403

T = TypeVar("T")

_ANYTHING: Final[Any] = Any  # a type to decode as


class GroupVersionKind(Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(Struct):
    username: str = ""


class AdmissionRequest(Struct):
    """An operation on an object; the objects are JSON, null if the operation has none."""

    uid: str
    kind: GroupVersionKind
    operation: Operation
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class AdmissionReview(Struct):
    api_version: str
    kind: str
    request: AdmissionRequest


# Objects are not decoded here.  Unlike ``codec.decode`` it does not repeat the decoding without null fields
# after an error, which would take seconds for a large body.
_REVIEWS: Final = msgspec.json.Decoder(AdmissionReview)


class AdmissionResponse(msgspec.Struct, frozen=True):
    """The response to a request: findings refuse it; warnings are shown in either case."""

    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[PatchOperation, ...] = ()


Handler = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]


ALLOWED: Final = AdmissionResponse()


def first_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return at most ``MAX_COUNTED`` findings; more are not looked for."""
    return tuple(islice(findings, MAX_COUNTED))


class AdmissionWebhook(Protocol):
    """The webhooks of one kind; both methods may raise the errors of API requests."""

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse: ...

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse: ...


def for_writes(handler: Handler | None) -> Handler:
    """Return a handler that calls ``handler`` for CREATE and UPDATE and allows the rest.

    None allows everything.
    """

    async def handle_or_allow(request: AdmissionRequest) -> AdmissionResponse:
        if handler is None or request.operation not in ("CREATE", "UPDATE"):
            return ALLOWED
        return await handler(request)

    return handle_or_allow


class InvalidReview(ValueError):
    """A body that is not an AdmissionReview or ConversionReview of a supported version."""


def read_review(body: bytes) -> AdmissionReview:
    """Decode an AdmissionReview.  Raises ``InvalidReview``."""
    try:
        review = _REVIEWS.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidReview(f"the body is not an AdmissionReview: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        kind = f"{review.kind} of {review.api_version}"
        raise InvalidReview(f"the body is {kind}, must be AdmissionReview of {API_VERSION}")
    return review


def encode_response(request: AdmissionRequest, response: AdmissionResponse) -> bytes:
    """Return the AdmissionReview with the response to ``request``."""
    encoded: dict[str, Any] = {"uid": request.uid, "allowed": not response.findings}
    if response.findings:
        encoded["status"] = _refusal(request, response.findings)
    elif response.patch:
        encoded["patchType"] = "JSONPatch"
        encoded["patch"] = base64.b64encode(codec.encode(response.patch)).decode()
    if response.warnings:
        encoded["warnings"] = list(response.warnings)
    return codec.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": encoded})


def _refusal(request: AdmissionRequest, findings: Sequence[Finding]) -> dict[str, Any]:
    causes = [
        {"reason": finding.reason, "message": str(finding), "field": finding.path}
        for finding in findings[:MAX_FINDINGS]
    ]
    kind = request.kind
    return {
        "status": "Failure",
        "code": FORBIDDEN,
        "reason": "Forbidden",
        "message": _message(findings),
        "details": {"name": request.name, "group": kind.group, "kind": kind.kind, "causes": causes},
    }


def _message(findings: Sequence[Finding]) -> str:
    """Return one finding for the API server's own line, or several on separate lines."""
    if len(findings) == 1:
        return str(findings[0])
    listed = [f"  {finding}" for finding in findings[:MAX_FINDINGS]]
    if len(findings) > MAX_FINDINGS:
        listed.append(f"  and {len(findings) - MAX_FINDINGS} more")
    at_least = "at least " if len(findings) >= MAX_COUNTED else ""
    return "\n".join([f"{at_least}{len(findings)} fields are wrong", *listed])


async def decode_object(type_: type[T], body: msgspec.Raw) -> T:
    """Decode an object.  Raises ``msgspec.ValidationError``.

    One object of the largest size is decoded within the time that the event loop may be blocked; two, or one
    that is decoded for several purposes, are not.  So the loop does its other work before and after each.
    """
    await yield_to_loop(body)
    try:
        decoded = codec.decode_as_given(type_, body)
    except msgspec.ValidationError:
        if not codec.has_nulls(body):
            raise
        await yield_to_loop(body)
        document = codec.decode_as_given(_ANYTHING, body)
        await yield_to_loop(body)
        present = codec.encode_without_nulls(document)
        await yield_to_loop(body)
        decoded = codec.decode_as_given(type_, present)
    await yield_to_loop(body)
    return decoded


async def decode_old(type_: type[T], request: AdmissionRequest) -> T | None:
    """Return the object before an update; None if it cannot be decoded: then it forbids no change."""
    try:
        return await decode_object(type_, request.old_object) if request.operation == "UPDATE" else None
    except msgspec.ValidationError:
        return None


async def defaulted(request: AdmissionRequest, default: Callable[[Json], Json]) -> AdmissionResponse:
    """Apply defaults; a malformed object is allowed, as its schema is checked afterwards."""
    try:
        document = await decode_object(dict[str, Any], request.object)
        return AdmissionResponse(patch=json_patch(document, default(document)))
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
        return ALLOWED


async def refuse_undecodable(body: msgspec.Raw, error: msgspec.ValidationError) -> AdmissionResponse:
    """Return the response to an object that fits the schema but cannot be decoded."""
    problem, _, place = str(error).partition(" - at `$")
    path = place.strip("`.")
    try:
        value = look_up(await decode_object(_ANYTHING, body), parse_path(path))
    except InvalidPath:  # an unusual key, or the object as a whole
        value = None
    return AdmissionResponse((Finding(path, value, f"cannot be read: {problem}"),))


async def yield_to_loop(body: msgspec.Raw) -> None:
    """Let the event loop do its other work, if ``body`` is large."""
    if len(body) > LARGE_BYTES:
        await asyncio.sleep(0)
