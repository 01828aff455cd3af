"""A webhook server over TLS on this machine that records the reviews it receives."""

import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from quorate.kube.clock import WallClock
from quorate.kube.serving.tls import KeyPair
from quorate.local.certificates import new_authority, new_server_certificate

Json = dict[str, Any]
Respond = Callable[[Json], Json]
"""Returns the response of a review, given its request."""


class WebhookServer:
    """``received``: reviews, oldest first.  ``connections_to_drop``: requests to leave unanswered."""

    def __init__(self, authority: bytes, respond: Respond) -> None:
        self.ca_bundle = base64.b64encode(authority).decode()
        self.port = 0
        self.received: list[Json] = []
        self.connections_to_drop = 0
        self._respond = respond

    def url(self) -> Json:
        """Return a clientConfig for this server."""
        return {"url": f"https://127.0.0.1:{self.port}/hook", "caBundle": self.ca_bundle}

    async def handle(self, request: web.Request) -> web.Response:
        review = json.loads(await request.read())
        if self.connections_to_drop:
            self.connections_to_drop -= 1
            assert request.transport is not None
            request.transport.close()
        self.received.append(review["request"])
        answer = self._respond(review["request"]) | {"uid": review["request"]["uid"]}
        return web.json_response(
            {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}
        )


@asynccontextmanager
async def webhook_server(respond: Respond, *names: str) -> AsyncIterator[WebhookServer]:
    """Listen on a free port of this machine; ``names``: the Services in the server certificate."""
    now = WallClock().now()
    authority = new_authority(now)
    server = WebhookServer(authority.certificate, respond)
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        tls_context = server_tls_context(new_server_certificate(authority, now, *names))
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls_context)
        await site.start()
        server.port = runner.addresses[0][1]
        yield server
    finally:
        await runner.cleanup()


def server_tls_context(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory, "crt"), Path(directory, "key")
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        context.load_cert_chain(certificate, key)
    return context


def json_patch(*operations: Json) -> Json:
    """Return a response that allows the request and patches the object."""
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
