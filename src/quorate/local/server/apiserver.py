"""The server itself: requests dispatched to what answers them, a Status object where nothing can."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hmac import compare_digest
from types import MappingProxyType
from typing import Any

from aiohttp import web

from quorate.kube.clock import Clock
from quorate.kube.serving.certificates import new_client_certificate
from quorate.local.certificates import ServerKeys, new_server_keys
from quorate.local.server.admission.webhooks.configurations import Registered
from quorate.local.server.aggregation import proxy
from quorate.local.server.aggregation.api_services import Aggregated
from quorate.local.server.auth.authentication import ANONYMOUS, User, bearer, refuse
from quorate.local.server.auth.authorization import Action, Authorizer
from quorate.local.server.auth.impersonation import impersonated
from quorate.local.server.auth.service_account_tokens import Rejected, Tokens
from quorate.local.server.backend_client import Outside
from quorate.local.server.discovery import metrics, nonresource
from quorate.local.server.errors import JSON_PARSE_LIMIT, StatusError, too_large, unauthorized
from quorate.local.server.handlers import (
    access_reviews,
    create,
    delete,
    listing,
    patch,
    scale,
    subresources,
    update,
    watch,
)
from quorate.local.server.registry import bootstrap
from quorate.local.server.registry.builtin import KINDS
from quorate.local.server.registry.custom_resources import Definitions
from quorate.local.server.registry.kinds import Registry
from quorate.local.server.requests import media_types, request_info
from quorate.local.server.requests.context import Call, Context
from quorate.local.server.requests.request_info import Asked
from quorate.local.server.requests.responses import Answer
from quorate.local.server.storage.store import Store
from quorate.local.server.storage.version_conversion import Converter, conversion_of

log = logging.getLogger(__name__)

HANDLERS: Mapping[str, Callable[[Call], Awaitable[Answer]]] = {
    "get": listing.get,
    "list": listing.list_objects,
    "create": create.create,
    "update": update.replace,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}
SHUTDOWN_GRACE_S = 2.0
NO_CONVERTERS: Mapping[str, Converter] = MappingProxyType({})


class ApiServer:
    """A Kubernetes API on one port, over one store."""

    def __init__(
        self,
        store: Store,
        tokens: Mapping[str, User],
        clock: Clock,
        new_uid: Callable[[], str],
        converters: Mapping[str, Converter] = NO_CONVERTERS,
        keys: ServerKeys | None = None,
    ) -> None:
        """``tokens``: of users that are no service accounts.

        ``converters``: by API group, how its custom resources change from one version to another.
        ``keys``: without any, tokens of service accounts end with the server.
        """
        keys = keys or new_server_keys(clock.now())
        self._context = Context(
            store,
            Registry(),
            clock,
            new_uid,
            Outside(store),
            Registered(store),
            Authorizer(store),
            Tokens(keys.tokens, store, clock, new_uid),
        )
        self._context.registry.put(*KINDS)
        self._definitions = Definitions(
            store,
            self._context.registry,
            self._context.timestamp,
            lambda definition: conversion_of(definition, converters, self._context.outside, new_uid),
        )
        self._front_proxy = keys.front_proxy
        self._aggregated = Aggregated(
            store,
            self._context.outside,
            self._context.timestamp,
            new_client_certificate(keys.front_proxy, proxy.CLIENT_NAME, clock.now()),
        )
        self._following: list[asyncio.Task[None]] = []
        self._tokens = tokens
        self._requests = metrics.Requests()
        self._runner: web.ServerRunner | None = None
        self._watches: set[asyncio.Task[Any]] = set()
        self.port = 0

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Listen; port 0 takes a free one, which ``port`` then tells.  Raises OSError if it is taken."""
        await self._context.store.start()
        await bootstrap.prepare(self._context)
        await self._definitions.catch_up()
        await proxy.publish(self._context, self._front_proxy.certificate)
        self._following = [
            asyncio.create_task(self._definitions.follow()),
            asyncio.create_task(self._aggregated.follow()),
        ]
        # With cancellation, so that a watch ends when its client goes, not when it has something to tell.
        server = web.Server(
            self._handle, request_factory=_request, handler_cancellation=True, access_log=None
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_GRACE_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End the watches, finish the other requests, close the store."""
        for task in self._watches:
            task.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        for following in self._following:
            following.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        await self._context.outside.close()
        await self._context.store.stop()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = request_info.read(request.method, request.path, request.query)
        response = await self._respond(request, asked)
        self._requests.count(request, asked, response.status)
        return response

    async def _respond(self, request: web.BaseRequest, asked: Asked) -> web.StreamResponse:
        try:
            return await self._answer(request, asked)
        except StatusError as error:
            return _refusal(error)
        except web.HTTPRequestEntityTooLarge:
            return _refusal(too_large())
        except Exception:
            # A bug here must not take the connection down, nor hide: the client is told, the log tells where.
            log.exception("request failed", extra={"method": request.method, "path": request.path})
            return _refusal(
                StatusError(500, "InternalError", "Internal error occurred: see the server's log")
            )

    async def _answer(self, request: web.BaseRequest, asked: Asked) -> web.StreamResponse:
        user = self._allowed(request, asked)
        remote = self._aggregated.find_for(asked.path)
        if remote is not None:
            with self._ending_with_the_server():
                return await proxy.forward(request, user, self._aggregated, remote, self._context.outside)
        if not asked.resource or not self._known(asked):
            if asked.path == metrics.PATH:
                return _response(self._requests.answer())
            return _response(
                nonresource.answer(
                    self._context.registry, self._context.store, self._aggregated.groups(), request
                )
            )
        kind = request_info.resolve(self._context.registry, asked, request.method)
        call = Call(
            self._context,
            user,
            asked,
            kind,
            media_types.accepted(request.headers.get("Accept", "")),
            request.query,
            request.headers.get("Content-Type", ""),
            request.headers.get("User-Agent", ""),
            await request.read(),
        )
        if asked.verb == "watch":
            return await self._watch(request, call)
        try:
            return _response(await _handler(call)(call), kind.warning)
        except StatusError as error:
            return _refusal(error, call.warnings)

    def _allowed(self, request: web.BaseRequest, asked: Asked) -> User:
        """Who asks, if they may.  Raises StatusError: 401, 403."""
        authorizer = self._context.authorizer
        user = impersonated(self._authenticated(request), request.headers.items(), authorizer)
        of_many = asked.verb in ("list", "watch", "deletecollection")
        selector = request.query.get("fieldSelector", "") if of_many else ""
        if not authorizer.allows(user, Action.of(asked, selector)):
            raise refuse(user, asked)
        return user

    def _authenticated(self, request: web.BaseRequest) -> User:
        """Anonymous without a token.  Raises StatusError(401) for one that is nobody's."""
        token = bearer(request.headers.get("Authorization", ""))
        if not token:
            return ANONYMOUS
        for known, user in self._tokens.items():
            if compare_digest(known.encode(), token.encode()):
                return user
        try:
            return self._context.tokens.read(token)[0]
        except Rejected as rejected:
            raise unauthorized() from rejected

    def _known(self, asked: Asked) -> bool:
        registry = self._context.registry
        kind = registry.find(asked.group, asked.version, asked.resource)
        if registry.is_custom(asked.group):
            return kind is not None and (kind.namespaced or not asked.namespace)
        return registry.serves_group(asked.group)

    async def _watch(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        frames = watch.frames(call)
        response = web.StreamResponse(
            headers={"Content-Type": media_types.JSON, "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        with self._ending_with_the_server(), suppress(ConnectionResetError):  # the client has seen enough
            await response.prepare(request)
            async for data in frames:
                await response.write(data)
        return response

    @contextmanager
    def _ending_with_the_server(self) -> Iterator[None]:
        """What would go on for as long as the client likes is cut off when the server stops."""
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            yield
        finally:
            self._watches.discard(task)


def _request(*parts: Any) -> web.BaseRequest:
    message, payload, protocol, writer, task = parts
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=JSON_PARSE_LIMIT)


def _handler(call: Call) -> Callable[[Call], Awaitable[Answer]]:
    kind, asked = call.kind, call.asked
    if kind.group in access_reviews.GROUPS:
        return access_reviews.review
    if asked.subresource == "scale":
        return scale.HANDLERS[asked.verb]
    handler = subresources.HANDLERS.get((kind.resource, asked.subresource, asked.verb))
    if handler is None and asked.subresource not in ("", "status"):
        handler = subresources.unreachable
    return handler or HANDLERS[asked.verb]


def _response(answer: Answer, warning: str = "") -> web.Response:
    response = web.Response(
        status=answer.code, body=answer.body, headers={"Content-Type": answer.content_type}
    )
    _warn(response, [*answer.warnings, *([warning] if warning else [])])
    return response


def _refusal(error: StatusError, warnings: Sequence[str] = ()) -> web.Response:
    headers = {"Content-Type": media_types.JSON}
    if error.details and "retryAfterSeconds" in error.details:
        headers["Retry-After"] = str(error.details["retryAfterSeconds"])
    body = media_types.Accepted().encode(error.to_json())
    response = web.Response(status=error.code, body=body, headers=headers)
    _warn(response, warnings)
    return response


def _warn(response: web.Response, warnings: Iterable[str]) -> None:
    for text in dict.fromkeys(warnings):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')
