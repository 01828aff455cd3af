"""Impersonation: the Impersonate headers, which ``kubectl --as`` sends."""

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from quorate.local.server.auth.authentication import (
    ANONYMOUS,
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    User,
    forbidden_request,
    service_account_user,
)
from quorate.local.server.auth.authorization import AuthorizationAttributes, Authorizer
from quorate.local.server.errors import internal
from quorate.local.server.requests.request_info import RequestInfo

USER, GROUP, UID, EXTRA = "impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-"
AUTHENTICATION = "authentication.k8s.io"


def impersonate(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
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
    for info in _required_permissions(name, groups, uid, extra):
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        attributes = AuthorizationAttributes("impersonate", info.group, resource, info.namespace, info.name)
        if not authorizer.allows(user, attributes):
            raise forbidden_request(user, info)
    if not groups and name.startswith(SERVICE_ACCOUNT_PREFIX):
        namespace, _, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
        groups = service_account_user(namespace, account).groups
    if name != ANONYMOUS.name and AUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(name, groups or ANONYMOUS.groups, uid, extra)


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
