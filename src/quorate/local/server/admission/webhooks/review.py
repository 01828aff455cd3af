"""One question to one webhook: the AdmissionReview sent, and what its answer means."""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.api.meta import Struct
from quorate.local.server.admission.webhooks.attributes import Attempt
from quorate.local.server.admission.webhooks.configurations import Webhook
from quorate.local.server.auth.authentication import User
from quorate.local.server.backend_client import Outside, Unreachable
from quorate.local.server.registry.kinds import Kind

Json = dict[str, Any]

GROUP = "admission.k8s.io"


class CallFailed(Exception):
    """The webhook could not be asked, or its answer means nothing."""

    def __init__(self, webhook: str, why: str) -> None:
        super().__init__(webhook, why)
        self.webhook, self.why = webhook, why

    def __str__(self) -> str:
        return f'failed calling webhook "{self.webhook}": {self.why}'


class _Response(Struct):
    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None


class _Review(Struct):
    api_version: str = ""
    kind: str = ""
    response: _Response | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    status: Json
    """of a refusal; may be empty"""
    patch: list[Any]
    warnings: tuple[str, ...]


def request_of(uid: str, user: User, attempt: Attempt, asked: Attempt) -> Json:
    """``attempt`` as the webhook is told, in the version it wants; ``asked`` as it was asked for."""
    request: Json = {
        "uid": uid,
        "kind": _kind(attempt.kind),
        "resource": _resource(attempt.path),
        "requestKind": _kind(asked.kind),
        "requestResource": _resource(asked.path),
        "name": attempt.name,
        "operation": attempt.operation,
        "userInfo": user.to_json(),
        "object": attempt.new,
        "oldObject": attempt.old,
        "dryRun": attempt.dry_run,
        "options": attempt.options,
    }
    if attempt.subresource:
        request |= {"subResource": attempt.subresource, "requestSubResource": attempt.subresource}
    if attempt.namespace:
        request["namespace"] = attempt.namespace
    return request


def _kind(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


async def ask(outside: Outside, webhook: Webhook, request: Json, *, mutating: bool) -> Verdict:
    """Raises CallFailed."""
    api_version = f"{GROUP}/{webhook.review_version}"
    review = {"kind": "AdmissionReview", "apiVersion": api_version, "request": request}
    try:
        place = outside.place(webhook.client)
        content = await outside.post(place, msgspec.json.encode(review), webhook.timeout_s)
        answer = msgspec.json.decode(content, type=_Review)
    except (Unreachable, msgspec.DecodeError) as failure:
        raise CallFailed(webhook.name, f"failed to call webhook: {failure}") from failure
    why = _fault(answer, api_version, request["uid"], mutating)
    if why:
        raise CallFailed(webhook.name, f"received invalid webhook response: {why}")
    response = answer.response
    assert response is not None, "its absence is a fault"
    return Verdict(
        response.allowed,
        response.status or {},
        _patch(webhook, response.patch or ""),
        tuple(response.warnings or ()),
    )


def _fault(answer: _Review, api_version: str, uid: str, mutating: bool) -> str:
    """What is wrong with an answer; empty if nothing is."""
    response = answer.response
    if (answer.api_version, answer.kind) != (api_version, "AdmissionReview"):
        expected = f"expected webhook response of {api_version}, Kind=AdmissionReview"
        return f"{expected}, got {answer.api_version}, Kind={answer.kind}"
    if response is None:
        return "webhook response was absent"
    if response.uid != uid:
        return f'expected response.uid="{uid}", got "{response.uid}"'
    if not mutating:
        given = [name for name in ("patch", "patch_type") if getattr(response, name)]
        return "validating webhook may not return response.patch" if given else ""
    if response.patch and response.patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not response.patch and response.patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    if response.patch and response.patch_type != "JSONPatch":
        return f'webhook returned invalid response.patchType of "{response.patch_type}"'
    return ""


def _patch(webhook: Webhook, encoded: str) -> list[Any]:
    if not encoded:
        return []
    try:
        return msgspec.json.decode(base64.b64decode(encoded), type=list[Any])
    except (binascii.Error, msgspec.DecodeError) as fault:
        why = f"received undecodable patch in webhook response: {fault}"
        raise CallFailed(webhook.name, why) from fault
