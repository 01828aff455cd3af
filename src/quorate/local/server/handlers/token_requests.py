"""POST serviceaccounts/x/token: a token for an account, for a while, perhaps as long as some pod lives."""

from typing import Any

from quorate.local.server.auth.service_account_tokens import AUDIENCES, BOUND_RESOURCES, Reference
from quorate.local.server.errors import bad_request, conflict, invalid, invalid_value, not_found
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests import responses
from quorate.local.server.requests.body import read_object
from quorate.local.server.requests.context import Call, timestamp
from quorate.local.server.requests.responses import Answer
from quorate.local.server.storage.store import Key

Json = dict[str, Any]

TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", True)
LASTS_S = 3600
SHORTEST_S = 600
LONGEST_S = 2**32


async def create(call: Call) -> Answer:
    """Raises StatusError: 404 without the account, 409 if what it is to be bound to is another object."""
    account = call.decode(await call.current())
    request = read_object(call, TOKEN_REQUEST, "CreateOptions")
    spec = request.setdefault("spec", {})
    spec["audiences"] = spec.get("audiences") or list(AUDIENCES)
    lasts_s = spec["expirationSeconds"] = spec.get("expirationSeconds") or LASTS_S
    _check_duration(lasts_s)
    bound = spec.get("boundObjectRef")
    issued = call.context.tokens.issue(
        account, spec["audiences"], lasts_s, _bound(call, bound) if bound else None
    )
    request["metadata"] = {
        "name": call.name,
        "namespace": call.namespace,
        "creationTimestamp": call.context.timestamp(),
    }
    request["status"] = {"token": issued.token, "expirationTimestamp": timestamp(issued.expires)}
    return responses.document(call, request, 201)


def _check_duration(lasts_s: int) -> None:
    path, group, kind = "spec.expirationSeconds", TOKEN_REQUEST.group, TOKEN_REQUEST.kind
    if lasts_s < SHORTEST_S:
        why = "may not specify a duration less than 10 minutes"
        raise invalid(group, kind, "", [invalid_value(path, lasts_s, why)])
    if lasts_s > LONGEST_S:
        why = "may not specify a duration larger than 2^32 seconds"
        raise invalid(group, kind, "", [invalid_value(path, lasts_s, why)])


def _bound(call: Call, reference: Json) -> tuple[str, Reference]:
    """The object that a token is to live no longer than."""
    kind, name, uid = (reference.get(field, "") for field in ("kind", "name", "uid"))
    resource = BOUND_RESOURCES.get(kind)
    if resource is None:
        raise bad_request(f"cannot bind token for serviceaccount to type {kind}")
    entry = call.context.store.get(Key(resource, "" if kind == "Node" else call.namespace, name))
    if entry is None:
        raise not_found("", resource, name)
    known = entry.decode()["metadata"]["uid"]
    if uid and uid != known:
        raise conflict("", resource, name, f"the UID in the bound object reference ({uid}) does not match")
    return kind, Reference(name, known)
