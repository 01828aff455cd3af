"""Questions about who may do what and who somebody is; answered, not stored."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from quorate.local.server.auth.authentication import User
from quorate.local.server.auth.authorization import Action
from quorate.local.server.auth.service_account_tokens import AUDIENCES, Rejected
from quorate.local.server.errors import Cause, bad_request, invalid, invalid_value, required
from quorate.local.server.requests import responses
from quorate.local.server.requests.body import read_object
from quorate.local.server.requests.context import Call
from quorate.local.server.requests.responses import Answer

Json = dict[str, Any]

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
GROUPS = (AUTHORIZATION, AUTHENTICATION)


async def review(call: Call) -> Answer:
    """POST: the question, with the answer as its status.  Raises StatusError: 400, 422."""
    call.dry_run("CreateOptions")
    question = read_object(call, call.kind, "CreateOptions")
    question.setdefault("metadata", {}).pop("managedFields", None)
    question["status"] = await _ANSWERS[call.kind.kind](call, question)
    return responses.document(call, question, 201)


async def _self_access(call: Call, question: Json) -> Json:
    return _access(call, call.user, question.get("spec") or {})


async def _subject_access(call: Call, question: Json) -> Json:
    spec = question.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        raise _invalid([required("spec.user", "at least one of user or group must be specified")])
    return _access(call, _subject(spec), spec)


async def _local_access(call: Call, question: Json) -> Json:
    about = ((question.get("spec") or {}).get("resourceAttributes") or {}).get("namespace", "")
    if about != call.namespace:
        raise bad_request(
            f"spec.resourceAttributes.namespace: must match the request's namespace: {call.namespace}"
        )
    return await _subject_access(call, question)


def _subject(spec: Json) -> User:
    extra = {name.lower(): tuple(values) for name, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _access(call: Call, user: User, spec: Json) -> Json:
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (about is None) == (path is None):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _invalid([invalid_value("spec.resourceAttributes", about, why)])
    return {"allowed": call.context.authorizer.allows(user, _action(about, path or {}))}


def _action(about: Json | None, path: Json) -> Action:
    if about is None:
        return Action(path.get("verb", ""), path=path.get("path", ""))
    resource = about.get("resource", "")
    if about.get("subresource"):
        resource += f"/{about['subresource']}"
    named = (about.get(field, "") for field in ("namespace", "name"))
    return Action(about.get("verb", ""), about.get("group", ""), resource, *named)


def _invalid(causes: list[Cause]) -> Exception:
    return invalid(AUTHORIZATION, "", "", causes)


async def _rules(call: Call, question: Json) -> Json:
    namespace = (question.get("spec") or {}).get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    rules = [rule.to_json() for rule in call.context.authorizer.rules(call.user, namespace)]
    return {
        "resourceRules": [rule for rule in rules if "nonResourceURLs" not in rule],
        "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
        "incomplete": False,
    }


async def _self(call: Call, question: Json) -> Json:
    question["metadata"]["creationTimestamp"] = call.context.timestamp()
    return {"userInfo": call.user.to_json()}


async def _token(call: Call, question: Json) -> Json:
    spec = question.get("spec") or {}
    audiences = tuple(spec.get("audiences") or AUDIENCES)
    try:
        user, meant = call.context.tokens.read(spec.get("token", ""), audiences)
    except Rejected as rejected:
        return {"user": {}, "error": str(rejected)}
    return {"authenticated": True, "user": user.to_json(), "audiences": list(meant)}


_ANSWERS: Mapping[str, Callable[[Call, Json], Awaitable[Json]]] = {
    "LocalSubjectAccessReview": _local_access,
    "SelfSubjectAccessReview": _self_access,
    "SelfSubjectRulesReview": _rules,
    "SubjectAccessReview": _subject_access,
    "SelfSubjectReview": _self,
    "TokenReview": _token,
}
