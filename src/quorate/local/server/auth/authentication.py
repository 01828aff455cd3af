"""Who is asking: by bearer token, and in whose name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quorate.local.server.errors import StatusError, details_of, qualified, unauthorized
from quorate.local.server.requests.request_info import Asked

AUTHENTICATED = "system:authenticated"
ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As webhooks and reviews are told who is asking."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {name: list(values) for name, values in self.extra.items()}
        return info


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def service_account(
    namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"{ACCOUNT_PREFIX}{namespace}:{name}", groups, uid, extra or {})


def bearer(header: str) -> str:
    """The token of an Authorization header; empty if there is none.  Raises StatusError(401)."""
    scheme, _, token = header.partition(" ")
    if not header or scheme.lower() != "bearer":
        return ""
    if not token.strip():
        raise unauthorized()
    return token.strip()


def refuse(user: User, asked: Asked) -> StatusError:
    """The 403 for a user who may not do what they ask."""
    who = f'User "{user.name}"'
    if not asked.resource:
        message = f'forbidden: {who} cannot {asked.verb} path "{asked.path}"'
        return StatusError(403, "Forbidden", message, {})
    # To the rules of access a namespace is in itself.
    namespace = asked.name if asked.resource == "namespaces" and not asked.group else asked.namespace
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    object_name = f' "{asked.name}"' if asked.name else ""
    message = (
        f"{qualified(asked.group, asked.resource)}{object_name} is forbidden: {who} cannot {asked.verb}"
        f' resource "{resource}" in API group "{asked.group}" {scope}'
    )
    return StatusError(403, "Forbidden", message, details_of(asked.group, asked.resource, asked.name))
