"""Users, bearer tokens, and the error for a forbidden request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quorate.local.objects.errors import StatusError, group_resource, status_details, unauthorized
from quorate.local.server.request_info import RequestInfo

AUTHENTICATED = "system:authenticated"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the userInfo of webhooks and reviews."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {name: list(values) for name, values in self.extra.items()}
        return info


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def service_account_user(
    namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", groups, uid, extra or {})


def bearer_token(header: str) -> str:
    """Return the token of an Authorization header, or an empty string.  Raises StatusError(401)."""
    scheme, _, token = header.partition(" ")
    if not header or scheme.lower() != "bearer":
        return ""
    if not token.strip():
        raise unauthorized()
    return token.strip()


def forbidden_request(user: User, info: RequestInfo) -> StatusError:
    """Return the 403 for a request that the user may not make."""
    user_text = f'User "{user.name}"'
    if not info.resource:
        message = f'forbidden: {user_text} cannot {info.verb} path "{info.path}"'
        return StatusError(403, "Forbidden", message, {})
    # As in kube-apiserver, the namespace of a Namespace is its own name.
    namespace = info.name if info.resource == "namespaces" and not info.group else info.namespace
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    object_name = f' "{info.name}"' if info.name else ""
    message = (
        f"{group_resource(info.group, info.resource)}{object_name} is forbidden:"
        f" {user_text} cannot {info.verb}"
        f' resource "{resource}" in API group "{info.group}" {scope}'
    )
    return StatusError(403, "Forbidden", message, status_details(info.group, info.resource, info.name))
