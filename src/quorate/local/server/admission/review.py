"""AdmissionReviews: the request to a webhook, its response, and the errors of a call."""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.api.codec import Json
from quorate.api.meta import Struct
from quorate.local.server.admission.matching import AdmissionAttributes
from quorate.local.server.admission_rules.webhooks import Webhook
from quorate.local.server.auth.authentication import User
from quorate.local.server.backend_client import BackendClient, BackendUnreachable
from quorate.local.server.registry.kinds import Kind

GROUP = "admission.k8s.io"


class WebhookCallError(Exception):
    """The call failed, or the response is invalid."""

    def __init__(self, webhook: str, message: str) -> None:
        super().__init__(webhook, message)
        self.webhook, self.message = webhook, message

    def __str__(self) -> str:
        return f'failed calling webhook "{self.webhook}": {self.message}'


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
class AdmissionResponse:
    allowed: bool
    status: Json
    """of a rejection; may be empty"""
    patch: list[Any]
    warnings: tuple[str, ...]


def admission_request(
    uid: str, user: User, attributes: AdmissionAttributes, requested: AdmissionAttributes
) -> Json:
    """Return the request of a review.

    ``attributes``: in the version of the call; ``requested``: in the requested version.
    """
    request: Json = {
        "uid": uid,
        "kind": _kind(attributes.kind),
        "resource": _resource(attributes.request_kind),
        "requestKind": _kind(requested.kind),
        "requestResource": _resource(requested.request_kind),
        "operation": attributes.operation,
        "userInfo": user.to_json(),
        "object": attributes.new,
        "oldObject": attributes.old,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    if attributes.subresource:
        request |= {"subResource": attributes.subresource, "requestSubResource": attributes.subresource}
    if attributes.name:
        request["name"] = attributes.name
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    return request


def _kind(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


async def call_webhook(
    backends: BackendClient, webhook: Webhook, request: Json, *, mutating: bool
) -> AdmissionResponse:
    """Call a webhook.  Raises WebhookCallError."""
    api_version = f"{GROUP}/{webhook.review_version}"
    review = {"kind": "AdmissionReview", "apiVersion": api_version, "request": request}
    try:
        backend = backends.resolve(webhook.client_config)
        content = await backends.post(backend, msgspec.json.encode(review), webhook.timeout_s)
        review_response = msgspec.json.decode(content, type=_Review)
    except (BackendUnreachable, msgspec.DecodeError) as error:
        raise WebhookCallError(webhook.name, f"failed to call webhook: {error}") from error
    message = _response_error(review_response, api_version, request["uid"], mutating)
    if message:
        raise WebhookCallError(webhook.name, f"received invalid webhook response: {message}")
    response = review_response.response
    assert response is not None, "its absence is a fault"
    return AdmissionResponse(
        response.allowed,
        response.status or {},
        _decode_patch(webhook, response.patch or ""),
        tuple(response.warnings or ()),
    )


def _response_error(review_response: _Review, api_version: str, uid: str, mutating: bool) -> str:
    """Return what is wrong with a response; empty if it is valid."""
    response = review_response.response
    if (review_response.api_version, review_response.kind) != (api_version, "AdmissionReview"):
        expected = f"expected webhook response of {api_version}, Kind=AdmissionReview"
        return f"{expected}, got {review_response.api_version}, Kind={review_response.kind}"
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


def _decode_patch(webhook: Webhook, encoded: str) -> list[Any]:
    if not encoded:
        return []
    try:
        return msgspec.json.decode(base64.b64decode(encoded), type=list[Any])
    except (binascii.Error, msgspec.DecodeError) as error:
        message = f"received undecodable patch in webhook response: {error}"
        raise WebhookCallError(webhook.name, message) from error
