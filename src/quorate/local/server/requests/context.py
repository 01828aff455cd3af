"""The context of a request: user, kind, options, and the parts of the server that handlers use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from multidict import MultiMapping

from quorate.api.codec import Json
from quorate.kube.clock import Clock
from quorate.kube.computations import Computations
from quorate.local.objects import errors
from quorate.local.objects.cel import evaluation
from quorate.local.objects.protobuf.envelope import MAGIC
from quorate.local.server.admission_rules.policies import AdmissionPolicies
from quorate.local.server.admission_rules.webhooks import WebhookConfigurations
from quorate.local.server.auth.authentication import User, forbidden_request
from quorate.local.server.auth.authorization import AuthorizationAttributes, Authorizer
from quorate.local.server.auth.service_account_tokens import TokenAuthenticator
from quorate.local.server.backend_client import BackendClient
from quorate.local.server.registry.kinds import Kind, Registry
from quorate.local.server.request_info import RequestInfo
from quorate.local.server.requests.media_types import AcceptedMediaType
from quorate.local.server.requests.usage import UsageSource, simulated_usage
from quorate.local.server.storage.store import Entry, Key, Store

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet of generated name suffixes, without vowels and ambiguous digits, as in Kubernetes."""
SUFFIX_LENGTH = 5
GROWTH_OF_PROTOBUF = 20
"""An empty message of two bytes may be a struct of forty in JSON."""
SLOWNESS_OF_YAML = 10
"""YAML takes about 0.8 ms a KiB to parse, which is 10 ms for a body that is not large."""
MAX_BASE_LENGTH = 63 - SUFFIX_LENGTH
MAX_FIELD_MANAGER_BYTES = 128

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The parts of the server that all requests share."""

    store: Store
    registry: Registry
    clock: Clock
    new_uid: Callable[[], str]
    backends: BackendClient
    webhook_configurations: WebhookConfigurations
    admission_policies: AdmissionPolicies
    authorizer: Authorizer
    tokens: TokenAuthenticator
    computations: Computations = field(default_factory=Computations)
    usage: UsageSource = simulated_usage

    def timestamp(self) -> str:
        """Return the current time as objects store it: RFC 3339, UTC, whole seconds."""
        return timestamp(self.clock.now())

    def generate_name(self, base: str) -> str:
        number = int(self.new_uid().replace("-", ""), 16)
        suffix = ""
        for _ in range(SUFFIX_LENGTH):
            number, digit = divmod(number, len(SUFFIX_ALPHABET))
            suffix += SUFFIX_ALPHABET[digit]
        return base[:MAX_BASE_LENGTH] + suffix


def timestamp(time_s: float) -> str:
    return _format_time(int(time_s))


@lru_cache(maxsize=16)  # one write formats the time several times, and there are thousands of writes a second
def _format_time(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


FIELD_VALIDATIONS = ["", "Ignore", "Strict", "Warn"]


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request for a resource, and what its handler needs."""

    server: ServerContext
    user: User
    info: RequestInfo
    kind: Kind
    accepted: AcceptedMediaType
    query: MultiMapping[str]
    content_type: str
    user_agent: str
    body: bytes
    warnings: list[str] = field(default_factory=list)
    """Collected while the request is handled; sent as Warning headers."""

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
    def body_size(self) -> int:
        """Bytes of the body; of other formats, the most bytes of JSON that take as long to process."""
        if self.body.startswith(MAGIC):
            return len(self.body) * GROWTH_OF_PROTOBUF
        is_yaml = "yaml" in self.content_type and not self.body.startswith(b"{")
        return len(self.body) * (SLOWNESS_OF_YAML if is_yaml else 1)

    @property
    def field_manager(self) -> str:
        return self.query.get("fieldManager") or self.user_agent.partition("/")[0] or "unknown"

    def dry_run(self, options: str, *findings: errors.Cause) -> bool:
        """Return True if the request is a dry run.

        Raises StatusError(422) with ``findings`` and those about the options that all writes have.
        """
        causes = list(findings)
        if len(self.query.get("fieldManager", "").encode()) > MAX_FIELD_MANAGER_BYTES:
            causes.append(errors.too_long("fieldManager", "", MAX_FIELD_MANAGER_BYTES))
        values = self.query.getall("dryRun", [])
        if any(value != "All" for value in values):
            causes.append(errors.not_supported("dryRun", values, ["All"]))
        if (strictness := self.query.get("fieldValidation", "")) not in FIELD_VALIDATIONS:
            causes.append(errors.not_supported("fieldValidation", strictness, FIELD_VALIDATIONS))
        if causes:
            raise invalid_options(options, causes)
        return bool(values)

    async def current(self) -> Entry:
        """Return the requested object in the requested version.  Raises StatusError(404)."""
        entry = self.server.store.get(self.key)
        if entry is None:
            raise self.not_found()
        return await self.converted(entry)

    async def converted(self, entry: Entry) -> Entry:
        """Return a stored object in the requested version."""
        (converted,) = await self.kind.from_storage([entry])
        return converted

    async def create(self, key: Key, obj: Json) -> Entry:
        """Store a new object and return it.  Raises StaleRevision if it exists already."""
        return await self.converted(await self.server.store.create(key, await self.kind.to_storage(obj)))

    async def update(self, entry: Entry, obj: Json) -> Entry:
        """Store an update that was computed from ``entry``, and return it.  Raises StaleRevision."""
        stored = await self.kind.to_storage(obj)
        return await self.converted(await self.server.store.update(entry.key, stored, entry.revision))

    async def compute(self, size: int, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a pure function; in a thread if it processes many bytes."""
        return await self.server.computations.run(size, function, *arguments)

    async def check(self, size: int, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a function that validates objects, in a thread if it evaluates expressions."""
        if self.kind.strategy.evaluates:
            return await evaluation.in_thread(function, *arguments)
        return await self.compute(size, function, *arguments)

    def require(self, verb: str) -> None:
        """Check that the user may also use this verb on the requested object.

        Raises StatusError(403).
        """
        info = replace(self.info, verb=verb)
        if not self.server.authorizer.allows(self.user, AuthorizationAttributes.from_request(info)):
            raise forbidden_request(self.user, info)

    def forbidden(self, obj: Json, detail: str, causes: Sequence[errors.Cause] = ()) -> errors.StatusError:
        """Return the 403 for a write of an object."""
        name = obj.get("metadata", {}).get("name", "")
        return errors.forbidden(self.kind.group, self.kind.plural, name, detail, causes)

    def not_found(self) -> errors.StatusError:
        return errors.not_found(self.kind.group, self.kind.plural, self.name)

    def decode(self, entry: Entry) -> Json:
        """Return a copy of an object of the requested version, with apiVersion and kind."""
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version} | entry.decode()


def invalid_options(kind: str, causes: list[Any]) -> errors.StatusError:
    """Return the 422 for an invalid query parameter or DeleteOptions."""
    return errors.invalid("meta.k8s.io", kind, "", causes)
