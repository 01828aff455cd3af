"""Delegated authentication and authorization: the API server reviews tokens and access.

Decisions are cached for ten seconds, as in kube-apiserver's delegated authentication: a dashboard sends many
requests, and a revoked permission takes effect soon enough.
"""

import json
import ssl
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from quorate.api import codec
from quorate.api.core import ConfigMap
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.informer import Change, Informer
from quorate.kube.limits import REVIEW_CACHE_S, REVIEW_CACHE_SIZE
from quorate.kube.log import logger
from quorate.kube.resources import CONFIG_MAPS

V = TypeVar("V")

FRONT_PROXY_NAMESPACE: Final = "kube-system"
FRONT_PROXY_CONFIG_MAP: Final = "extension-apiserver-authentication"


class User(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ResourceAccess(msgspec.Struct, frozen=True):
    """Access to an object, or with an empty ``name`` to all objects of the kind."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class PathAccess(msgspec.Struct, frozen=True):
    """Access to a non-resource path; ``verb`` is the HTTP method in lower case."""

    verb: str
    path: str


Access = ResourceAccess | PathAccess


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _SelfStatus(msgspec.Struct, rename="camel"):
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _Answer(msgspec.Struct, Generic[V]):
    status: V


async def review_self(client: Client) -> User:
    """Return the user of the credentials of ``client``.  Raises ``RequestFailed``."""
    body = codec.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    reviewed = await client.request_as(_Answer[_SelfStatus], "POST", path, body=body)
    return _user(reviewed.status.user_info)


class FrontProxyVerifier:
    """Trusts no client before ``run`` reads the ConfigMap; then ``context`` requests client certificates.

    One ConfigMap of every cluster has the authority of its client certificate and the allowed common names.
    """

    def __init__(self, client: Client, context: ssl.SSLContext) -> None:
        self._context = context
        self._names: frozenset[str] | None = None  # empty: any; None: none is trusted yet
        self._informer = Informer(
            client,
            CONFIG_MAPS,
            namespace=FRONT_PROXY_NAMESPACE,
            field_selector=f"metadata.name={FRONT_PROXY_CONFIG_MAP}",
        )
        self._informer.subscribe(self._changed)

    async def run(self) -> None:
        """Follow the ConfigMap until cancelled."""
        await self._informer.run()

    def is_trusted(self, certificate: Mapping[str, Any]) -> bool:
        """Return True if the client with ``certificate`` (``getpeercert``) may name other users."""
        subject = certificate.get("subject", ())
        names = {value for part in subject for key, value in part if key == "commonName"}
        return self._names is not None and (not self._names or not self._names.isdisjoint(names))

    def _changed(self, change: Change[ConfigMap]) -> None:
        data = change.new.data if change.new is not None else {}
        authority = data.get("requestheader-client-ca-file", "")
        try:
            names = frozenset(map(str, json.loads(data.get("requestheader-allowed-names", "[]"))))
            if authority:
                # A replaced authority stays trusted until the process ends: it cannot be unloaded.
                self._context.load_verify_locations(cadata=authority)
                self._context.verify_mode = ssl.CERT_OPTIONAL
        except (ValueError, TypeError, ssl.SSLError) as error:
            logger(__name__).warning(
                "front proxy configuration is invalid", config_map=FRONT_PROXY_CONFIG_MAP, problem=str(error)
            )
            return
        self._names = names if authority else None


class DelegatedAuth:
    """Sends reviews to the API server; raises ``RequestFailed`` if one fails."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        cache_size: int = REVIEW_CACHE_SIZE,
        cache_s: float = REVIEW_CACHE_S,
    ) -> None:
        """``cache_size`` answers of each kind are reused for ``cache_s`` seconds."""
        self._client = client
        self.clock = clock
        self._users: _ExpiringCache[str, User | None] = _ExpiringCache(cache_size, cache_s)
        self._decisions: _ExpiringCache[tuple[User, Access], bool] = _ExpiringCache(cache_size, cache_s)

    def front_proxy(self, context: ssl.SSLContext) -> FrontProxyVerifier:
        """Return the verifier of the API server that asks, as a client of ``context``."""
        return FrontProxyVerifier(self._client, context)

    async def authenticate(self, token: str) -> User | None:
        """Return the user of a bearer token; None for an invalid token."""
        now = self.clock.now()
        cached = self._users.get(token, now)
        if cached is not None:
            return cached[0]
        status = await self._review("authentication.k8s.io", "TokenReview", {"token": token}, _TokenStatus)
        user = _user(status.user) if status.authenticated else None
        self._users.put(token, user, now)
        return user

    async def is_allowed(self, user: User, access: Access) -> bool:
        now = self.clock.now()
        cached = self._decisions.get((user, access), now)
        if cached is not None:
            return cached[0]
        attributes = {key: value for key, value in msgspec.structs.asdict(access).items() if value}
        kind = "resourceAttributes" if isinstance(access, ResourceAccess) else "nonResourceAttributes"
        spec: dict[str, object] = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            kind: attributes,
        }
        status = await self._review("authorization.k8s.io", "SubjectAccessReview", spec, _AccessStatus)
        self._decisions.put((user, access), status.allowed, now)
        return status.allowed

    async def _review(self, group: str, kind: str, spec: dict[str, object], type_: type[V]) -> V:
        body = codec.encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        reviewed: type[_Answer[V]] = _Answer[type_]  # type: ignore[valid-type]
        path = f"/apis/{group}/v1/{kind.lower()}s"
        return (await self._client.request_as(reviewed, "POST", path, body=body)).status


def _user(info: _UserInfo) -> User:
    extra = tuple((key, tuple(values)) for key, values in sorted(info.extra.items()))
    return User(info.username, info.uid, tuple(info.groups), extra)


K = TypeVar("K", bound=Hashable)


class _ExpiringCache(Generic[K, V]):
    """The latest values, with their time of insertion."""

    def __init__(self, size: int, kept_s: float) -> None:
        self._size = size
        self._kept_s = kept_s
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, key: K, now: float) -> tuple[V] | None:
        entry = self._entries.get(key)
        return None if entry is None or now >= entry[1] + self._kept_s else (entry[0],)

    def put(self, key: K, value: V, now: float) -> None:
        self._entries[key] = value, now
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
