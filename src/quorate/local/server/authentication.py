"""Who is asking, by bearer token."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any

from quorate.local.server.errors import StatusError, details_of, qualified, unauthorized
from quorate.local.server.routes import Asked


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

PUBLIC_PATHS = ("/version", "/healthz", "/livez", "/readyz")
"""Answered without a token: whoever can connect may learn that the server lives."""


def authenticate(tokens: Mapping[str, User], header: str) -> User:
    """The user of an Authorization header; anonymous when there is none.  Raises StatusError(401)."""
    scheme, _, token = header.partition(" ")
    if not header or scheme.lower() != "bearer":
        return ANONYMOUS
    given = token.strip().encode()
    for known, user in tokens.items():
        if compare_digest(known.encode(), given):
            return user
    raise unauthorized()


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
