"""The endpoints controller: keeps EndpointSlices and Endpoints of services with a selector."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from quorate.api.codec import Json, convert, encode_sorted
from quorate.api.meta import Key
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.informer import Change, Informer
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.services.endpoints import (
    ENDPOINTS_MANAGED_BY_LABEL,
    ENDPOINTS_MANAGER,
    MANAGED_BY_LABEL,
    MANAGER,
    desired_endpoints,
    desired_slices,
    endpoints_by_ports,
    has_endpoints,
    selects,
)
from quorate.local.controllers.services.types import (
    ENDPOINT_SLICES,
    ENDPOINTS,
    PODS,
    SERVICE_NAME_LABEL,
    SERVICES,
    EndpointSlice,
    Pod,
    Service,
)


class EndpointsController(Controller):
    """Watches pods only from the first service with a selector on: most clusters for batch jobs have none."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__("endpoints", context)
        self._services = Informer(self._client, SERVICES)
        self._slices = Informer(self._client, ENDPOINT_SLICES)
        self._pods = Informer(self._client, PODS)
        self._needs_pods = asyncio.Event()
        self._applied: dict[Key, bytes] = {}  # the Endpoints objects as this process has written them
        self._services.add_index("namespace", lambda service: (service.metadata.namespace,))
        self._pods.add_index("namespace", lambda pod: (pod.metadata.namespace,))
        self._slices.add_index("service", _service_of)
        self._services.subscribe(self._on_service)
        self._slices.subscribe(self._on_slice)
        self._pods.subscribe(self._on_pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._services.run())
            await self._services.synced.wait()
            await self._needs_pods.wait()
            for informer in (self._slices, self._pods):
                tasks.create_task(informer.run())
                await informer.synced.wait()
            tasks.create_task(super().run())

    def _on_service(self, change: Change[Service]) -> None:
        if any(map(has_endpoints, change.versions)):
            self._needs_pods.set()
            self._reconciler.enqueue(change.key)

    def _on_slice(self, change: Change[EndpointSlice]) -> None:
        for endpoint_slice in change.versions:
            for key in _service_of(endpoint_slice):
                self._reconciler.enqueue(key)

    def _on_pod(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and _is_same_endpoint(old, new):
            return
        for service in self._services.by_index("namespace", change.key.namespace):
            if has_endpoints(service) and any(
                selects(service, pod.metadata.labels) for pod in change.versions
            ):
                self._reconciler.enqueue(service.metadata.key)

    async def reconcile(self, key: Key) -> None:
        service = self._services.get(key)
        if service is None or service.metadata.deletion_timestamp is not None:
            self._applied.pop(key, None)  # the objects are deleted with their owner
            return
        if not has_endpoints(service):
            return
        pods = self._pods.by_index("namespace", key.namespace)
        grouped = endpoints_by_ports(service, (pod for pod in pods if selects(service, pod.metadata.labels)))
        try:
            await self._write_slices(key, desired_slices(service, grouped))
            await self._write_endpoints(key, desired_endpoints(service, grouped))
        except Forbidden as refusal:
            # A terminating namespace gets no new objects; its service is deleted soon.
            if all(cause.reason != "NamespaceTerminating" for cause in refusal.details.causes):
                raise

    async def _write_slices(self, key: Key, desired: dict[str, Json]) -> None:
        present = {one.metadata.name: one for one in self._slices.by_index("service", key)}
        for name, content in desired.items():
            if name not in present or not _has_content(present[name], content):
                await self._client.apply(ENDPOINT_SLICES, Key(key.namespace, name), content)
        for name in present.keys() - desired.keys():
            with suppress(NotFound):
                await self._client.delete(ENDPOINT_SLICES, Key(key.namespace, name))

    async def _write_endpoints(self, key: Key, desired: Json) -> None:
        """Write the Endpoints of a service, unless a user has written them: for webhooks on this machine."""
        content = encode_sorted(desired)
        if self._applied.get(key) == content:
            return
        present = await self._client.find(ENDPOINTS, key)
        if present is None:
            present = desired
        if present["metadata"].get("labels", {}).get(ENDPOINTS_MANAGED_BY_LABEL) == ENDPOINTS_MANAGER:
            await self._client.apply(ENDPOINTS, key, desired)
        self._applied[key] = content


def _service_of(endpoint_slice: EndpointSlice) -> Iterable[Key]:
    """Return the key of the service if this controller keeps the slice."""
    labels = endpoint_slice.metadata.labels
    if labels.get(MANAGED_BY_LABEL) == MANAGER and SERVICE_NAME_LABEL in labels:
        return (Key(endpoint_slice.metadata.namespace, labels[SERVICE_NAME_LABEL]),)
    return ()


def _has_content(present: EndpointSlice, content: Json) -> bool:
    wanted = convert(EndpointSlice, content)
    return (
        (present.endpoints or ()) == (wanted.endpoints or ())
        and (present.ports or ()) == (wanted.ports or ())
        and wanted.metadata.labels.items() <= present.metadata.labels.items()
    )


def _is_same_endpoint(old: Pod, new: Pod) -> bool:
    """Return True if nothing that an endpoint shows differs, as in most updates of a pod."""
    return (
        old.status == new.status
        and old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    )
