"""Authentication and authorization of requests to endpoints that other machines can reach.

A bearer token is reviewed by the API server.  The API server itself, when it forwards a request to an
aggregated API, presents a client certificate of its front-proxy authority and names the user in headers.
The user must have the access that the request requires.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from aiohttp import web

from quorate.api import codec
from quorate.kube.errors import Forbidden, RequestFailed
from quorate.kube.log import logger
from quorate.kube.serving.delegated_auth import Access, User

_AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"
USER: Final = web.RequestKey("user", User)  # of an authorized request

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Auth(Protocol):
    async def authenticate(self, token: str) -> User | None: ...
    async def is_allowed(self, user: User, access: Access) -> bool: ...


def authorized(
    app: web.Application,
    auth: Auth,
    required_access: Callable[[web.Request], Access],
    is_front_proxy: Callable[[Mapping[str, Any]], bool] | None = None,
) -> web.Application:
    """Return ``app`` with a middleware that authorizes each request.

    The headers ``X-Remote-User``, ``-Group`` and ``-Extra-*`` are trusted if ``is_front_proxy`` accepts the
    verified certificate of the client; None: never.
    """

    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            user = _forwarded(request, is_front_proxy) or await _token_user(request, auth)
            if user is None:
                return refusal(401, "Unauthorized", "show a bearer token of this cluster")
            access = required_access(request)
            if not await auth.is_allowed(user, access):
                return refusal(403, "Forbidden", f"{user.name} may not {access.verb} {request.path}")
        except Forbidden as error:  # a missing role, as in kube-apiserver's delegated authorization
            logger(__name__).warning("request not reviewed", path=request.path, problem=str(error))
            return refusal(500, "InternalError", "this server may not review the request")
        except RequestFailed as error:
            logger(__name__).warning("request not authenticated", path=request.path, problem=str(error))
            return refusal(503, "ServiceUnavailable", "the API server did not review the request")
        request[USER] = user
        return await handler(request)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await answer(request, handler)
        if is_front_proxy is not None and not request.get_extra_info("peercert"):
            # This may be the API server, connected before we knew its authority and could ask for a
            # certificate: without a new connection it would be refused for as long as it keeps this one.
            response.force_close()
        return response

    app.middlewares.append(check)
    return app


def refusal(code: int, reason: str, message: str) -> web.Response:
    return web.Response(status=code, body=status(code, reason, message), content_type="application/json")


def status(code: int, reason: str, message: str) -> bytes:
    """Return a Status object, which Kubernetes clients can read."""
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
    if not {_AUTHENTICATED, _UNAUTHENTICATED} & set(groups):
        groups = (*groups, _AUTHENTICATED)  # the aggregator reads schemas as a user without groups
    uid = request.headers.get("X-Remote-Uid", "")
    return User(name, uid, groups, tuple((key, tuple(values)) for key, values in sorted(extra.items())))


async def _token_user(request: web.Request, auth: Auth) -> User | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return await auth.authenticate(token.strip()) if scheme.lower() == "bearer" and token.strip() else None
