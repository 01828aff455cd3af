"""Forwarding of requests to aggregated API servers, on behalf of the authenticated user.

The aggregated server trusts the X-Remote headers because of the front proxy certificate of the connection.
Its CA is published in the ConfigMap ``extension-apiserver-authentication`` of kube-system.
"""

import json
from urllib.parse import quote

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from quorate.local.objects.errors import StatusError
from quorate.local.server.aggregation.api_services import GROUP, USER, AggregatedVersion, ApiServiceController
from quorate.local.server.auth.authentication import User
from quorate.local.server.backend_client import BackendClient, BackendUnreachable
from quorate.local.server.connections import read_body
from quorate.local.server.requests.context import ServerContext
from quorate.local.server.storage.store import Key

CLIENT_NAME = "front-proxy-client"
AUTHENTICATION_CONFIG_MAP = Key("configmaps", "kube-system", "extension-apiserver-authentication")
UID, EXTRA = "X-Remote-Uid", "X-Remote-Extra-"
HOP_BY_HOP_HEADERS = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length",
}  # fmt: skip
"""Headers that apply to one connection and must not be forwarded."""


async def publish_front_proxy_ca(server: ServerContext, ca_certificate: bytes) -> None:
    """Publish the front proxy CA (PEM) and the header names for aggregated API servers."""
    data = {
        "requestheader-client-ca-file": ca_certificate.decode(),
        "requestheader-allowed-names": json.dumps([CLIENT_NAME]),
        "requestheader-username-headers": json.dumps([USER]),
        "requestheader-group-headers": json.dumps([GROUP]),
        "requestheader-uid-headers": json.dumps([UID]),
        "requestheader-extra-headers-prefix": json.dumps([EXTRA]),
    }
    entry = server.store.get(AUTHENTICATION_CONFIG_MAP)
    if entry is None:
        metadata = {
            "name": AUTHENTICATION_CONFIG_MAP.name,
            "namespace": AUTHENTICATION_CONFIG_MAP.namespace,
            "uid": server.new_uid(),
            "creationTimestamp": server.timestamp(),
        }
        await server.store.create(AUTHENTICATION_CONFIG_MAP, {"metadata": metadata, "data": data})
    elif (old := entry.decode()).get("data") != data:
        await server.store.update(AUTHENTICATION_CONFIG_MAP, old | {"data": data}, entry.revision)


async def forward(
    request: web.BaseRequest,
    user: User,
    api_services: ApiServiceController,
    version: AggregatedVersion,
    backends: BackendClient,
) -> web.StreamResponse:
    """Forward a request and stream the response.  Raises StatusError(503) if the server is unreachable."""
    try:
        backend = api_services.resolve(version)
    except BackendUnreachable as error:
        raise _unavailable(str(error)) from error
    url = backend.url.rstrip("/") + request.raw_path
    try:
        async with backends.request(
            request.method, backend, url, await read_body(request), _proxied_headers(request, user)
        ) as upstream:
            return await _relay(request, upstream)
    except aiohttp.ClientConnectionError as error:
        raise _unavailable(str(error)) from error


async def _relay(request: web.BaseRequest, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = [
        (name, value) for name, value in upstream.headers.items() if name.lower() not in HOP_BY_HOP_HEADERS
    ]
    response = web.StreamResponse(status=upstream.status, headers=CIMultiDict(headers))
    response.content_length = upstream.content_length
    await response.prepare(request)
    try:
        async for chunk in upstream.content.iter_any():
            await response.write(chunk)
    except ConnectionResetError:
        pass  # the client has disconnected
    except aiohttp.ClientPayloadError:
        # The upstream response is incomplete; abort, so that the client does not take it as complete.
        if request.transport is not None:
            request.transport.abort()
    return response


def forwarded_headers(request: web.BaseRequest) -> list[tuple[str, str]]:
    """Return the headers of a request without credentials and hop-by-hop headers.

    The body has been decoded, so Content-Encoding is left out.
    """
    left_out = (*HOP_BY_HOP_HEADERS, "authorization", "content-encoding")
    return [
        (name, value)
        for name, value in request.headers.items()
        if name.lower() not in left_out and not name.lower().startswith("impersonate-")
    ]


def _proxied_headers(request: web.BaseRequest, user: User) -> CIMultiDict[str]:
    """Return the headers of the request without credentials, and with the user."""
    headers = CIMultiDict(
        (name, value)
        for name, value in forwarded_headers(request)
        if not name.lower().startswith("x-remote-")
    )
    headers.add(USER, user.name)
    if user.uid:
        headers.add(UID, user.uid)
    for group in user.groups:
        headers.add(GROUP, group)
    for name, values in user.extra.items():
        for value in values:
            headers.add(EXTRA + quote(name, safe=""), value)
    return headers


def _unavailable(message: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", f"error trying to reach service: {message}")
