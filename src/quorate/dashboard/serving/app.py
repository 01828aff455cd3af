"""The application: routes, the session of each request, and refusals."""

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from quorate.dashboard.login import cookies
from quorate.dashboard.login.authorization import Authorization
from quorate.dashboard.login.caller import Caller
from quorate.dashboard.login.login import CALLBACK, Login
from quorate.dashboard.serving import actions
from quorate.dashboard.serving.event_stream import EventStreams
from quorate.dashboard.serving.open_api import open_api_document
from quorate.dashboard.serving.operations import CSRF_HEADER, OPERATIONS, PREFIX, Operation
from quorate.dashboard.serving.reads import Handler, Reads
from quorate.dashboard.serving.responses import Refused, answer, forbidden, not_found, problem, refusal_of
from quorate.dashboard.serving.security_headers import SecurityHeaders
from quorate.dashboard.serving.static_files import StaticFiles
from quorate.dashboard.simulation.what_if import WhatIf
from quorate.kube.errors import ApiError, Unreachable
from quorate.kube.log import logger

Endpoint = Callable[[Request], Awaitable[Response]]

_ALL_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Dashboard:
    """Answers the requests of all operations."""

    def __init__(
        self,
        login: Login,
        authorization: Authorization,
        reads: Reads,
        what_if: WhatIf,
        streams: EventStreams,
        static_files: StaticFiles,
    ) -> None:
        self._login = login
        self._authorization = authorization
        self._static_files = static_files
        self._public: dict[str, Endpoint] = {"login": login.with_token, "getOpenApi": _open_api}
        self._handlers: dict[str, Handler] = {
            **reads.handlers(),
            "getSession": self._session,
            "logout": self._logout,
            "stopWorkload": actions.stop_workload,
            "resumeWorkload": actions.resume_workload,
            "stopClusterQueue": actions.stop_cluster_queue,
            "resumeClusterQueue": actions.resume_cluster_queue,
            "whatIf": what_if.what_if,
            "streamEvents": streams.stream_events,
        }

    def application(self, *, over_tls: bool, on_loopback: bool) -> ASGIApp:
        """Return the ASGI application; ``on_loopback`` it answers to the names of this machine only."""
        app: ASGIApp = Starlette(routes=list(self._routes()))
        return SecurityHeaders(_LocalHost(app) if on_loopback else app, over_tls=over_tls)

    def _routes(self) -> Iterable[Route]:
        for operation in OPERATIONS:
            endpoint = self._endpoint(operation)
            yield Route(f"{PREFIX}{operation.path}", endpoint, methods=[operation.method])
        yield Route("/api/{rest:path}", _no_operation, methods=_ALL_METHODS)
        for path, login in (
            ("/login/once", self._login.with_link),
            ("/login/oidc", self._login.at_issuer),
            (CALLBACK, self._login.from_issuer),
        ):
            yield Route(path, _refusing(login), methods=["GET"])
        yield Route("/{path:path}", self._page, methods=["GET"])

    def _endpoint(self, operation: Operation) -> Endpoint:
        if not operation.needs_session:
            return _refusing(self._public[operation.id])
        handler = self._handlers[operation.id]

        async def endpoint(request: Request) -> Response:
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
            found = await handler(request, Caller(session, viewer))
            if isinstance(found, Response):
                return found
            return Response(status_code=HTTPStatus.NO_CONTENT) if found is None else answer(found)

        return _refusing(endpoint)

    @staticmethod
    async def _reviewed(review: Awaitable[Any]) -> Any:
        """Return the result of a review.  Raises ``Refused`` if the API server does not review it."""
        try:
            return await review
        except (ApiError, Unreachable) as error:
            logger(__name__).warning("request not reviewed", problem=str(error))
            raise Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "the API server did not review the request; try again in some seconds",
            ) from error

    async def _session(self, request: Request, caller: Caller) -> Any:
        return await self._login.shown(caller.session)

    async def _logout(self, request: Request, caller: Caller) -> Response:
        return self._login.end(caller.session)

    async def _page(self, request: Request) -> Response:
        return self._static_files.serve(request)


async def _open_api(request: Request) -> Response:
    return answer(open_api_document())


async def _no_operation(request: Request) -> Response:
    return problem(not_found(f"{request.method} {request.url.path}"))


def _refusing(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint with refusals as ``Problem``."""

    async def answer_or_refuse(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Refused as refused:
            return problem(refused)
        except (ApiError, Unreachable) as error:
            refusal = refusal_of(error)
            if refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                logger(__name__).warning("request failed", path=request.url.path, problem=str(error))
            return problem(refusal)

    return answer_or_refuse


class _LocalHost:
    """Refuses requests that do not name this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            cookies.require_local_host(Request(scope))
        except Refused as refused:
            await problem(refused)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
