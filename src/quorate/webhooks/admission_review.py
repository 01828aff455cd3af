"""AdmissionReview of ``admission.k8s.io/v1``: the question as a typed value, the answer as JSON.

Refusals carry the status that Kueue's do: 403 Forbidden, whose causes name each field.  A 422 would make
``kubectl`` print the causes as if the schema had been broken, and tools tell the two apart.
"""

import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal

import msgspec

from quorate.api import codec
from quorate.api.findings import Finding
from quorate.api.meta import Struct
from quorate.kube.patches import Operation as PatchOperation

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
    """What is to be stored, and what was stored before; both as JSON, null where there is nothing."""

    uid: str
    kind: GroupVersionKind
    operation: Operation
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: UserInfo = UserInfo()
    dry_run: bool = False
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class AdmissionReview(Struct):
    api_version: str
    kind: str
    request: AdmissionRequest


class AdmissionResponse(msgspec.Struct, frozen=True):
    """What becomes of a request: findings refuse it; warnings are shown to whoever made it, either way."""

    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[PatchOperation, ...] = ()


Handler = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]

ALLOWED: Final = AdmissionResponse()


def for_writes(answer: Handler | None) -> Handler:
    """``answer`` to creations and updates; the rest is let be, and without an answer everything."""

    async def answer_or_allow(request: AdmissionRequest) -> AdmissionResponse:
        if answer is None or request.operation not in ("CREATE", "UPDATE"):
            return ALLOWED
        return await answer(request)

    return answer_or_allow


class InvalidReview(ValueError):
    """A body that is no AdmissionReview, or no ConversionReview, of a version we speak."""


def read_review(body: bytes) -> AdmissionReview:
    """Raises ``InvalidReview``."""
    try:
        review = codec.decode(AdmissionReview, body)
    except msgspec.DecodeError as error:
        raise InvalidReview(f"the body is no AdmissionReview: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        said = f"{review.kind} of {review.api_version}"
        raise InvalidReview(f"the body is {said}, must be AdmissionReview of {API_VERSION}")
    return review


def encode_response(request: AdmissionRequest, answer: AdmissionResponse) -> bytes:
    """The AdmissionReview that answers ``request``."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": not answer.findings}
    if answer.findings:
        response["status"] = _refusal(request, answer.findings)
    elif answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(codec.encode(answer.patch)).decode()
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    return codec.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


def _refusal(request: AdmissionRequest, findings: Sequence[Finding]) -> dict[str, Any]:
    causes = [
        {"reason": finding.reason, "message": str(finding), "field": finding.path} for finding in findings
    ]
    kind = request.kind
    return {
        "status": "Failure",
        "code": FORBIDDEN,
        "reason": "Forbidden",
        "message": _sentence(findings),
        "details": {"name": request.name, "group": kind.group, "kind": kind.kind, "causes": causes},
    }


def _sentence(findings: Sequence[Finding]) -> str:
    """One finding stands behind the server's words in their line, several below it."""
    if len(findings) == 1:
        return str(findings[0])
    return "\n".join([f"{len(findings)} fields are wrong", *(f"  {finding}" for finding in findings)])
