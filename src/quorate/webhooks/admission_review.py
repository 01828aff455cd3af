"""AdmissionReview of ``admission.k8s.io/v1``: decode the request, encode the response.

A refusal has the same status as one of Kueue: 403 Forbidden, with a cause for each field.  For a 422,
``kubectl`` would print the causes like violations of the schema, and other tools distinguish the two as well.
"""

import base64
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, Literal, Protocol

import msgspec

from quorate.api import codec
from quorate.api.findings import Finding
from quorate.api.meta import Struct
from quorate.kube.patches import Operation as PatchOperation
from quorate.webhooks.limits import MAX_COUNTED, MAX_FINDINGS

API_VERSION: Final = "admission.k8s.io/v1"
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
FORBIDDEN: Final = 403


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
