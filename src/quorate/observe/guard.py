"""Who may see what we show, where it can be seen from other machines.

A bearer token is shown to the API server.  The API server itself, when it passes on what it was asked of an
aggregated API, shows a certificate of its front-proxy authority and says on whose behalf it asks.  Whoever
it is must be allowed what the page stands for.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from aiohttp import web

from quorate.api import codec
from quorate.kube.errors import ApiError, Unreachable
from quorate.kube.log import logger
from quorate.kube.serving.delegated_auth import Access, User

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Reviews(Protocol):
    async def authenticate(self, token: str) -> User | None: ...
    async def is_allowed(self, user: User, access: Access) -> bool: ...


def guarded(
    app: web.Application,
    reviews: Reviews,
    needed: Callable[[web.Request], Access],
    is_front_proxy: Callable[[Mapping[str, Any]], bool] | None = None,
) -> web.Application:
    """``app``, answering only those whom ``reviews`` allow what a request ``needed``.

    The headers ``X-Remote-User``, ``-Group`` and ``-Extra-*`` are believed of a client whose verified
    certificate belongs to one that ``is_front_proxy``; None: of nobody.
    """

    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            user = _forwarded(request, is_front_proxy) or await _owner_of_token(request, reviews)
            if user is None:
                return refusal(401, "Unauthorized", "show a bearer token of this cluster")
            access = needed(request)
            if not await reviews.is_allowed(user, access):
                return refusal(403, "Forbidden", f"{user.name} may not {access.verb} {request.path}")
        except (ApiError, Unreachable) as error:
            logger(__name__).warning("cannot tell who asks", path=request.path, problem=str(error))
            return refusal(503, "ServiceUnavailable", "the API server does not say who you are")
        return await handler(request)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = await answer(request, handler)
        if is_front_proxy is not None and not request.get_extra_info("peercert"):
            # Perhaps the API server, which connected before we knew to ask it for a certificate: it would be
            # refused for as long as it kept the connection.
            given.force_close()
        return given

    app.middlewares.append(check)
    return app


def refusal(code: int, reason: str, message: str) -> web.Response:
    return web.Response(status=code, body=status(code, reason, message), content_type="application/json")


def status(code: int, reason: str, message: str) -> bytes:
    """A refusal that Kubernetes clients can read."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return codec.encode(body)


def _forwarded(
    request: web.Request, is_front_proxy: Callable[[Mapping[str, Any]], bool] | None
) -> User | None:
    certificate = request.get_extra_info("peercert")  # verified: the handshake would have failed otherwise
    name = request.headers.get("X-Remote-User", "")
    if not certificate or not name or is_front_proxy is None or not is_front_proxy(certificate):
        return None
    prefix = "x-remote-extra-"
    extra: dict[str, list[str]] = {}
    for header, value in request.headers.items():
        if header.lower().startswith(prefix):
            extra.setdefault(header.lower().removeprefix(prefix), []).append(value)
    groups = tuple(request.headers.getall("X-Remote-Group", ()))
    uid = request.headers.get("X-Remote-Uid", "")
    return User(name, uid, groups, tuple((key, tuple(values)) for key, values in sorted(extra.items())))


async def _owner_of_token(request: web.Request, reviews: Reviews) -> User | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return await reviews.authenticate(token.strip()) if scheme.lower() == "bearer" and token.strip() else None
