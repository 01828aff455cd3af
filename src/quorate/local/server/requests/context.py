"""One request for a resource, with all that is needed to answer it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from quorate.kube.clock import Clock
from quorate.local.server.admission.webhooks.configurations import Registered
from quorate.local.server.auth.authentication import User, refuse
from quorate.local.server.auth.authorization import Action, Authorizer
from quorate.local.server.auth.service_account_tokens import Tokens
from quorate.local.server.backend_client import Outside
from quorate.local.server.errors import StatusError, invalid, not_found, not_supported
from quorate.local.server.registry.kinds import Kind, Registry
from quorate.local.server.requests.media_types import Accepted
from quorate.local.server.requests.request_info import Asked
from quorate.local.server.storage.store import Entry, Key, Store

Json = dict[str, Any]

NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names: without vowels and look-alikes, as Kubernetes does it."""
GENERATED_LENGTH = 5
LONGEST_BASE = 63 - GENERATED_LENGTH


@dataclass(frozen=True, slots=True)
class Context:
    """What all requests share."""

    store: Store
    registry: Registry
    clock: Clock
    new_uid: Callable[[], str]
    outside: Outside
    webhooks: Registered
    authorizer: Authorizer
    tokens: Tokens

    def timestamp(self) -> str:
        """Now, as objects carry it: RFC 3339 in UTC, whole seconds."""
        return timestamp(self.clock.now())

    def generate_name(self, base: str) -> str:
        number = int(self.new_uid().replace("-", ""), 16)
        suffix = ""
        for _ in range(GENERATED_LENGTH):
            number, digit = divmod(number, len(NAME_ALPHABET))
            suffix += NAME_ALPHABET[digit]
        return base[:LONGEST_BASE] + suffix


def timestamp(moment: float) -> str:
    return _spelled(int(moment))


@lru_cache(maxsize=16)  # a write asks several times, and thousands of writes come in one second
def _spelled(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Call:
    context: Context
    user: User
    asked: Asked
    kind: Kind
    accepted: Accepted
    query: Mapping[str, str]
    content_type: str
    user_agent: str
    body: bytes
    warnings: list[str] = field(default_factory=list)
    """Gathered on the way; become Warning headers of the answer."""

    @property
    def namespace(self) -> str:
        return self.asked.namespace

    @property
    def name(self) -> str:
        return self.asked.name

    @property
    def key(self) -> Key:
        return Key(self.kind.resource, self.asked.namespace, self.asked.name)

    @property
    def field_manager(self) -> str:
        return self.query.get("fieldManager") or self.user_agent.partition("/")[0] or "unknown"

    def dry_run(self, options: str) -> bool:
        """Whether to answer without doing.  Raises StatusError(422) for a value that is not All."""
        value = self.query.get("dryRun")
        if value and value != "All":
            raise invalid_options(options, [not_supported("dryRun", [value], ["All"])])
        return value == "All"

    async def current(self) -> Entry:
        """The object asked about, in the version asked for.  Raises StatusError(404)."""
        entry = self.context.store.get(self.key)
        if entry is None:
            raise self.not_found()
        return await self.served(entry)

    async def served(self, entry: Entry) -> Entry:
        """A stored object in the version asked for."""
        if self.kind.convert is None:
            return entry
        (served,) = await self.kind.served([entry])
        return served

    async def create(self, key: Key, obj: Json) -> Entry:
        """Store a new object; it as it now is.  Raises Stale if there is one already."""
        return await self.served(await self.context.store.create(key, await self.kind.stored(obj)))

    async def update(self, entry: Entry, obj: Json) -> Entry:
        """Store an object that was decided on ``entry``; it as it now is.  Raises Stale."""
        stored = await self.kind.stored(obj)
        return await self.served(await self.context.store.update(entry.key, stored, entry.revision))

    def require(self, verb: str) -> None:
        """Raises StatusError(403) if the user may not also do this to what is asked about."""
        asked = replace(self.asked, verb=verb)
        if not self.context.authorizer.allows(self.user, Action.of(asked)):
            raise refuse(self.user, asked)

    def not_found(self) -> StatusError:
        return not_found(self.kind.group, self.kind.plural, self.name)

    def decode(self, entry: Entry) -> Json:
        """A fresh copy of an object, complete with the version it was asked for in, which it must be in."""
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version} | entry.decode()


def invalid_options(kind: str, causes: list[Any]) -> StatusError:
    """A query parameter or a DeleteOptions that breaks a rule."""
    return invalid("meta.k8s.io", kind, "", causes)
