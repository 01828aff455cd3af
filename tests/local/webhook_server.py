"""The other end of a webhook: a server over TLS on this machine that remembers what it was asked."""

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
from quorate.kube.serving.certificates import KeyPair
from quorate.local.certificates import new_authority, new_server_certificate

Json = dict[str, Any]
Answers = Callable[[Json], Json]
"""From what a review asks to what the answer says."""


class Hook:
    """``asked``: the reviews received so far, oldest first.  ``hangs_up``: how many to leave unanswered."""

    def __init__(self, authority: bytes, answers: Answers) -> None:
        self.ca_bundle = base64.b64encode(authority).decode()
        self.port = 0
        self.asked: list[Json] = []
        self.hangs_up = 0
        self._answers = answers

    def url(self) -> Json:
        """A clientConfig that leads here."""
        return {"url": f"https://127.0.0.1:{self.port}/hook", "caBundle": self.ca_bundle}

    async def handle(self, request: web.Request) -> web.Response:
        review = json.loads(await request.read())
        if self.hangs_up:
            self.hangs_up -= 1
            assert request.transport is not None
            request.transport.close()
        self.asked.append(review["request"])
        answer = self._answers(review["request"]) | {"uid": review["request"]["uid"]}
        return web.json_response(
            {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}
        )


@asynccontextmanager
async def hook(answers: Answers, *names: str) -> AsyncIterator[Hook]:
    """Listening on a free port of this machine; ``names``: of the Services it stands behind."""
    now = WallClock().now()
    authority = new_authority(now)
    end = Hook(authority.certificate, answers)
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_post("/{path:.*}", end.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        tls = serving(new_server_certificate(authority, now, *names))
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        end.port = runner.addresses[0][1]
        yield end
    finally:
        await runner.cleanup()


def serving(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory, "crt"), Path(directory, "key")
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        context.load_cert_chain(certificate, key)
    return context


def json_patch(*operations: Json) -> Json:
    """An answer that allows, and changes."""
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
