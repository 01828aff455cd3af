"""An OpenID Connect issuer: signs ID tokens with RSA, and checks what a client sends (RFC 6749, RFC 7636)."""

import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from quorate.kube.clock import WallClock

CLIENT = "quorate"


class Issuer:
    """``claims`` replace those of the tokens."""

    def __init__(self) -> None:
        self.url = ""
        self.claims: dict[str, Any] = {}
        self.requests: list[dict[str, str]] = []  # forms of the token endpoint
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._codes: dict[str, dict[str, str]] = {}

    async def configuration(self, request: web.Request) -> web.Response:
        endpoints = {"authorization_endpoint": f"{self.url}/auth", "token_endpoint": f"{self.url}/token"}
        return web.json_response({"issuer": self.url, **endpoints})

    async def authorize(self, request: web.Request) -> web.Response:
        """Log the user in at once."""
        query = dict(request.query)
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self._codes[code] = query
        back = {"code": code, "state": query["state"]}
        raise web.HTTPFound(f"{query['redirect_uri']}?{urlencode(back)}")

    async def token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.requests.append(form)
        begun = self._codes.pop(form["code"], None)
        challenge = _base64(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if begun is None or challenge != begun["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        if form["redirect_uri"] != begun["redirect_uri"]:
            return web.json_response({"error": "invalid_request"}, status=400)
        return web.json_response({"id_token": self._signed(begun["nonce"])})

    def _signed(self, nonce: str) -> str:
        now = int(WallClock().now())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "sub": "alice",
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            **self.claims,
        }
        header = json.dumps({"alg": "RS256"})
        signed = f"{_base64(header.encode())}.{_base64(json.dumps(claims).encode())}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def signed(self, token: str) -> bool:
        """Return True if the signature of a token is that of the issuer, as an API server verifies it."""
        signed, _, signature = token.rpartition(".")
        decoded = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
        try:
            self._key.public_key().verify(decoded, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return False
        return True


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@asynccontextmanager
async def running_issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", issuer.configuration)
    app.router.add_get("/auth", issuer.authorize)
    app.router.add_post("/token", issuer.token)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield issuer
    finally:
        await runner.cleanup()


@asynccontextmanager
async def trusting(issuer: Issuer, server: str, token: str) -> AsyncIterator[str]:
    """Yield the URL of a proxy of an API server, to which an ID token of the issuer is worth ``token``."""

    async def forward(request: web.Request) -> web.Response:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        headers = {"Authorization": f"Bearer {token if issuer.signed(shown) else shown}"}
        if "Content-Type" in request.headers:
            headers["Content-Type"] = request.headers["Content-Type"]
        url = server + request.path_qs
        async with client.request(request.method, url, data=await request.read(), headers=headers) as got:
            return web.Response(status=got.status, body=await got.read(), content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    async with aiohttp.ClientSession() as client:
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
