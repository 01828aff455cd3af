"""POST serviceaccounts/x/token: issue a token with a lifetime, optionally bound to an object."""

from quorate.api.codec import Json
from quorate.local.server.auth.service_account_tokens import API_AUDIENCES, BOUND_RESOURCES, ObjectReference
from quorate.local.server.errors import bad_request, conflict, invalid, invalid_value, not_found
from quorate.local.server.registry.builtin import typed
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests import responses
from quorate.local.server.requests.body import read_object
from quorate.local.server.requests.context import RequestContext, timestamp
from quorate.local.server.requests.responses import ApiResponse
from quorate.local.server.storage.store import Key

TOKEN_REQUEST = typed(Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", True))
DEFAULT_LIFETIME_S = 3600
MIN_LIFETIME_S = 600
MAX_LIFETIME_S = 2**32


async def create_token(context: RequestContext) -> ApiResponse:
    """Issue a token.

    Raises StatusError: 404 for the account, 409 for the uid of the bound object.
    """
    account = context.decode(await context.current())
    request = await read_object(context, TOKEN_REQUEST, "CreateOptions")
    spec = request.setdefault("spec", {})
    spec["audiences"] = spec.get("audiences") or list(API_AUDIENCES)
    lifetime_s = spec["expirationSeconds"] = spec.get("expirationSeconds") or DEFAULT_LIFETIME_S
    _check_lifetime(lifetime_s)
    bound = spec.get("boundObjectRef")
    issued = context.server.tokens.service_accounts.issue(
        account, spec["audiences"], lifetime_s, _bound_object(context, bound) if bound else None
    )
    request["metadata"] = {
        "name": context.name,
        "namespace": context.namespace,
        "creationTimestamp": context.server.timestamp(),
    }
    request["status"] = {"token": issued.token, "expirationTimestamp": timestamp(issued.expires_at)}
    return responses.document(context, request, 201)


def _check_lifetime(lifetime_s: int) -> None:
    path, group, kind = "spec.expirationSeconds", TOKEN_REQUEST.group, TOKEN_REQUEST.kind
    if lifetime_s < MIN_LIFETIME_S:
        message = "may not specify a duration less than 10 minutes"
        raise invalid(group, kind, "", [invalid_value(path, lifetime_s, message)])
    if lifetime_s > MAX_LIFETIME_S:
        message = "may not specify a duration larger than 2^32 seconds"
        raise invalid(group, kind, "", [invalid_value(path, lifetime_s, message)])


def _bound_object(context: RequestContext, reference: Json) -> tuple[str, ObjectReference]:
    """Return the kind and reference of the bound object."""
    kind, name, uid = (reference.get(field, "") for field in ("kind", "name", "uid"))
    resource = BOUND_RESOURCES.get(kind)
    if resource is None:
        raise bad_request(f"cannot bind token for serviceaccount to type {kind}")
    entry = context.server.store.get(Key(resource, "" if kind == "Node" else context.namespace, name))
    if entry is None:
        raise not_found("", resource, name)
    current_uid = entry.decode()["metadata"]["uid"]
    if uid and uid != current_uid:
        raise conflict("", resource, name, f"the UID in the bound object reference ({uid}) does not match")
    return kind, ObjectReference(name, current_uid)
