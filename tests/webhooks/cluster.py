"""A cluster with an API server that calls the webhooks of this process through a Service."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.api.configuration import Configuration, default_configuration
from quorate.api.configuration.gang import PodGroupWebhooks
from quorate.api.configuration.integrations import Integrations
from quorate.api.configuration.process import Address
from quorate.api.configuration.webhooks import Webhooks
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.install.crds import gang_definitions, queueing_definitions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import NAMESPACES, untyped
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.processes.local.apply import install_definitions
from quorate.webhooks.process import run_webhooks, served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.serving_certificate import MUTATING, VALIDATING
from quorate.webhooks.webhook_configurations import conversion, webhook_configurations
from tests.local.clusters import api_server
from tests.observe.listening import free_port

OWN = "kueue-system"
SERVICES = untyped("", "v1", "services", "Service", True)
ENDPOINT_SLICES = untyped("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
WITHIN_S = 20.0


def a_configuration(
    port: int, frameworks: tuple[str, ...], pod_groups: PodGroupWebhooks | None
) -> Configuration:
    return msgspec.structs.replace(
        default_configuration(),
        webhooks=Webhooks(address=Address("127.0.0.1", port)),
        integrations=Integrations(frameworks=frameworks),
        pod_group_webhooks=pod_groups,
    )


@dataclass
class WebhookCluster:
    client: Client
    configuration: Configuration
    serving: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        serves = asyncio.Event()
        self.serving = asyncio.create_task(run_webhooks(self.client, WallClock(), self.configuration, serves))
        started = asyncio.create_task(serves.wait())
        await asyncio.wait([self.serving, started], timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if self.serving.done():
            self.serving.result()
        assert serves.is_set(), "webhooks are not served"

    async def stop(self) -> None:
        if self.serving is not None:
            self.serving.cancel()
            await asyncio.gather(self.serving, return_exceptions=True)
            self.serving = None

    async def install(self) -> None:
        """Create the Service, the webhook configurations and the CRDs, as an administrator would."""
        address, rules = self.configuration.webhooks.address, self.configuration.certificates
        assert address is not None, "the webhooks of this cluster have an address"
        endpoint = WebhookEndpoint(namespace=OWN, service=rules.service)
        for name in (OWN, "team"):
            await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        ports = [{"name": "https", "port": 443, "targetPort": address.port}]
        await self.client.create(
            SERVICES, {"metadata": {"name": rules.service, "namespace": OWN}, "spec": {"ports": ports}}
        )
        endpoints: dict[str, Any] = {
            "metadata": {
                "name": rules.service,
                "namespace": OWN,
                "labels": {"kubernetes.io/service-name": rules.service},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address.host]}],
            "ports": [{"name": "https", "port": address.port}],
        }
        await self.client.create(ENDPOINT_SLICES, endpoints)
        conversions = dict.fromkeys(CONVERTED_KINDS, conversion(endpoint))
        definitions = (*queueing_definitions(conversions), *gang_definitions())
        await install_definitions(self.client, definitions)
        routes = served_routes(self.configuration)
        for resource, manifest in zip(
            (MUTATING, VALIDATING), webhook_configurations(self.configuration, routes, endpoint), strict=True
        ):
            await self.client.create(resource, manifest)


@asynccontextmanager
async def webhook_cluster(
    *frameworks: str, serves: bool = True, pod_groups: PodGroupWebhooks | None = None
) -> AsyncIterator[WebhookCluster]:
    async with api_server() as server:
        cluster = RestConfig(server.url, credentials=Token(server.token))
        async with Client(cluster, random.Random(1)) as client:
            configuration = a_configuration(free_port(), frameworks or ("batch/job",), pod_groups)
            world = WebhookCluster(client, configuration)
            await world.install()
            try:
                if serves:
                    await world.serve()
                yield world
            finally:
                await world.stop()
