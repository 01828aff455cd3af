"""One request for a resource, with all that is needed to answer it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from quorate.kube.clock import Clock
from quorate.local.server.admission.webhooks.configurations import WebhookConfigurations
from quorate.local.server.auth.authentication import User, forbidden_request
from quorate.local.server.auth.authorization import AuthorizationAttributes, Authorizer
from quorate.local.server.auth.service_account_tokens import ServiceAccountTokens
from quorate.local.server.backend_client import BackendClient
from quorate.local.server.errors import StatusError, invalid, not_found, not_supported
from quorate.local.server.registry.kinds import Kind, Registry
from quorate.local.server.requests.media_types import AcceptedMediaType
from quorate.local.server.requests.request_info import RequestInfo
from quorate.local.server.storage.store import Entry, Key, Store

Json = dict[str, Any]

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names: without vowels and look-alikes, as Kubernetes does it."""
SUFFIX_LENGTH = 5
MAX_BASE_LENGTH = 63 - SUFFIX_LENGTH


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What all requests share."""

    store: Store
    registry: Registry
    clock: Clock
    new_uid: Callable[[], str]
    backends: BackendClient
    webhook_configurations: WebhookConfigurations
    authorizer: Authorizer
    tokens: ServiceAccountTokens

    def timestamp(self) -> str:
        """Now, as objects carry it: RFC 3339 in UTC, whole seconds."""
        return timestamp(self.clock.now())

    def generate_name(self, base: str) -> str:
        number = int(self.new_uid().replace("-", ""), 16)
        suffix = ""
        for _ in range(SUFFIX_LENGTH):
            number, digit = divmod(number, len(SUFFIX_ALPHABET))
            suffix += SUFFIX_ALPHABET[digit]
        return base[:MAX_BASE_LENGTH] + suffix


def timestamp(moment: float) -> str:
    return _format_time(int(moment))


@lru_cache(maxsize=16)  # a write asks several times, and thousands of writes come in one second
def _format_time(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class RequestContext:
    server: ServerContext
    user: User
    info: RequestInfo
    kind: Kind
    accepted: AcceptedMediaType
    query: Mapping[str, str]
    content_type: str
    user_agent: str
    body: bytes
    warnings: list[str] = field(default_factory=list)
    """Gathered on the way; become Warning headers of the answer."""

    @property
    def namespace(self) -> str:
        return self.info.namespace

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def key(self) -> Key:
        return Key(self.kind.resource, self.info.namespace, self.info.name)

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
        entry = self.server.store.get(self.key)
        if entry is None:
            raise self.not_found()
        return await self.converted(entry)

    async def converted(self, entry: Entry) -> Entry:
        """A stored object in the version asked for."""
        if self.kind.convert is None:
            return entry
        (served,) = await self.kind.from_storage([entry])
        return served

    async def create(self, key: Key, obj: Json) -> Entry:
        """Store a new object; it as it now is.  Raises Stale if there is one already."""
        return await self.converted(await self.server.store.create(key, await self.kind.to_storage(obj)))

    async def update(self, entry: Entry, obj: Json) -> Entry:
        """Store an object that was decided on ``entry``; it as it now is.  Raises Stale."""
        stored = await self.kind.to_storage(obj)
        return await self.converted(await self.server.store.update(entry.key, stored, entry.revision))

    def require(self, verb: str) -> None:
        """Raises StatusError(403) if the user may not also do this to what is asked about."""
        info = replace(self.info, verb=verb)
        if not self.server.authorizer.allows(self.user, AuthorizationAttributes.from_request(info)):
            raise forbidden_request(self.user, info)

    def not_found(self) -> StatusError:
        return not_found(self.kind.group, self.kind.plural, self.name)

    def decode(self, entry: Entry) -> Json:
        """A fresh copy of an object, complete with the version it was asked for in, which it must be in."""
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version} | entry.decode()


def invalid_options(kind: str, causes: list[Any]) -> StatusError:
    """A query parameter or a DeleteOptions that breaks a rule."""
    return invalid("meta.k8s.io", kind, "", causes)
