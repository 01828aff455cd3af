"""Asking in the name of somebody else: the Impersonate headers, which ``kubectl --as`` sends."""

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from quorate.local.server.auth.authentication import (
    ACCOUNT_PREFIX,
    ANONYMOUS,
    AUTHENTICATED,
    User,
    refuse,
    service_account,
)
from quorate.local.server.auth.authorization import Action, Authorizer
from quorate.local.server.errors import internal
from quorate.local.server.requests.request_info import Asked

USER, GROUP, UID, EXTRA = "impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-"
AUTHENTICATION = "authentication.k8s.io"


def impersonated(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
    """Who the request is to be seen as coming from: the user, unless the headers name another.

    Raises StatusError: 403 if the user may not speak for them, 500 for headers without a user.
    """
    wanted = [(name.lower(), value) for name, value in headers if name.lower().startswith("impersonate-")]
    if not wanted:
        return user
    name = next((value for header, value in wanted if header == USER), "")
    groups = tuple(value for header, value in wanted if header == GROUP)
    uid = next((value for header, value in wanted if header == UID), "")
    extra = _extra(wanted)
    if not name:
        raise internal("requested without impersonating a user")
    for asked in _questions(name, groups, uid, extra):
        resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        action = Action("impersonate", asked.group, resource, asked.namespace, asked.name)
        if not authorizer.allows(user, action):
            raise refuse(user, asked)
    if not groups and name.startswith(ACCOUNT_PREFIX):
        namespace, _, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
        groups = service_account(namespace, account).groups
    if name != ANONYMOUS.name and AUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(name, groups or ANONYMOUS.groups, uid, extra)


def _extra(wanted: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in wanted:
        if header.startswith(EXTRA):
            key = unquote(header.removeprefix(EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    return extra


def _questions(
    name: str, groups: Iterable[str], uid: str, extra: Mapping[str, tuple[str, ...]]
) -> Iterator[Asked]:
    """What the user must be allowed, each to be asked by itself."""
    if name.startswith(ACCOUNT_PREFIX):
        namespace, _, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
        yield Asked("impersonate", "", resource="serviceaccounts", namespace=namespace, name=account)
    else:
        yield Asked("impersonate", "", resource="users", name=name)
    for group in groups:
        yield Asked("impersonate", "", resource="groups", name=group)
    if uid:
        yield Asked("impersonate", "", AUTHENTICATION, resource="uids", name=uid)
    for key, values in extra.items():
        for value in values:
            yield Asked("impersonate", "", AUTHENTICATION, resource="userextras", subresource=key, name=value)
