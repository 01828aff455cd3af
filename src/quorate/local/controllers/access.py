"""Access to the API server: service accounts, their tokens, its authority, and aggregated ClusterRoles.

The rules are those of kube-controller-manager.
"""

import base64
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core import ServiceAccount
from quorate.api.meta import Key, LabelSelector, ObjectMeta, Struct, matches_selector
from quorate.kube.client import Client
from quorate.kube.errors import AlreadyExists, Forbidden, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import CONFIG_MAPS, SERVICE_ACCOUNTS, Resource
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.metadata_cache import CachedObject, MetadataCache
from quorate.local.controllers.namespace import Namespace
from quorate.local.controllers.pod_control import is_namespace_terminating

TYPE: Final = "kubernetes.io/service-account-token"
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
LIFETIME_S: Final = 2**32  # the longest of a token request; tokens of kube-controller-manager do not expire


class Secret(Struct):
    """A Secret; data is base64."""

    metadata: ObjectMeta
    type: str = ""
    data: Mapping[str, str] = {}


SECRETS: Final = Resource("", "v1", "secrets", "Secret", True, Secret)


class TokensController(Controller):
    """Fills each Secret of the type, and deletes it with its service account.  A key is a Secret."""

    def __init__(
        self,
        context: ControllerContext,
        authority: bytes,
        accounts: Informer[ServiceAccount],
        secrets: Informer[Secret],
    ) -> None:
        """``authority``: certificates in PEM; empty without any."""
        super().__init__("tokens-controller", context, accounts, secrets)
        self._authority = authority
        self._accounts = accounts
        self._secrets = secrets
        secrets.subscribe(self._on_secret)
        accounts.subscribe(self._on_account)

    def _on_secret(self, change: Change[Secret]) -> None:
        if change.new is not None and change.new.type == TYPE:
            self._reconciler.enqueue(change.key)

    def _on_account(self, change: Change[ServiceAccount]) -> None:
        if change.old is None or change.new is None:
            for secret in self._secrets:
                if secret.type == TYPE and _account_of(secret) == change.key:
                    self._reconciler.enqueue(secret.metadata.key)

    async def reconcile(self, key: Key) -> None:
        secret = self._secrets.get(key)
        if secret is None or secret.type != TYPE or secret.metadata.deletion_timestamp is not None:
            return
        account = self._accounts.get(_account_of(secret)) or await self._client.find(
            SERVICE_ACCOUNTS, _account_of(secret)
        )
        uid = secret.metadata.annotations.get(ACCOUNT_UID)
        if account is None or uid not in (None, account.metadata.uid):
            await self._client.delete(SECRETS, key, uid=secret.metadata.uid)
            return
        wanted = {"namespace": key.namespace.encode()} if "namespace" not in secret.data else {}
        if self._authority:
            wanted["ca.crt"] = self._authority
        data = {name: base64.b64encode(value).decode() for name, value in wanted.items()}
        missing = {name: value for name, value in data.items() if secret.data.get(name) != value}
        if not secret.data.get("token"):
            missing["token"] = base64.b64encode((await self._token(secret, account)).encode()).decode()
        if missing or uid is None:
            metadata = {"uid": secret.metadata.uid, "annotations": {ACCOUNT_UID: account.metadata.uid}}
            await self._client.patch(SECRETS, key, {"metadata": metadata, "data": missing})

    async def _token(self, secret: Secret, account: ServiceAccount) -> str:
        """Return a token that ends with its Secret."""
        bound = bound_object(SECRETS, secret.metadata)
        spec = {"expirationSeconds": LIFETIME_S, "boundObjectRef": bound}
        return await request_token(self._client, account.metadata.key, spec)


class _TokenStatus(Struct):
    token: str


class _TokenRequest(Struct):
    status: _TokenStatus


