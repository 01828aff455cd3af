"""Requests passed on to the server of an aggregated API, in the name of who sent them.

The other server believes the X-Remote headers because of the certificate that comes with them.  The authority
of that certificate is published in the config map ``extension-apiserver-authentication`` of kube-system.
"""

import json
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from quorate.local.server.aggregation.api_services import Aggregated, Remote
from quorate.local.server.auth.authentication import User
from quorate.local.server.backend_client import Outside, Unreachable
from quorate.local.server.errors import StatusError
from quorate.local.server.requests.context import Context
from quorate.local.server.storage.store import Key

Json = dict[str, Any]

CLIENT_NAME = "front-proxy-client"
PUBLISHED_IN = Key("configmaps", "kube-system", "extension-apiserver-authentication")
USER, GROUP, UID, EXTRA = "X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "X-Remote-Extra-"
OF_ONE_CONNECTION = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length",
}  # fmt: skip
"""Headers that are about a connection, not about a request."""


async def publish(context: Context, authority: bytes) -> None:
    """Tell other servers whose certificates may speak for users; ``authority`` is PEM."""
    data = {
        "requestheader-client-ca-file": authority.decode(),
        "requestheader-allowed-names": json.dumps([CLIENT_NAME]),
        "requestheader-username-headers": json.dumps([USER]),
        "requestheader-group-headers": json.dumps([GROUP]),
        "requestheader-uid-headers": json.dumps([UID]),
        "requestheader-extra-headers-prefix": json.dumps([EXTRA]),
    }
    entry = context.store.get(PUBLISHED_IN)
    if entry is None:
        metadata = {
            "name": PUBLISHED_IN.name,
            "namespace": PUBLISHED_IN.namespace,
            "uid": context.new_uid(),
            "creationTimestamp": context.timestamp(),
        }
        await context.store.create(PUBLISHED_IN, {"metadata": metadata, "data": data})
    elif (old := entry.decode()).get("data") != data:
        await context.store.update(PUBLISHED_IN, old | {"data": data}, entry.revision)


async def forward(
    request: web.BaseRequest, user: User, aggregated: Aggregated, remote: Remote, outside: Outside
) -> web.StreamResponse:
    """The other server's answer, as it comes.  Raises StatusError(503) if there is none."""
    try:
        place = aggregated.place(remote)
    except Unreachable as why:
        raise _unavailable(str(why)) from why
    url = place.url.rstrip("/") + request.raw_path
    try:
        async with outside.request(
            request.method, place, url, await request.read(), _headers(request, user)
        ) as answer:
            return await _passed_on(request, answer)
    except aiohttp.ClientConnectionError as failure:
        raise _unavailable(str(failure)) from failure


async def _passed_on(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in OF_ONE_CONNECTION]
    response = web.StreamResponse(status=answer.status, headers=CIMultiDict(kept))
    response.content_length = answer.content_length
    await response.prepare(request)
    try:
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
    except ConnectionResetError:
        pass  # the client has seen enough
    except aiohttp.ClientPayloadError:
        # The other server broke off, and the client must not take what it has got for all of it.
        if request.transport is not None:
            request.transport.abort()
    return response


def _headers(request: web.BaseRequest, user: User) -> CIMultiDict[str]:
    """What the client sent, but its own proof of who it is; and who it is."""
    headers = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if name.lower() not in (*OF_ONE_CONNECTION, "authorization")
        and not name.lower().startswith(("x-remote-", "impersonate-"))
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


def _unavailable(why: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", f"error trying to reach service: {why}")
