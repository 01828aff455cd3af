"""Impersonation: the Impersonate headers, which ``kubectl --as`` sends."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from urllib.parse import unquote

from quorate.local.objects.errors import internal
from quorate.local.server.auth.authentication import (
    ANONYMOUS,
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    User,
    forbidden_request,
    service_account_user,
)
from quorate.local.server.auth.authorization import AuthorizationAttributes, Authorizer
from quorate.local.server.request_info import RequestInfo

USER, GROUP, UID, EXTRA = "impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-"
AUTHENTICATION = "authentication.k8s.io"
NODE_PREFIX = "system:node:"


def impersonate(
    user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer, request: RequestInfo
) -> User:
    """Return the effective user of a request.

    Raises StatusError: 403 if the user may not impersonate, 500 for headers without a user name.
    """
    requested = [(name.lower(), value) for name, value in headers if name.lower().startswith("impersonate-")]
    if not requested:
        return user
    name = next((value for header, value in requested if header == USER), "")
    groups = tuple(value for header, value in requested if header == GROUP)
    uid = next((value for header, value in requested if header == UID), "")
    extra = _extra(requested)
    if not name:
        raise internal("requested without impersonating a user")
    if not _may_impersonate(user, authorizer, _required_permissions(name, groups, uid, extra)):
        mode = _mode(name, only_name=not (groups or uid or extra))
        if mode is None:
            raise forbidden_request(user, next(_required_permissions(name, groups, uid, extra)))
        on_request = replace(request, verb=f"impersonate-on:{mode}:{request.verb}")
        if not authorizer.allows(user, AuthorizationAttributes.from_request(on_request)):
            raise forbidden_request(user, on_request)
        for info in _constrained_permissions(mode, name, groups, uid, extra):
            if not _may_impersonate(user, authorizer, [info]):
                raise forbidden_request(user, info)
    if not groups and name.startswith(SERVICE_ACCOUNT_PREFIX):
        namespace, _, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
        groups = service_account_user(namespace, account).groups
    if name != ANONYMOUS.name and AUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(name, groups or ANONYMOUS.groups, uid, extra)


def _may_impersonate(user: User, authorizer: Authorizer, needed: Iterable[RequestInfo]) -> bool:
    return all(
        authorizer.allows(
            user,
            AuthorizationAttributes(
                info.verb,
                info.group,
                f"{info.resource}/{info.subresource}" if info.subresource else info.resource,
                info.namespace,
                info.name,
            ),
        )
        for info in needed
    )


def _mode(name: str, *, only_name: bool) -> str | None:
    """Return the mode of constrained impersonation (KEP-5284) for a user; None if there is none."""
    for prefix, mode in ((SERVICE_ACCOUNT_PREFIX, "serviceaccount"), (NODE_PREFIX, "arbitrary-node")):
        if name.startswith(prefix):
            return mode if only_name else None
    return "user-info"


def _constrained_permissions(
    mode: str, name: str, groups: Iterable[str], uid: str, extra: Mapping[str, tuple[str, ...]]
) -> Iterator[RequestInfo]:
    """Yield the permissions that a mode needs, besides that for the request itself."""
    for info in _required_permissions(name, groups, uid, extra):
        constrained = replace(info, verb=f"impersonate:{mode}", group=AUTHENTICATION)
        if mode == "arbitrary-node":
            constrained = replace(constrained, resource="nodes", name=name.removeprefix(NODE_PREFIX))
        yield constrained


def _extra(requested: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in requested:
        if header.startswith(EXTRA):
            key = unquote(header.removeprefix(EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    return extra


def _required_permissions(
    name: str, groups: Iterable[str], uid: str, extra: Mapping[str, tuple[str, ...]]
) -> Iterator[RequestInfo]:
    """Yield the requests that the user must be allowed to make."""
    if name.startswith(SERVICE_ACCOUNT_PREFIX):
        namespace, _, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
        yield RequestInfo("impersonate", "", resource="serviceaccounts", namespace=namespace, name=account)
    else:
        yield RequestInfo("impersonate", "", resource="users", name=name)
    for group in groups:
        yield RequestInfo("impersonate", "", resource="groups", name=group)
    if uid:
        yield RequestInfo("impersonate", "", AUTHENTICATION, resource="uids", name=uid)
    for key, values in extra.items():
        for value in values:
            yield RequestInfo(
                "impersonate", "", AUTHENTICATION, resource="userextras", subresource=key, name=value
            )
