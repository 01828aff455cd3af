"""The objects of the API server that pods refer to."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from quorate.api import codec
from quorate.api.meta import Key, ObjectMeta, Struct, Uid
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import Resource
from quorate.local.runtime.pod_types import (
    CLAIMS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    VOLUMES,
    ConfigMap,
    Pod,
    Secret,
    Service,
    TokenSource,
)
from quorate.local.runtime.volumes.content import VolumeError

TOKEN_REFRESH: Final = 0.8  # of the lifetime, as a kubelet
MIN_TOKEN_LIFETIME_S: Final = 600


class ServiceAccount(Struct):
    metadata: ObjectMeta
    automount_service_account_token: bool = True


SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ServiceAccount)


class _TokenStatus(Struct):
    token: str


class _TokenRequest(Struct):
    status: _TokenStatus


class ApiObjects:
    """Reads objects when they are needed, and reports changes of ConfigMaps and Secrets."""

    def __init__(self, client: Client, clock: Clock, authority: bytes) -> None:
        self._client = client
        self._clock = clock
        self._authority = authority
        self._services = Informer(client, SERVICES)
        self._config_maps = Informer(client, CONFIG_MAPS)
        self._secrets = Informer(client, SECRETS)
        # Tokens of pods by uid, path and audience, with the moment at which each is to be replaced.
        self._tokens: dict[tuple[Uid, str, str], tuple[str, float]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._services, self._config_maps, self._secrets):
                tasks.create_task(informer.run())

    async def synced(self) -> None:
        for informer in (self._services, self._config_maps, self._secrets):
            await informer.synced.wait()

    def subscribe(self, on_change: Callable[[str, Key], None]) -> None:
        """Call ``on_change`` with the kind and the key of each ConfigMap and Secret that changes."""

        def config_map(change: Change[ConfigMap]) -> None:
            on_change("ConfigMap", change.key)

        def secret(change: Change[Secret]) -> None:
            on_change("Secret", change.key)

        self._config_maps.subscribe(config_map)
        self._secrets.subscribe(secret)

    def services(self) -> Iterable[Service]:
        return self._services

    def authority(self) -> bytes:
        return self._authority

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        try:
            return await self._client.get(CONFIG_MAPS, Key(namespace, name))
        except NotFound:
            return None

    async def secret(self, namespace: str, name: str) -> Secret | None:
        try:
            return await self._client.get(SECRETS, Key(namespace, name))
        except NotFound:
            return None

    async def automounts(self, pod: Pod) -> bool:
        """Return True unless the pod's service account wants no token in its pods."""
        key = Key(pod.metadata.namespace, pod.spec.service_account_name or "default")
        try:
            account = await self._client.get(SERVICE_ACCOUNTS, key)
        except NotFound:
            return True
        return account.automount_service_account_token

    async def token(self, pod: Pod, source: TokenSource) -> str:
        """Return a token of the pod's service account, a new one before the last expires."""
        identity = (pod.metadata.uid, source.path, source.audience)
        known = self._tokens.get(identity)
        if known is not None and self._clock.now() < known[1]:
            return known[0]
        account = pod.spec.service_account_name or "default"
        lifetime_s = max(source.expiration_seconds, MIN_TOKEN_LIFETIME_S)
        path = SERVICE_ACCOUNTS.path(pod.metadata.namespace, account, "token")
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [source.audience] if source.audience else [],
                "expirationSeconds": lifetime_s,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": pod.metadata.name,
                    "uid": pod.metadata.uid,
                },
            },
        }
        try:
            answer = await self._client.request("POST", path, body=codec.encode(request))
        except NotFound as error:
            raise VolumeError(f"failed to fetch token: {error}") from error
        token = codec.decode(_TokenRequest, answer).status.token
        self._tokens[identity] = (token, self._clock.now() + TOKEN_REFRESH * lifetime_s)
        return token

    def token_refresh_at(self, uid: Uid) -> float | None:
        """Return when the first token of a pod is to be replaced, or None if it has none."""
        return min((at for (pod, _, _), (_, at) in self._tokens.items() if pod == uid), default=None)

    def forget(self, uid: Uid) -> None:
        """Drop what is kept for a pod."""
        for identity in [identity for identity in self._tokens if identity[0] == uid]:
            del self._tokens[identity]

    async def claim_path(self, namespace: str, name: str) -> Path | None:
        """Return the directory of a claim's volume, or None if it has none on this machine."""
        try:
            claim = await self._client.get(CLAIMS, Key(namespace, name))
            if not claim.spec.volume_name:
                return None
            volume = await self._client.get(VOLUMES, Key("", claim.spec.volume_name))
        except NotFound:
            return None
        source = volume.spec.host_path or volume.spec.local
        return Path(source.path) if source is not None else None
