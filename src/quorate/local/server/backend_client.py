"""Requests to other servers (webhooks and aggregated APIs), by URL or by Service.

Cluster IPs are not routed on one machine.  As kube-apiserver does with ``--enable-aggregator-routing``, a
Service is resolved to the addresses in its EndpointSlices or Endpoints, or to the host of type
ExternalName.  A pod that is a process is reached through its kubelet.  A simulated pod answers no requests:
a process on the same port of this machine does it for the pods of a Service.  The certificate of the server
must be for NAME.NAMESPACE.svc.
"""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from quorate.api.codec import Json
from quorate.kube.serving.tls import KeyPair
from quorate.local.connections import relay
from quorate.local.objects.errors import StatusError
from quorate.local.server.kubelet_client import KubeletClient, is_simulated
from quorate.local.server.storage.store import Key, Store

HTTPS_PORT = 443
SERVICE_NAME_LABEL = "kubernetes.io/service-name"
NO_HEADERS: CIMultiDict[str] = CIMultiDict()

LOOPBACK: Final = "127.0.0.1"
MAX_LISTENERS: Final = 64


@dataclass(frozen=True, slots=True)
class PodPort:
    """A TCP port of a pod.

    Addresses of pods are not routed on the machine.  A listener on the loopback device passes the connections
    for one port of a pod on to the kubelet.
    """

    namespace: str
    pod: str
    number: int


class PodPorts:
    """The listeners of the pod ports that were used last; ``close`` at the end."""

    def __init__(self, kubelet: KubeletClient) -> None:
        self._kubelet = kubelet
        self._listeners: dict[PodPort, asyncio.Server] = {}  # the one used last is the last

    async def address(self, port: PodPort) -> str:
        """Return the host and port at which the port of the pod is reached."""
        listener = self._listeners.pop(port, None)
        if listener is None:
            listener = await asyncio.start_server(partial(self._serve, port), LOOPBACK, 0)
        self._listeners[port] = listener
        if len(self._listeners) > MAX_LISTENERS:
            self._listeners.pop(next(iter(self._listeners))).close()
        return f"{LOOPBACK}:{listener.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    async def _serve(self, port: PodPort, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay a connection; close it at once if the pod does not accept one."""
        try:
            with suppress(StatusError):
                async with self._kubelet.connect(f"{port.namespace}/{port.pod}/{port.number}") as target:
                    await relay((reader, writer), target)
        finally:
            writer.close()


class BackendUnreachable(Exception):
    """The server cannot be reached, or its response is not valid."""


class ServiceNotFound(BackendUnreachable):
    """The Service does not exist."""


class ConnectionClosed(BackendUnreachable):
    """The connection was closed without a response."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The address of another server, and how each side authenticates."""

    url: str  # as messages show it: https://NAME.NAMESPACE.svc:443/path
    addresses: tuple[str | PodPort, ...]  # hosts with ports; the first that accepts a connection is used
    name: str  # expected in the certificate; empty: the host of the URL
    ca_bundle: bytes  # PEM; empty: the certificate authorities of this machine
    verify_tls: bool = True
    client_certificate: KeyPair | None = None  # the certificate that this server presents


