"""Other servers that this one asks: by URL, or by the name of a Service.

Nothing on one machine routes the addresses of Services, so a Service is followed to what is behind it, as
kube-apiserver does with ``--enable-aggregator-routing``: its EndpointSlices, else its Endpoints; or the
host that a Service of type ExternalName names.  The certificate must be the Service's: NAME.NAMESPACE.svc.
"""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from quorate.kube.serving.certificates import KeyPair
from quorate.local.server.storage.store import Key, Store

Json = dict[str, Any]

HTTPS_PORT = 443
OF_SERVICE = "kubernetes.io/service-name"
NO_HEADERS: CIMultiDict[str] = CIMultiDict()


class Unreachable(Exception):
    """Nobody is there, or what is there does not answer as it should."""


class NoService(Unreachable):
    """There is no such Service."""


class Disconnected(Unreachable):
    """The connection ended without an answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is, and how it has to prove itself."""

    url: str  # as messages name it: https://NAME.NAMESPACE.svc:443/path
    addresses: tuple[str, ...]  # where to connect, host and port: to the first that listens
    name: str  # that the certificate must carry; empty: the host of the URL
    authority: bytes  # PEM of whom to trust; empty: whom this machine trusts
    verified: bool = True
    identity: KeyPair | None = None  # with which this server proves itself in turn


class Outside:
    """Connections to other servers, kept open between requests; ``close`` at the end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def place(self, config: Json) -> Place:
        """Where a clientConfig (``url`` or ``service``, ``caBundle``) leads to.  Raises Unreachable."""
        authority = base64.b64decode(config.get("caBundle", ""))
        if "url" in config:
            host = config["url"].partition("://")[2].partition("/")[0]
            return Place(config["url"], (host,), "", authority)
        service = config["service"]
        return self.of_service(service, service.get("path", ""), authority)

    def of_service(
        self,
        service: Json,
        path: str,
        authority: bytes,
        *,
        verified: bool = True,
        identity: KeyPair | None = None,
    ) -> Place:
        """Where a Service (``namespace``, ``name``, ``port``) leads to.  Raises Unreachable."""
        port = service.get("port", HTTPS_PORT)
        host = f"{service['name']}.{service['namespace']}.svc"
        addresses = _addresses(self._store, service["namespace"], service["name"], port)
        url = f"https://{host}:{port}/{path.removeprefix('/')}"
        return Place(url, addresses, host, authority, verified, identity)

    async def post(self, place: Place, document: bytes, timeout_s: float) -> bytes:
        """The body of the answer to a POST of JSON.  Raises Unreachable, also for any status but 200."""
        url = f"{place.url}?timeout={timeout_s:g}s"
        try:
            return await self._answer("POST", place, url, timeout_s, document)
        except Disconnected:
            # It had closed a connection that was idle, as servers do; a question may be asked twice.
            return await self._answer("POST", place, url, timeout_s, document)

    async def get(self, place: Place, url: str, timeout_s: float) -> bytes:
        """The body of the answer to a GET below a place.  Raises Unreachable, also for any status but 200."""
        return await self._answer("GET", place, url, timeout_s)

    async def _answer(
        self, method: str, place: Place, url: str, timeout_s: float, body: bytes = b""
    ) -> bytes:
        try:
            async with (
                asyncio.timeout(timeout_s),
                self.request(method, place, url, body, {"Content-Type": "application/json"}) as response,
            ):
                content = await response.read()
        except TimeoutError as late:
            raise Unreachable(f'{method.title()} "{url}": context deadline exceeded') from late
        except aiohttp.ServerDisconnectedError as failure:
            raise Disconnected(f'{method.title()} "{url}": EOF') from failure
        except (aiohttp.ClientError, OSError) as failure:
            raise Unreachable(f'{method.title()} "{url}": {failure}') from failure
        if response.status != 200:
            said = content[:2048].decode("utf-8", "replace").strip()
            raise Unreachable(f'an error on the server ("{said}") has prevented the request from succeeding')
        return content

    @asynccontextmanager
    async def request(
        self,
        method: str,
        place: Place,
        url: str,
        body: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request; ``url`` begins as the place's own does.  Raises aiohttp.ClientError."""
        async with await self._first(method, place, url, body, headers) as response:
            yield response

    async def _first(
        self, method: str, place: Place, url: str, body: bytes, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """From the first of the addresses: nobody takes that of a process that has ended off the list."""
        for address in place.addresses[:-1]:
            with suppress(aiohttp.ClientConnectorError):
                return await self._send(method, place, address, url, body, headers)
        return await self._send(method, place, place.addresses[-1], url, body, headers)

    async def _send(
        self, method: str, place: Place, address: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            # No limits of its own: each request has its caller's time, and a caller of its own.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(),
                auto_decompress=False,
                skip_auto_headers=("Accept-Encoding", "Content-Type", "User-Agent"),
            )
        scheme, _, rest = url.partition("://")
        named, _, path = rest.partition("/")
        return await self._session.request(
            method,
            URL(f"{scheme}://{address}/{path}", encoded=True),
            data=body or None,
            headers=CIMultiDict([("Host", named), *headers.items()]),
            ssl=_trust(place.authority, place.verified, place.identity),
            server_hostname=place.name or None,
            allow_redirects=False,
        )


@lru_cache(maxsize=64)
def _trust(authority: bytes, verified: bool, identity: KeyPair | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if not verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if identity is not None:
        # The interface takes files only; this one is readable by its owner, and gone at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(identity.key + identity.certificate)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _addresses(store: Store, namespace: str, name: str, port: int) -> tuple[str, ...]:
    """Hosts and ports of those who serve a Service's port.  Raises Unreachable."""
    entry = store.get(Key("services", namespace, name))
    if entry is None:
        raise NoService(f'service "{name}" not found')
    spec = entry.decode().get("spec", {})
    if spec.get("type") == "ExternalName":
        return (f"{spec['externalName']}:{port}",)
    offered = next((offer for offer in spec.get("ports", ()) if offer["port"] == port), None)
    if offered is None:
        raise Unreachable(f'no service port {port} found for service "{name}"')
    found = _behind(store, namespace, name, offered.get("name", ""))
    addresses = tuple(f"[{host}]:{number}" if ":" in host else f"{host}:{number}" for host, number in found)
    if not addresses:
        raise Unreachable(f'no endpoints available for service "{name}"')
    return addresses


def _behind(store: Store, namespace: str, name: str, port_name: str) -> Iterator[tuple[str, int]]:
    """The addresses that are ready, with the number of the port of that name."""
    for entry in store.entries("endpointslices.discovery.k8s.io", namespace):
        if entry.labels.get(OF_SERVICE) != name:
            continue
        slice_ = entry.decode()
        for endpoint in slice_.get("endpoints") or ():
            if endpoint.get("conditions", {}).get("ready", True):
                yield from _pairs(endpoint.get("addresses", []), slice_.get("ports") or [], port_name)
    listed = store.get(Key("endpoints", namespace, name))
    for subset in listed.decode().get("subsets", ()) if listed is not None else ():
        addresses = [address["ip"] for address in subset.get("addresses", ())]
        yield from _pairs(addresses, subset.get("ports", []), port_name)


def _pairs(addresses: list[str], ports: list[Json], port_name: str) -> Iterator[tuple[str, int]]:
    for address in addresses:
        for port in ports:
            if port.get("name", "") == port_name:
                yield address, port["port"]
