"""Login and logout: with a token, at an OpenID Connect issuer, or by a one-time link on loopback."""

import asyncio
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from aiohttp import web

from quorate.api.meta import at_epoch
from quorate.dashboard import schema as s
from quorate.dashboard.limits import LOGIN_PENDING_S, MOST_LOGINS_AT_ONCE, TOKEN_BYTES
from quorate.dashboard.login import cookies
from quorate.dashboard.login.authorization import Authorization
from quorate.dashboard.login.oidc import OidcError, OidcLogins, expiry_of
from quorate.dashboard.login.sessions import InvalidCredentials, OneTimeLinks, Session, Sessions
from quorate.dashboard.responses import Refused, answer, bad_request, plain_text, read_body
from quorate.kube.clock import Clock
from quorate.kube.log import logger
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token

CALLBACK: Final = "/login/oidc/callback"


@dataclass(frozen=True, slots=True)
class LoginOptions:
    """The ways to log in; ``external_url`` is the URL of the page, empty: the URL in the request."""

    anonymous: RestConfig  # for users with a token
    own: RestConfig  # for one-time links
    oidc: OidcLogins | None = None
    links: OneTimeLinks | None = None
    external_url: str = ""


class Login:
    def __init__(
        self, options: LoginOptions, sessions: Sessions, authorization: Authorization, clock: Clock
    ) -> None:
        self._options = options
        self._sessions = sessions
        self._authorization = authorization
        self._clock = clock
        self._slots = asyncio.Semaphore(MOST_LOGINS_AT_ONCE)

    @property
    def methods(self) -> s.LoginMethods:
        oidc = self._options.oidc
        return s.LoginMethods(
            token=True,
            oidc_issuer="" if oidc is None else oidc.settings.issuer,
            one_time_link=self._options.links is not None,
        )

    async def session_of(self, request: web.Request) -> Session | None:
        id_ = request.cookies.get(cookies.SESSION_COOKIE)
        return None if id_ is None else await self._sessions.find(id_)

    async def shown(self, session: Session) -> s.Session:
        viewer = await self._authorization.viewer(session.user)
        namespaces = viewer.scope.namespaces
        return s.Session(
            user=session.user.name,
            groups=session.user.groups,
            server=session.client.config.server,
            reads_all_workloads=namespaces is None,
            namespaces=() if namespaces is None else tuple(sorted(namespaces)),
            reads_cluster_queues=viewer.scope.cluster_queues,
            reads_nodes=viewer.nodes,
            expires_at=at_epoch(session.expires_at),
            csrf_token=session.csrf_token,
        )

    async def with_token(self, request: web.Request) -> web.Response:
        cookies.require_same_origin(request)
        token = (await read_body(request, s.TokenLogin)).token.strip()
        if (
            not token
            or len(token) > TOKEN_BYTES
            or not token.isascii()
            or not token.isprintable()
            or " " in token
        ):
            raise bad_request(
                "token: write a bearer token of this cluster, such as kubectl create token prints"
            )
        try:
            session = await self._open(request, self._as_user(token), expiry_of(token))
        except InvalidCredentials as error:
            raise Refused(
                HTTPStatus.UNAUTHORIZED, "Unauthorized", "the API server does not accept this token"
            ) from error
        return self._with_cookie(answer(await self.shown(session)), session)

    async def with_link(self, request: web.Request) -> web.Response:
        links = self._options.links
        if links is None or not cookies.comes_from_loopback(request):
            return plain_text("one-time links log in on this machine only\n", HTTPStatus.FORBIDDEN)
        if not links.redeem(request.query.get("code", "")):
            return plain_text(
                "this link was used or has expired; the terminal of the dashboard shows the next one\n",
                HTTPStatus.FORBIDDEN,
            )
        try:
            session = await self._open(request, self._options.own, None)
        except InvalidCredentials:
            return plain_text(
                "the API server does not accept the credentials of the kubeconfig\n", HTTPStatus.FORBIDDEN
            )
        return self._with_cookie(_redirect("/"), session)

    async def at_issuer(self, request: web.Request) -> web.Response:
        """Send the browser to the issuer."""
        if self._options.oidc is None:
            return plain_text("no OpenID Connect issuer is configured\n", HTTPStatus.NOT_FOUND)
        try:
            state, url = await self._options.oidc.begin(f"{self._own_url(request)}{CALLBACK}")
        except OidcError as error:
            return _failed(error)
        response = _redirect(url)
        cookies.set_login_cookie(response, state, LOGIN_PENDING_S)
        return response

    async def from_issuer(self, request: web.Request) -> web.Response:
        """Receive the browser from the issuer, with a code or an error."""
        oidc, query = self._options.oidc, request.query
        state = request.cookies.get(cookies.LOGIN_COOKIE, "")
        if (
            oidc is None or not state or state != query.get("state")
        ):  # a login that this browser did not begin
            return plain_text("this browser did not begin this login: start again\n", HTTPStatus.FORBIDDEN)
        try:
            if "code" not in query:
                raise OidcError(
                    f"{query.get('error', 'no code')} {query.get('error_description', '')}".rstrip()
                )
            token = await oidc.finish(state, query["code"])
            session = await self._open(request, self._as_user(token.token), token.expires_at)
        except OidcError as error:
            return _failed(error)
        except InvalidCredentials:
            return _failed(
                OidcError(
                    f"the API server does not accept ID tokens of {oidc.settings.issuer} for the client "
                    f"{oidc.settings.client_id} (kube-apiserver: --oidc-issuer-url and --oidc-client-id, or "
                    "--authentication-config)"
                )
            )
        response = self._with_cookie(_redirect("/"), session)
        cookies.delete_login_cookie(response)
        return response

    def end(self, session: Session) -> web.Response:
        self._sessions.end(session)
        response = web.Response(status=HTTPStatus.NO_CONTENT)
        cookies.delete_session_cookie(response)
        return response

    async def _open(self, request: web.Request, config: RestConfig, expires_at: float | None) -> Session:
        async with self._slots:
            session = await self._sessions.open(config, expires_at)
        self._sessions.end_by_id(request.cookies.get(cookies.SESSION_COOKIE, ""))
        logger(__name__).info("logged in", user=session.user.name)
        return session

    def _as_user(self, token: str) -> RestConfig:
        return replace(self._options.anonymous, credentials=Token(token))

    def _with_cookie(self, response: web.Response, session: Session) -> web.Response:
        cookies.set_session_cookie(response, session.id, session.expires_at - self._clock.now())
        return response

    def _own_url(self, request: web.Request) -> str:
        if self._options.external_url:
            return self._options.external_url.rstrip("/")
        return f"{request.scheme}://{request.host}"


def _redirect(location: str) -> web.Response:
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": location})


def _failed(error: OidcError) -> web.Response:
    logger(__name__).warning("login failed", problem=str(error))
    return plain_text(f"{error}\n", HTTPStatus.FORBIDDEN)