class BackendClient:
    """An HTTP client with a connection pool; ``close`` at the end."""

    def __init__(self, store: Store, kubelet: KubeletClient) -> None:
        self._store = store
        self._kubelet = kubelet
        self._pod_ports = PodPorts(kubelet)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        self._pod_ports.close()
        if self._session is not None:
            await self._session.close()

    def resolve(self, config: Json) -> Backend:
        """Return the backend of a clientConfig (``url`` or ``service``, ``caBundle``).

        Raises BackendUnreachable.
        """
        ca_bundle = base64.b64decode(config.get("caBundle", ""))
        if "url" in config:
            host = config["url"].partition("://")[2].partition("/")[0]
            return Backend(config["url"], (host,), "", ca_bundle)
        service = config["service"]
        return self.resolve_service(service, service.get("path", ""), ca_bundle)

    def resolve_service(
        self,
        service: Json,
        path: str,
        ca_bundle: bytes,
        *,
        verify_tls: bool = True,
        client_certificate: KeyPair | None = None,
    ) -> Backend:
        """Return the backend of a Service (``namespace``, ``name``, ``port``).

        Raises BackendUnreachable.
        """
        port = service.get("port", HTTPS_PORT)
        host = f"{service['name']}.{service['namespace']}.svc"
        addresses = self._service_addresses(service["namespace"], service["name"], port)
        url = f"https://{host}:{port}/{path.removeprefix('/')}"
        return Backend(url, addresses, host, ca_bundle, verify_tls, client_certificate)

    async def post(self, backend: Backend, document: bytes, timeout_s: float) -> bytes:
        """POST a JSON document and return the response body.

        Raises BackendUnreachable, also for any status but 200.
        """
        url = f"{backend.url}?timeout={timeout_s:g}s"
        try:
            return await self._request_body("POST", backend, url, timeout_s, document)
        except ConnectionClosed:
            # The backend had closed an idle connection.  Reviews have no side effects, so send once more.
            return await self._request_body("POST", backend, url, timeout_s, document)

    async def get(
        self, backend: Backend, url: str, timeout_s: float, headers: Mapping[str, str] = NO_HEADERS
    ) -> bytes:
        """GET a URL of a backend and return the body.

        Raises BackendUnreachable, also for any status but 200.
        """
        return await self._request_body("GET", backend, url, timeout_s, headers=headers)

    async def _request_body(
        self,
        method: str,
        backend: Backend,
        url: str,
        timeout_s: float,
        body: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> bytes:
        sent = {"Content-Type": "application/json", **headers}
        try:
            async with asyncio.timeout(timeout_s), self.request(method, backend, url, body, sent) as response:
                content = await response.read()
        except TimeoutError as error:
            raise BackendUnreachable(f'{method.title()} "{url}": context deadline exceeded') from error
        except aiohttp.ServerDisconnectedError as error:
            raise ConnectionClosed(f'{method.title()} "{url}": EOF') from error
        except (aiohttp.ClientError, OSError) as error:
            raise BackendUnreachable(f'{method.title()} "{url}": {error}') from error
        if response.status != 200:
            text = content[:2048].decode("utf-8", "replace").strip()
            raise BackendUnreachable(
                f'an error on the server ("{text}") has prevented the request from succeeding'
            )
        return content

    @asynccontextmanager
    async def request(
        self,
        method: str,
        backend: Backend,
        url: str,
        body: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; ``url`` starts with the URL of the backend.  Raises aiohttp.ClientError."""
        async with await self._connect_first(method, backend, url, body, headers) as response:
            yield response

    async def _connect_first(
        self, method: str, backend: Backend, url: str, body: bytes, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Send to the first address that accepts a connection.

        Endpoints may list a process that has exited.
        """
        for address in backend.addresses[:-1]:
            with suppress(aiohttp.ClientConnectorError):
                return await self._send(method, backend, address, url, body, headers)
        return await self._send(method, backend, backend.addresses[-1], url, body, headers)

    async def _send(
        self,
        method: str,
        backend: Backend,
        address: str | PodPort,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
    ) -> aiohttp.ClientResponse:
        if isinstance(address, PodPort):
            address = await self._pod_ports.address(address)
        if self._session is None:
            # No limits and no timeout here: each caller sets its own timeout.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(),
                auto_decompress=False,
                skip_auto_headers=("Accept-Encoding", "Content-Type", "User-Agent"),
            )
        scheme, _, rest = url.partition("://")
        host, _, path = rest.partition("/")
        return await self._session.request(
            method,
            URL(f"{scheme}://{address}/{path}", encoded=True),
            data=body or None,
            headers=CIMultiDict([("Host", host), *headers.items()]),
            ssl=_ssl_context(backend.ca_bundle, backend.verify_tls, backend.client_certificate),
            server_hostname=backend.name or None,
            allow_redirects=False,
        )

    def _service_addresses(self, namespace: str, name: str, port: int) -> tuple[str | PodPort, ...]:
        """Return the endpoints of a service port.  Raises BackendUnreachable."""
        entry = self._store.get(Key("services", namespace, name))
        if entry is None:
            raise ServiceNotFound(f'service "{name}" not found')
        spec = entry.decode().get("spec", {})
        if spec.get("type") == "ExternalName":
            return (f"{spec['externalName']}:{port}",)
        service_port = next(
            (candidate for candidate in spec.get("ports", ()) if candidate["port"] == port), None
        )
        if service_port is None:
            raise BackendUnreachable(f'no service port {port} found for service "{name}"')
        addresses = tuple(
            dict.fromkeys(self._endpoint_addresses(namespace, name, service_port.get("name", "")))
        )
        if not addresses:
            raise BackendUnreachable(f'no endpoints available for service "{name}"')
        return addresses

    def _endpoint_addresses(self, namespace: str, name: str, port_name: str) -> Iterator[str | PodPort]:
        """Yield the ready addresses with the number of the named port."""
        for entry in self._store.entries("endpointslices.discovery.k8s.io", namespace):
            if entry.labels.get(SERVICE_NAME_LABEL) != name:
                continue
            slice_ = entry.decode()
            for number in _numbers(slice_.get("ports"), port_name):
                for endpoint in slice_.get("endpoints") or ():
                    if endpoint.get("conditions", {}).get("ready", True):
                        for host in endpoint.get("addresses", ()):
                            yield self._address(endpoint, host, number, namespace)
        endpoints = self._store.get(Key("endpoints", namespace, name))
        for subset in endpoints.decode().get("subsets", ()) if endpoints is not None else ():
            for number in _numbers(subset.get("ports"), port_name):
                for address in subset.get("addresses", ()):
                    yield self._address(address, address["ip"], number, namespace)

    def _address(self, endpoint: Json, host: str, number: int, namespace: str) -> str | PodPort:
        """Return where an endpoint is reached: this machine stands for simulated pods."""
        node, target = endpoint.get("nodeName"), endpoint.get("targetRef", {})
        if not node:
            return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
        if target.get("kind") == "Pod" and self._kubelet.exists and not is_simulated(self._store, node):
            return PodPort(namespace, target["name"], number)
        return f"{LOOPBACK}:{number}"


def _numbers(ports: list[Json] | None, name: str) -> list[int]:
    return [port["port"] for port in ports or () if port.get("name", "") == name]


@lru_cache(maxsize=64)
def _ssl_context(ca_bundle: bytes, verify_tls: bool, client_certificate: KeyPair | None) -> ssl.SSLContext:
    """Return the context of connections to a backend.  Raises BackendUnreachable."""
    try:
        ssl_context = ssl.create_default_context(cadata=ca_bundle.decode() if ca_bundle else None)
    except (UnicodeDecodeError, ssl.SSLError) as refusal:  # a stored caBundle may be anything
        raise BackendUnreachable("unable to load root certificates") from refusal
    if not verify_tls:
        ssl_context.check_hostname, ssl_context.verify_mode = False, ssl.CERT_NONE
    if client_certificate is not None:
        # The ssl module loads certificates from files only.  The file is private and exists for a moment.
        with tempfile.NamedTemporaryFile() as file:
            file.write(client_certificate.key + client_certificate.certificate)
            file.flush()
            ssl_context.load_cert_chain(file.name)
    return ssl_context
