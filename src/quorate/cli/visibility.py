"""Who waits in which place, asked of a local cluster as of any other: through its API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from quorate.api.configuration.process import Address
from quorate.api.configuration.webhooks import TlsOptions
from quorate.api.kueue.visibility import GROUP, VERSIONS
from quorate.api.meta import Key
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.resources import Json, Resource, untyped
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.kube.serving.front_proxy import FrontProxyVerifier
from quorate.observe.https_endpoints import HttpsEndpoints
from quorate.observe.replica import Replica
from quorate.observe.visibility import pending_workloads_access, visibility

SERVICE: Final = Key("kube-system", "quorate-visibility")
SERVICES: Final = untyped("", "v1", "services", "Service", True)
API_SERVICES: Final = untyped("apiregistration.k8s.io", "v1", "apiservices", "APIService", False)
_ANY_PORT: Final = Address("127.0.0.1", 0)


@asynccontextmanager
async def serve_visibility(client: Client, clock: Clock, replica: Replica) -> AsyncIterator[None]:
    """Answer the visibility API of the cluster of ``client``, on this machine, while the block lasts.

    The cluster forgets about it at the end: an API that nobody answers slows down every client.
    """
    endpoints = HttpsEndpoints(
        DelegatedAuth(client, clock), partial(FrontProxyVerifier, client), clock, TlsOptions()
    )
    app = visibility(replica)
    async with endpoints.protected(
        "visibilityServer", _ANY_PORT, app, pending_workloads_access, aggregated=True
    ) as at:
        await _register(client, at.port)
        yield
        for version in VERSIONS:
            await client.delete(API_SERVICES, Key("", f"{version}.{GROUP}"))


async def _register(client: Client, port: int) -> None:
    await _apply(client, SERVICES, SERVICE, {"type": "ExternalName", "externalName": _ANY_PORT.host})
    for version in VERSIONS:
        spec = {
            "group": GROUP,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": SERVICE.name, "namespace": SERVICE.namespace, "port": port},
        }
        await _apply(client, API_SERVICES, Key("", f"{version}.{GROUP}"), spec)


async def _apply(client: Client, resource: Resource[Json], key: Key, spec: Json) -> None:
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    await client.patch(resource, key, body, kind=PatchKind.APPLY, force=True)
