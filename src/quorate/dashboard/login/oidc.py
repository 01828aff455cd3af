"""OpenID Connect: the authorization code flow with PKCE, at an issuer that the API server trusts.

The ID token that the issuer returns becomes the token of the user.  The API server verifies its signature;
here only what belongs to this login is verified: issuer, audience, expiry and nonce.  RFC 6749, RFC 7636,
OpenID Connect Core 1.0 sections 3.1.2 and 3.1.3 (the token arrives over TLS from the issuer itself).
"""

import asyncio
import base64
import hashlib
import secrets
import ssl
from collections import OrderedDict
from typing import Annotated, TypeVar
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec

from quorate.dashboard.limits import ISSUER_BYTES, ISSUER_TIMEOUT_S, LOGIN_PENDING_S, MOST_PENDING_LOGINS
from quorate.kube.clock import Clock

T = TypeVar("T")


class OidcError(Exception):
    """The issuer cannot be used, or did not log the user in."""


class OidcSettings(msgspec.Struct, frozen=True):
    issuer: str
    client_id: str
    client_secret: str = msgspec.field(default="")
    scopes: tuple[str, ...] = ("openid", "email", "groups")
    authority: ssl.SSLContext | None = None  # of the issuer; None: those of this machine

    def __repr__(self) -> str:
        return f"OidcSettings({self.issuer!r}, {self.client_id!r})"


class _Discovery(msgspec.Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str


class _Tokens(msgspec.Struct):
    id_token: str


class _Refusal(msgspec.Struct):
    error: str = ""
    error_description: str = ""


class _Claims(msgspec.Struct):
    iss: str
    aud: str | tuple[str, ...]
    exp: Annotated[float, msgspec.Meta(ge=0)]
    nonce: str = ""


class _Expiry(msgspec.Struct):
    exp: float | None = None


class _Pending(msgspec.Struct):
    verifier: str
    nonce: str
    redirect_url: str
    ends_at: float


class IdToken(msgspec.Struct, frozen=True):
    token: str
    expires_at: float

    def __repr__(self) -> str:
        return f"IdToken(expires_at={self.expires_at})"


class OidcLogins:
    """Logins in progress, by state; an async context manager."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        if not _is_safe(settings.issuer):
            raise OidcError(f"{settings.issuer}: an issuer is reached over https://, except on loopback")
        self.settings = settings
        self._clock = clock
        self._pending: OrderedDict[str, _Pending] = OrderedDict()
        self._discovery: _Discovery | None = None

    async def begin(self, redirect_url: str) -> tuple[str, str]:
        """Return the state of a new login, and the URL to which the browser goes.  Raises ``OidcError``."""
        discovery = await self._discovered()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        self._pending[state] = _Pending(verifier, nonce, redirect_url, self._clock.now() + LOGIN_PENDING_S)
        while len(self._pending) > MOST_PENDING_LOGINS:
            self._pending.popitem(last=False)
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect_url,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": _base64(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        separator = "&" if urlsplit(discovery.authorization_endpoint).query else "?"
        return state, f"{discovery.authorization_endpoint}{separator}{urlencode(query)}"

    async def finish(self, state: str, code: str) -> IdToken:
        """Return the token for ``code``; each state is valid once.  Raises ``OidcError``."""
        pending = self._pending.pop(state, None)
        now = self._clock.now()
        if pending is None or now >= pending.ends_at:
            raise OidcError("this login has ended already: start it again")
        discovery = await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_url,
            "client_id": self.settings.client_id,
            "code_verifier": pending.verifier,
        }
        if self.settings.client_secret:
            form["client_secret"] = self.settings.client_secret
        token = (await self._request("POST", discovery.token_endpoint, _Tokens, form)).id_token
        claims = _decoded(token, _Claims)
        audiences = (claims.aud,) if isinstance(claims.aud, str) else claims.aud
        for is_right, claim in (
            (claims.iss == discovery.issuer, "iss"),
            (self.settings.client_id in audiences, "aud"),
            (secrets.compare_digest(claims.nonce.encode(), pending.nonce.encode()), "nonce"),
            (now < claims.exp, "exp"),
        ):
            if not is_right:
                raise OidcError(
                    f"the claim {claim} of the token of {discovery.issuer} is not that of this login"
                )
        return IdToken(token, claims.exp)

    async def _discovered(self) -> _Discovery:
        if self._discovery is None:
            issuer = self.settings.issuer
            url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            discovery = await self._request("GET", url, _Discovery)
            if discovery.issuer != issuer:
                raise OidcError(f"{url} is of the issuer {discovery.issuer}, not of {issuer}")
            for endpoint in (discovery.authorization_endpoint, discovery.token_endpoint):
                if not _is_safe(endpoint):
                    raise OidcError(f"{url}: the endpoint {endpoint} is not reached over https://")
            self._discovery = discovery
        return self._discovery

    async def _request(self, method: str, url: str, type_: type[T], form: dict[str, str] | None = None) -> T:
        tls: ssl.SSLContext | bool = self.settings.authority if self.settings.authority is not None else True
        try:
            async with (
                asyncio.timeout(ISSUER_TIMEOUT_S),
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as client,
                client.request(method, url, data=form, allow_redirects=False) as response,
            ):
                body = await response.content.read(ISSUER_BYTES)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise OidcError(f"{url}: no answer: {str(error) or 'timeout'}") from error
        try:
            if response.status != 200:
                refusal = msgspec.json.decode(body, type=_Refusal)
                raise OidcError(
                    f"{url}: {response.status} {refusal.error} {refusal.error_description}".rstrip()
                )
            return msgspec.json.decode(body, type=type_)
        except msgspec.DecodeError as error:
            raise OidcError(f"{url}: {response.status}, and the answer cannot be read: {error}") from error


def expiry_of(token: str) -> float | None:
    """Return when a token expires, in epoch seconds; None: it is no JWT, or does not say it."""
    try:
        return _decoded(token, _Expiry).exp
    except OidcError:
        return None


def _decoded(token: str, type_: type[T]) -> T:
    """Return the payload of a JWT.  Its signature is not verified.  Raises ``OidcError``."""
    parts = token.split(".")
    if len(parts) != 3:
        raise OidcError("the token is no JWT")
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=type_)
    except (ValueError, msgspec.DecodeError) as error:
        raise OidcError(f"the payload of the token cannot be read: {error}") from error


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (
        parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    )
