"""Access and token reviews: resources that answer in their status and are not stored."""

from collections.abc import Awaitable, Callable, Mapping

from quorate.api.codec import Json
from quorate.local.objects.errors import Cause, bad_request, invalid, invalid_value, required
from quorate.local.server.auth.authentication import User
from quorate.local.server.auth.authorization import AuthorizationAttributes
from quorate.local.server.auth.service_account_tokens import API_AUDIENCES, InvalidToken
from quorate.local.server.requests import responses
from quorate.local.server.requests.body import read_object
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.requests.responses import ApiResponse

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
GROUPS = (AUTHORIZATION, AUTHENTICATION)


async def create_review(context: RequestContext) -> ApiResponse:
    """POST: return the review with its status.  Raises StatusError: 400, 422."""
    context.dry_run("CreateOptions")
    review = await read_object(context, context.kind)
    review.setdefault("metadata", {}).pop("managedFields", None)
    review["status"] = await _REVIEWERS[context.kind.kind](context, review)
    return responses.document(context, review, 201)


async def _self_access(context: RequestContext, review: Json) -> Json:
    _check_metadata(review)
    return _access_status(context, context.user, review.get("spec") or {})


async def _subject_access(context: RequestContext, review: Json) -> Json:
    _check_metadata(review)
    spec = review.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        raise _invalid([required("spec.user", "at least one of user or group must be specified")])
    return _access_status(context, _subject(spec), spec)


async def _local_access(context: RequestContext, review: Json) -> Json:
    attributes = (review.get("spec") or {}).get("resourceAttributes") or {}
    if attributes.get("namespace", "") != context.namespace:
        raise bad_request(
            f"spec.resourceAttributes.namespace: must match the request's namespace: {context.namespace}"
        )
    return await _subject_access(context, review)


def _subject(spec: Json) -> User:
    extra = {name.lower(): tuple(values) for name, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _access_status(context: RequestContext, user: User, spec: Json) -> Json:
    resource, non_resource = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (non_resource is None):
        message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _invalid([invalid_value("spec.resourceAttributes", resource, message)])
    if resource is not None:
        attributes = _resource_attributes(resource)
    else:
        path: Json = non_resource or {}
        attributes = AuthorizationAttributes(path.get("verb", ""), path=path.get("path", ""))
    return {"allowed": context.server.authorizer.allows(user, attributes)}


def _resource_attributes(given: Json) -> AuthorizationAttributes:
    resource = given.get("resource", "")
    if given.get("subresource"):
        resource += f"/{given['subresource']}"
    names = (given.get(field, "") for field in ("namespace", "name"))
    return AuthorizationAttributes(given.get("verb", ""), given.get("group", ""), resource, *names)


def _check_metadata(review: Json) -> None:
    """Raise StatusError: 422 if an access review has metadata, except its namespace."""
    if metadata := {
        name: value for name, value in review["metadata"].items() if name != "namespace" and value
    }:
        raise _invalid([invalid_value("metadata", metadata, "must be empty")])


def _invalid(causes: list[Cause]) -> Exception:
    return invalid(AUTHORIZATION, "", "", causes)


async def _rules(context: RequestContext, review: Json) -> Json:
    namespace = (review.get("spec") or {}).get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    rules = [rule.to_json() for rule in context.server.authorizer.rules_for(context.user, namespace)]
    return {
        "resourceRules": [rule for rule in rules if "nonResourceURLs" not in rule],
        "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
        "incomplete": False,
    }


async def _self(context: RequestContext, review: Json) -> Json:
    review["metadata"]["creationTimestamp"] = context.server.timestamp()
    return {"userInfo": context.user.to_json()}


async def _token(context: RequestContext, review: Json) -> Json:
    spec = review.get("spec") or {}
    audiences = tuple(spec.get("audiences") or API_AUDIENCES)
    try:
        user, matched_audiences = context.server.tokens.authenticate(spec.get("token", ""), audiences)
    except InvalidToken as error:
        return {"user": {}, "error": str(error)}
    return {"authenticated": True, "user": user.to_json(), "audiences": list(matched_audiences)}


_REVIEWERS: Mapping[str, Callable[[RequestContext, Json], Awaitable[Json]]] = {
    "LocalSubjectAccessReview": _local_access,
    "SelfSubjectAccessReview": _self_access,
    "SelfSubjectRulesReview": _rules,
    "SubjectAccessReview": _subject_access,
    "SelfSubjectReview": _self,
    "TokenReview": _token,
}