async def request_token(client: Client, account: Key, spec: Json) -> str:
    """Return a new token of a service account; ``spec``: of the TokenRequest.  Raises ApiError."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = SERVICE_ACCOUNTS.path(account.namespace, account.name, "token")
    answer = await client.request("POST", path, body=codec.encode(body))
    return codec.decode(_TokenRequest, answer).status.token


def bound_object(kind: Resource[Any], metadata: ObjectMeta) -> Json:
    """Return the reference of a TokenRequest to the object with which the token ends."""
    return {
        "apiVersion": kind.api_version, "kind": kind.kind, "name": metadata.name, "uid": metadata.uid,
    }  # fmt: skip


def _account_of(secret: Secret) -> Key:
    return Key(secret.metadata.namespace, secret.metadata.annotations.get(ACCOUNT_NAME, ""))


class PolicyRule(Struct):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(name="nonResourceURLs", default=())


class AggregationRule(Struct):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class ClusterRole(Struct):
    metadata: ObjectMeta
    rules: tuple[PolicyRule, ...] | None = None
    aggregation_rule: AggregationRule | None = None


def aggregated_rules(
    role: ClusterRole, rule: AggregationRule, roles: Iterable[ClusterRole]
) -> tuple[PolicyRule, ...]:
    """Return the distinct rules of all other roles that a selector matches, by role name."""
    picked = sorted(
        (
            other
            for other in roles
            if other.metadata.name != role.metadata.name
            and any(matches_selector(s, other.metadata.labels) for s in rule.cluster_role_selectors)
        ),
        key=lambda other: other.metadata.name,
    )
    return tuple(dict.fromkeys(rule for other in picked for rule in other.rules or ()))


CLUSTER_ROLES: Final = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, ClusterRole
)


class ClusterRoleAggregator(Controller):
    """Sets the rules of an aggregated role: the union of the rules of the roles that it selects."""

    def __init__(self, context: ControllerContext, roles: Informer[ClusterRole]) -> None:
        super().__init__("cluster-role", context, roles)
        self._roles = roles
        roles.subscribe(self._on_role)

    def _on_role(self, _: Change[ClusterRole]) -> None:
        """Enqueue all aggregated roles: they are few, and roles change rarely."""
        for role in self._roles:
            if role.aggregation_rule is not None:
                self._reconciler.enqueue(role.metadata.key)

    async def reconcile(self, key: Key) -> None:
        role = self._roles.get(key)
        if role is None or role.aggregation_rule is None:
            return
        rules = aggregated_rules(role, role.aggregation_rule, self._roles)
        if rules == (role.rules or ()):
            return
        body: dict[str, Any] = {"rules": msgspec.to_builtins(rules)}
        with suppress(NotFound):  # deleted meanwhile
            await self._client.patch(CLUSTER_ROLES, key, body)


DEFAULT_SERVICE_ACCOUNT: Final = "default"


class ServiceAccountController(Controller):
    """Creates the missing service account ``default`` of each namespace."""

    def __init__(
        self, context: ControllerContext, namespaces: Informer[Namespace], accounts: Informer[ServiceAccount]
    ) -> None:
        super().__init__("service-account", context, namespaces, accounts)
        self._namespaces = namespaces
        self._accounts = accounts
        namespaces.subscribe(self._on_namespace)
        accounts.subscribe(self._on_account)

    def _on_namespace(self, change: Change[Namespace]) -> None:
        if change.new is not None:
            self._reconciler.enqueue(change.key)

    def _on_account(self, change: Change[ServiceAccount]) -> None:
        if change.new is None:
            self._reconciler.enqueue(Key("", change.key.namespace))

    async def reconcile(self, key: Key) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return
        if self._accounts.get(Key(key.name, DEFAULT_SERVICE_ACCOUNT)) is not None:
            return
        await _create_in(
            self._client, key.name, SERVICE_ACCOUNTS, {"metadata": {"name": DEFAULT_SERVICE_ACCOUNT}}
        )


ROOT_AUTHORITY: Final = "kube-root-ca.crt"


class RootAuthorityPublisher(Controller):
    """Keeps the ConfigMap of each namespace from which pods read the certificate authority of the server."""

    def __init__(
        self,
        context: ControllerContext,
        namespaces: Informer[Namespace],
        metadata_cache: MetadataCache,
        authority: str,
    ) -> None:
        """``authority``: certificates in PEM."""
        super().__init__("root-ca-certificate-publisher", context, namespaces, metadata_cache)
        self._namespaces = namespaces
        self._data = {"ca.crt": authority}
        namespaces.subscribe(lambda change: self._reconciler.enqueue(change.key))
        metadata_cache.subscribe(self._on_object)

    def _on_object(self, change: Change[CachedObject]) -> None:
        is_config_map = change.versions[0].resource.plural == CONFIG_MAPS.plural
        if is_config_map and change.key.name == ROOT_AUTHORITY:
            self._reconciler.enqueue(Key("", change.key.namespace))

    async def reconcile(self, key: Key) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return
        target = Key(key.name, ROOT_AUTHORITY)
        try:
            stored = (await self._client.get(CONFIG_MAPS, target)).data
            if stored != self._data:
                patch = {"data": {**dict.fromkeys(stored), **self._data}}
                await self._client.patch(CONFIG_MAPS, target, patch)
        except NotFound:
            body = {"metadata": {"name": ROOT_AUTHORITY}, "data": self._data}
            await _create_in(self._client, key.name, CONFIG_MAPS, body)


async def _create_in(client: Client, namespace: str, kind: Resource[Any], body: Json) -> None:
    """Create an object, unless it exists or ``namespace`` is terminating or deleted."""
    with suppress(AlreadyExists, NotFound):
        try:
            await client.create(kind, body, namespace)
        except Forbidden as refusal:  # other rejections are retried
            if not is_namespace_terminating(refusal):
                raise
