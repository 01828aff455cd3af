"""What the DNS server and the service proxy read of the cluster: services and their endpoints."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.informer import Change, Informer
from quorate.local.controllers.services import (
    ENDPOINT_SLICES,
    SERVICE_NAME_LABEL,
    SERVICES,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    Service,
)


@dataclass(frozen=True, slots=True)
class PortedEndpoint:
    """An endpoint of a service with its ports."""

    service: Key
    endpoint: Endpoint
    ports: tuple[EndpointPort, ...]


class ClusterView:
    """Caches of services and endpoint slices; ``run`` keeps them up to date."""

    def __init__(self, client: Client) -> None:
        self._services = Informer(client, SERVICES)
        self._slices = Informer(client, ENDPOINT_SLICES)
        self._services.add_index("address", lambda service: (service.spec.cluster_ip,))
        self._slices.add_index("service", _services_of)
        self._slices.add_index("address", _addresses_of)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._services.run())
            tasks.create_task(self._slices.run())

    async def wait_synced(self) -> None:
        await self._services.synced.wait()
        await self._slices.synced.wait()

    def subscribe(self, on_change: Callable[[Key], None]) -> None:
        """Call ``on_change`` with the key of a service whenever the service or its endpoints change."""

        def on_slice(change: Change[EndpointSlice]) -> None:
            for endpoint_slice in change.versions:
                for key in _services_of(endpoint_slice):
                    on_change(key)

        self._services.subscribe(lambda change: on_change(change.key))
        self._slices.subscribe(on_slice)

    def service(self, key: Key) -> Service | None:
        return self._services.get(key)

    def service_with_address(self, address: str) -> Service | None:
        return next(iter(self._services.by_index("address", address)), None)

    def endpoints(self, key: Key) -> Iterator[PortedEndpoint]:
        """Yield the ready endpoints of a service."""
        for endpoint_slice in self._slices.by_index("service", key):
            yield from _ready(key, endpoint_slice)

    def endpoints_with_address(self, address: str) -> Iterator[PortedEndpoint]:
        for endpoint_slice in self._slices.by_index("address", address):
            for key in _services_of(endpoint_slice):
                yield from (
                    ported for ported in _ready(key, endpoint_slice) if address in ported.endpoint.addresses
                )


def _ready(key: Key, endpoint_slice: EndpointSlice) -> Iterator[PortedEndpoint]:
    for endpoint in endpoint_slice.endpoints or ():
        if endpoint.is_ready:
            yield PortedEndpoint(key, endpoint, endpoint_slice.ports or ())


def _services_of(endpoint_slice: EndpointSlice) -> Iterable[Key]:
    name = endpoint_slice.metadata.labels.get(SERVICE_NAME_LABEL)
    return (Key(endpoint_slice.metadata.namespace, name),) if name else ()


def _addresses_of(endpoint_slice: EndpointSlice) -> Iterable[str]:
    return (address for endpoint in endpoint_slice.endpoints or () for address in endpoint.addresses)
