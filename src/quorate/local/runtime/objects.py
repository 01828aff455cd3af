"""The objects of the API server that pods refer to."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from quorate.api import core
from quorate.api.meta import Key, Uid
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import NotFound
from quorate.kube.informer import Informer
from quorate.kube.resources import PERSISTENT_VOLUME_CLAIMS, Resource
from quorate.local.controllers.access import SECRETS, Secret, bound_object, request_token
from quorate.local.controllers.services import SERVICES, Service
from quorate.local.runtime.pod_types import CONFIG_MAPS, PODS, VOLUMES, ConfigMap, Pod, TokenSource

TOKEN_REFRESH: Final = 0.8  # of the lifetime, as a kubelet
MIN_TOKEN_LIFETIME_S: Final = 600


class ServiceAccount(core.ServiceAccount):
    automount_service_account_token: bool = True


SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ServiceAccount)


class VolumeError(Exception):
    """A volume cannot be made now; the kubelet retries (``FailedMount``)."""


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
        self._config_maps.subscribe(lambda change: on_change("ConfigMap", change.key))
        self._secrets.subscribe(lambda change: on_change("Secret", change.key))

    def services(self) -> Iterable[Service]:
        return self._services

    def authority(self) -> bytes:
        return self._authority

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return await self._client.find(CONFIG_MAPS, Key(namespace, name))

    async def secret(self, namespace: str, name: str) -> Secret | None:
        return await self._client.find(SECRETS, Key(namespace, name))

    async def automounts(self, pod: Pod) -> bool:
        """Return True unless the pod's service account wants no token in its pods."""
        account = await self._client.find(SERVICE_ACCOUNTS, _account_key(pod))
        return account is None or account.automount_service_account_token

    async def token(self, pod: Pod, source: TokenSource) -> str:
        """Return a token of the pod's service account, a new one before the last expires."""
        identity = (pod.metadata.uid, source.path, source.audience)
        cached = self._tokens.get(identity)
        if cached is not None and self._clock.now() < cached[1]:
            return cached[0]
        lifetime_s = max(source.expiration_seconds, MIN_TOKEN_LIFETIME_S)
        spec = {
            "audiences": [source.audience] if source.audience else [],
            "expirationSeconds": lifetime_s,
            "boundObjectRef": bound_object(PODS, pod.metadata),
        }
        try:
            token = await request_token(self._client, _account_key(pod), spec)
        except NotFound as error:
            raise VolumeError(f"failed to fetch token: {error}") from error
        self._tokens[identity] = (token, self._clock.now() + TOKEN_REFRESH * lifetime_s)
        return token

    def token_refresh_at(self, uid: Uid) -> float | None:
        """Return when the first token of a pod is to be replaced, or None if it has none."""
        return min((at for (pod, _, _), (_, at) in self._tokens.items() if pod == uid), default=None)

    def forget(self, uid: Uid) -> None:
        """Drop the tokens of a pod."""
        for identity in [identity for identity in self._tokens if identity[0] == uid]:
            del self._tokens[identity]

    async def claim_path(self, namespace: str, name: str) -> Path | None:
        """Return the directory of a claim's volume, or None if it has none on this machine."""
        claim = await self._client.find(PERSISTENT_VOLUME_CLAIMS, Key(namespace, name))
        if claim is None or not claim.spec.volume_name:
            return None
        volume = await self._client.find(VOLUMES, Key("", claim.spec.volume_name))
        source = None if volume is None else volume.spec.host_path or volume.spec.local
        return Path(source.path) if source is not None else None


def _account_key(pod: Pod) -> Key:
    """Return the namespace and the name of the pod's service account."""
    return Key(pod.metadata.namespace, pod.spec.service_account_name or "default")
