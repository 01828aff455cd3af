"""The application: routes, the session of each request, and refusals."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from quorate.api.meta import Key
from quorate.dashboard.login import cookies
from quorate.dashboard.login.authorization import Authorization
from quorate.dashboard.login.login import CALLBACK, Login
from quorate.dashboard.login.sessions import Caller
from quorate.dashboard.responses import Refused, answer, forbidden, not_found, problem, refusal_of
from quorate.dashboard.serving.event_stream import EventStreams
from quorate.dashboard.serving.operations import CSRF_HEADER, OPERATIONS, PREFIX, Operation, open_api_document
from quorate.dashboard.serving.reads import Handler, Reads
from quorate.dashboard.serving.static_files import StaticFiles
from quorate.dashboard.serving.submissions import Submissions
from quorate.dashboard.simulation.what_if import WhatIf
from quorate.kube.errors import RequestFailed
from quorate.kube.log import logger
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS, Resource

Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Dashboard:
    """Answers the requests of all operations."""

    def __init__(
        self,
        login: Login,
        authorization: Authorization,
        reads: Reads,
        what_if: WhatIf,
        submissions: Submissions,
        streams: EventStreams,
        static_files: StaticFiles,
    ) -> None:
        self._login = login
        self._authorization = authorization
        self._static_files = static_files
        self._public: dict[str, Endpoint] = {"login": login.with_token, "getOpenApi": _open_api}
        self._handlers: dict[str, Handler] = {
            **reads.handlers(),
            **submissions.handlers(),
            "getSession": self._session,
            "logout": self._logout,
            "stopWorkload": _patching(WORKLOADS, {"active": False}, "stopped"),
            "resumeWorkload": _patching(WORKLOADS, {"active": True}, "resumed"),
            "stopClusterQueue": _patching(CLUSTER_QUEUES, {"stopPolicy": "HoldAndDrain"}, "stopped"),
            "resumeClusterQueue": _patching(CLUSTER_QUEUES, {"stopPolicy": "None"}, "resumed"),
            "whatIf": what_if.what_if,
            "streamEvents": streams.stream_events,
        }

    def application(self, *, over_tls: bool, on_loopback: bool) -> web.Application:
        """Return the application; ``on_loopback`` it answers to the names of this machine only."""
        app = web.Application(middlewares=(_refusals, _local_host) if on_loopback else (_refusals,))
        add_security_headers(app, over_tls=over_tls)
        for operation in OPERATIONS:
            app.router.add_route(operation.method, PREFIX + operation.path, self._endpoint(operation))
        app.router.add_route("*", "/api/{rest:.*}", _no_operation)
        app.router.add_get("/login/once", self._login.with_link)
        app.router.add_get("/login/oidc", self._login.at_issuer)
        app.router.add_get(CALLBACK, self._login.from_issuer)
        app.router.add_get("/{path:.*}", self._static_files.serve)
        return app

    def _endpoint(self, operation: Operation) -> Endpoint:
        if not operation.needs_session:
            return self._public[operation.id]
        handler = self._handlers[operation.id]

        async def endpoint(request: web.Request) -> web.StreamResponse:
            session = await self._reviewed(self._login.session_of(request))
            if session is None:
                response = answer(self._login.methods, HTTPStatus.UNAUTHORIZED)
                if cookies.SESSION_COOKIE in request.cookies:
                    cookies.delete_session_cookie(response)
                return response
            if operation.changes:
                cookies.require_same_origin(request)
                if not session.proves(request.headers.get(CSRF_HEADER, "")):
                    raise forbidden(f"the header {CSRF_HEADER} is not the csrfToken of the session")
            viewer = await self._reviewed(self._authorization.viewer(session.user))
            result = await handler(request, Caller(session, viewer))
            if isinstance(result, web.StreamResponse):
                return result
            return web.Response(status=HTTPStatus.NO_CONTENT) if result is None else answer(result)

        return endpoint

    @staticmethod
    async def _reviewed(review: Awaitable[Any]) -> Any:
        """Return the result of a review.  Raises ``Refused`` if the API server does not review it."""
        try:
            return await review
        except RequestFailed as error:
            logger(__name__).warning("request not reviewed", problem=str(error))
            raise Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "the API server did not review the request; try again in some seconds",
            ) from error

    async def _session(self, request: web.Request, caller: Caller) -> Any:
        return await self._login.shown(caller.session)

    async def _logout(self, request: web.Request, caller: Caller) -> web.Response:
        return self._login.end(caller.session)


def _patching(resource: Resource[Any], spec: dict[str, Any], done: str) -> Handler:
    """Return the operation that patches one object as the user: the API server decides whether it may."""

    async def patch(request: web.Request, caller: Caller) -> None:
        key = Key(request.match_info.get("namespace", ""), request.match_info["name"])
        await caller.session.client.patch_for_version(resource, key, {"spec": spec})
        logger(__name__).info(done, kind=resource.kind, object=key, user=caller.session.user.name)

    return patch


async def _open_api(request: web.Request) -> web.Response:
    return answer(open_api_document())


async def _no_operation(request: web.Request) -> web.Response:
    raise not_found(f"{request.method} {request.path}")


@web.middleware
async def _refusals(request: web.Request, handler: Endpoint) -> web.StreamResponse:
    """Answer refusals, and errors of the API server, with a ``Problem``."""
    try:
        return await handler(request)
    except Refused as refused:
        return problem(refused)
    except RequestFailed as error:
        refusal = refusal_of(error)
        if refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            logger(__name__).warning("request failed", path=request.path, problem=str(error))
        return problem(refusal)


@web.middleware
async def _local_host(request: web.Request, handler: Endpoint) -> web.StreamResponse:
    """Refuse a request that does not name this machine."""
    cookies.require_local_host(request)
    return await handler(request)


POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_YEAR_S: Final = 365 * 86400


def add_security_headers(app: web.Application, *, over_tls: bool) -> None:
    """Add to each response of ``app`` the headers with which a browser limits what a page may do.

    The page loads scripts, styles and pictures from its own origin only, is shown in no frame, and tells no
    other site its address.  With ``over_tls`` browsers use HTTPS only from then on.
    """
    headers = dict(HEADERS)
    if over_tls:
        headers["Strict-Transport-Security"] = f"max-age={_YEAR_S}"

    async def add(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)
        response.headers.setdefault("Cache-Control", "no-store")  # answers differ between users
        response.headers.pop("Server", None)

    app.on_response_prepare.append(add)
