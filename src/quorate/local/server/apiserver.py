"""The API server: authenticate, authorize and dispatch requests; report errors as Status objects."""

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from quorate.kube.cancellation import end_tasks
from quorate.kube.clock import Clock
from quorate.kube.manager.restart import run_restarting
from quorate.kube.serving.certificates import new_client_certificate
from quorate.local.certificates import ServerKeys, new_server_keys
from quorate.local.objects import errors
from quorate.local.objects.protobuf.table import find_message
from quorate.local.server import bootstrap, connections, parameters, request_info
from quorate.local.server.admission_rules.policies import AdmissionPolicies
from quorate.local.server.admission_rules.webhooks import WebhookConfigurations
from quorate.local.server.aggregation import proxy
from quorate.local.server.aggregation.api_services import ApiServiceController
from quorate.local.server.auth.authentication import ANONYMOUS, User, bearer_token, forbidden_request
from quorate.local.server.auth.authorization import AuthorizationAttributes, Authorizer
from quorate.local.server.auth.impersonation import impersonate
from quorate.local.server.auth.service_account_tokens import (
    InvalidToken,
    ServiceAccountTokens,
    TokenAuthenticator,
)
from quorate.local.server.backend_client import BackendClient
from quorate.local.server.discovery import metrics, nonresource
from quorate.local.server.handlers import (
    access_reviews,
    create,
    delete,
    listing,
    patch,
    pod_streams,
    scale,
    subresources,
    update,
    watch,
)
from quorate.local.server.kubelet_client import KubeletClient
from quorate.local.server.registry.custom_resources import CustomResourceController
from quorate.local.server.registry.feature_gates import served_kinds
from quorate.local.server.registry.kinds import SCALE, Kind, Registry
from quorate.local.server.registry.strategies import SUBRESOURCE_STRATEGIES
from quorate.local.server.registry.version_conversion import Converter, converter_for
from quorate.local.server.request_info import RequestInfo
from quorate.local.server.requests import media_types
from quorate.local.server.requests.context import RequestContext, ServerContext
from quorate.local.server.requests.responses import ApiResponse, Encoding
from quorate.local.server.requests.usage import simulated_usage
from quorate.local.server.storage.database import StorageFailed
from quorate.local.server.storage.store import Store, TooLarge, Unstorable

log = logging.getLogger(__name__)

HANDLERS: Mapping[str, Callable[[RequestContext], Awaitable[ApiResponse]]] = {
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
NO_CHECKS: Mapping[str, nonresource.Check] = MappingProxyType({})


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
        ready_checks: Mapping[str, nonresource.Check] = NO_CHECKS,
        kubelet_socket: Path | None = None,
        disabled_gates: Iterable[str] = (),
    ) -> None:
        """``tokens``: bearer tokens of users that are not service accounts.

        ``converters``: by API group, the conversion of its custom resources between versions.
        ``keys``: without them, service account tokens become invalid when the server stops.
        ``ready_checks``: what else than this server has to hold before /readyz answers with 200, by name.
        ``kubelet_socket``: of the kubelet of this machine, which serves logs and exec of its pods.
        ``disabled_gates``: the feature gates of ``feature_gates.GATES`` that are off.
        """
        keys = keys or new_server_keys(clock.now())
        self._kubelet = KubeletClient(kubelet_socket)
        self._server = ServerContext(
            store,
            Registry(),
            clock,
            new_uid,
            BackendClient(store, self._kubelet),
            WebhookConfigurations(store),
            AdmissionPolicies(store),
            Authorizer(store),
            TokenAuthenticator(tokens, ServiceAccountTokens(keys.tokens, store, clock, new_uid)),
            usage=partial(pod_streams.usage_of, store, self._kubelet) if kubelet_socket else simulated_usage,
        )
        self._server.registry.register(*served_kinds(disabled_gates))
        self._custom_resources = CustomResourceController(
            store,
            self._server.registry,
            self._server.timestamp,
            lambda definition: converter_for(definition, converters, self._server.backends, new_uid),
            self._server.computations,
        )
        self._front_proxy = keys.front_proxy
        self._api_services = ApiServiceController(
            store,
            self._server.backends,
            self._server.timestamp,
            new_client_certificate(keys.front_proxy, proxy.CLIENT_NAME, clock.now()),
        )
        self._background_tasks: list[asyncio.Task[None]] = []
        self._health_checks = nonresource.HealthChecks(
            {"ping": lambda: True, "etcd": lambda: store.is_writable},
            {"crd-informer-synced": lambda: self._custom_resources.is_synced, **ready_checks},
        )
        self._requests = metrics.RequestMetrics()
        self._runner: web.ServerRunner | None = None
        self._watches: set[asyncio.Task[Any]] = set()
        self.port = 0

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Listen on a port; 0 chooses a free one and sets ``port``.

        Raises OSError if the port is in use.
        """
        await self._server.store.start()
        await bootstrap.create_bootstrap_objects(self._server)
        await self._custom_resources.sync()
        await proxy.publish_front_proxy_ca(self._server, self._front_proxy.certificate)
        self._background_tasks = [
            asyncio.create_task(run_restarting(name, run, self._server.clock))
            for name, run in (
                ("custom resources", self._custom_resources.run),
                ("API services", self._api_services.run),
            )
        ]
        server = connections.BoundedServer(self._handle, connections.raise_file_limit())
        self._runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_GRACE_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def connect(self) -> socket.socket:
        """Return a socket connected to this server, for a client in the same process.

        Requests are authenticated and authorized as at ``port``.  Raises ConnectionRefusedError if the server
        has stopped.
        """
        protocols = None if self._runner is None else self._runner.server
        if protocols is None:
            raise ConnectionRefusedError("the API server has stopped")
        clients_end, own_end = socket.socketpair()
        try:
            await asyncio.get_running_loop().connect_accepted_socket(protocols, own_end)
        except BaseException:
            clients_end.close()
            own_end.close()
            raise
        return clients_end

    async def stop(self) -> None:
        """End the watches, finish the other requests and close the store."""
        for task in self._watches:
            task.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        await end_tasks(self._background_tasks)
        await self._server.backends.close()
        await self._server.store.stop()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        info = request_info.parse(request.method, request.path, request.query)
        response = await self._respond(request, info)
        if request_info.names_resource(self._server.registry, info):  # other paths would be new series
            self._requests.record(request, info, response.status)
        return response

    async def _respond(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        try:
            return await self._dispatch(request, info)
        except Exception as error:
            return _error_response(request, _status_error(request, error))

    async def _dispatch(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        user = self._authorize(request, info)
        if info.verb != "watch":
            parameters.check_timeout(request.query)
        aggregated_version = self._api_services.find_version(info.path)
        if aggregated_version is not None:
            with self._cancelled_on_stop():
                return await proxy.forward(
                    request, user, self._api_services, aggregated_version, self._server.backends
                )
        if not info.resource or not self._is_served(info):
            if info.path == metrics.PATH:
                return _http_response(self._requests.to_response())
            response = nonresource.respond(
                self._server.registry,
                self._server.store,
                self._api_services.groups(),
                self._health_checks,
                request,
            )
            return _http_response(await self._encoded(response))
        kind = request_info.resolve_kind(self._server.registry, info, request.method)
        context = RequestContext(
            self._server,
            user,
            info,
            kind,
            _accepted_media_type(request, info, kind),
            request.query,
            request.headers.get("Content-Type", ""),
            request.headers.get("User-Agent", ""),
            await connections.read_body(request),
        )
        if info.verb == "watch":
            return await self._watch(request, context)
        if pod_streams.handles(context):
            with self._cancelled_on_stop():
                return await pod_streams.respond(request, context, self._kubelet)
        try:
            response = await self._encoded(await _find_handler(context)(context))
            return _http_response(response, kind.warning)
        except errors.StatusError as error:
            warnings = [*context.warnings, *([kind.warning] if kind.warning else [])]
            return _error_response(request, error, warnings)

    async def _encoded(self, response: ApiResponse) -> ApiResponse:
        """Return a response with the bytes of its body, which are computed in a thread if they are many."""
        match response.body:
            case Encoding(size, encode):
                return replace(response, body=await self._server.computations.run(size, encode))
        return response

    def _authorize(self, request: web.BaseRequest, info: RequestInfo) -> User:
        """Return the user of a request.  Raises StatusError: 401, 403."""
        authorizer = self._server.authorizer
        user = impersonate(self._authenticate(request), request.headers.items(), authorizer, info)
        is_collection = info.verb in ("list", "watch", "deletecollection")
        field_selector = request.query.get("fieldSelector", "") if is_collection else ""
        if not authorizer.allows(user, AuthorizationAttributes.from_request(info, field_selector)):
            raise forbidden_request(user, info)
        return user

    def _authenticate(self, request: web.BaseRequest) -> User:
        """Return the user of the bearer token, or anonymous.

        Raises StatusError(401) for an unknown token.
        """
        token = bearer_token(request.headers.get("Authorization", ""))
        if not token:
            return ANONYMOUS
        try:
            return self._server.tokens.authenticate(token)[0]
        except InvalidToken as error:
            raise errors.unauthorized() from error

    def _is_served(self, info: RequestInfo) -> bool:
        registry = self._server.registry
        kind = registry.find(info.group, info.version, info.resource)
        if registry.is_custom_group(info.group):
            return kind is not None and (kind.namespaced or not info.namespace)
        return registry.has_group(info.group)

    async def _watch(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        if watch.is_websocket(request):
            as_json = replace(context, accepted=replace(context.accepted, media_type=media_types.JSON))
            with self._cancelled_on_stop():
                return await watch.send_events(request, watch.watch_frames(as_json))
        frames = watch.watch_frames(context)
        response = web.StreamResponse(
            headers={"Content-Type": context.accepted.stream_type, "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        with self._cancelled_on_stop(), suppress(ConnectionResetError):  # the client has disconnected
            await response.prepare(request)
            async for data in frames:
                await response.write(data)
        return response

    @contextmanager
    def _cancelled_on_stop(self) -> Iterator[None]:
        """Cancel the request when the server stops, for responses that have no end of their own."""
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            yield
        finally:
            self._watches.discard(task)


def _find_handler(context: RequestContext) -> Callable[[RequestContext], Awaitable[ApiResponse]]:
    kind, info = context.kind, context.info
    if kind.group in access_reviews.GROUPS:
        return access_reviews.create_review
    if info.subresource == "scale":
        return scale.HANDLERS[info.verb]
    handler = subresources.HANDLERS.get((kind.resource, info.subresource, info.verb))
    changes_object = (kind.resource, info.subresource) in SUBRESOURCE_STRATEGIES
    if handler is None and info.subresource not in ("", "status") and not changes_object:
        handler = subresources.not_implemented
    return handler or HANDLERS[info.verb]


def _http_response(api_response: ApiResponse, warning: str = "") -> web.Response:
    response = web.Response(
        status=api_response.code, body=api_response.body, headers={"Content-Type": api_response.content_type}
    )
    _add_warnings(response, [*api_response.warnings, *([warning] if warning else [])])
    return response


def _accepted_media_type(
    request: web.BaseRequest, info: RequestInfo, kind: Kind
) -> media_types.AcceptedMediaType:
    """Return the negotiated form of the response.  Raises StatusError(406)."""
    has_message = info.subresource == SCALE.name or (
        not kind.custom and find_message(kind.api_version, kind.kind) is not None
    )
    is_stored = "get" in kind.verbs  # access reviews, for example, have no table
    return media_types.negotiate(request.headers.get("Accept", ""), protobuf=has_message, table=is_stored)


def _status_error(request: web.BaseRequest, error: Exception) -> errors.StatusError:
    match error:
        case errors.StatusError():
            return error
        case web.HTTPRequestEntityTooLarge():
            return errors.too_large()
        case web.HTTPBadRequest():  # of a WebSocket handshake
            return errors.bad_request(error.text or error.reason)
        case RequestPayloadError():
            return errors.bad_request(
                "the body of the request cannot be read: its encoding or length is wrong"
            )
        case RecursionError():  # the result of a patch may nest more deeply than its parts
            return media_types.too_deep()
        case TooLarge():
            return errors.internal("etcdserver: request is too large")
        case StorageFailed(is_full=True):
            return errors.insufficient_storage(str(error))
        case StorageFailed():
            return errors.internal_error(str(error))
        case Unstorable():
            return errors.bad_request(f"the object cannot be stored: {error}")
    # A bug must not close the connection: the client gets a Status, the log gets the traceback.
    log.error("request failed", exc_info=error, extra={"method": request.method, "path": request.path})
    return errors.StatusError(500, "InternalError", "Internal error occurred: see the server's log")


def _error_response(
    request: web.BaseRequest, error: errors.StatusError, warnings: Sequence[str] = ()
) -> web.Response:
    accepted = media_types.negotiate_error(request.headers.get("Accept", ""))
    headers = {"Content-Type": accepted.media_type}
    if error.details and "retryAfterSeconds" in error.details:
        headers["Retry-After"] = str(error.details["retryAfterSeconds"])
    response = web.Response(status=error.code, body=accepted.encode(error.to_json()), headers=headers)
    _add_warnings(response, warnings)
    return response


MAX_WARNING_LENGTH = 256
MAX_WARNINGS_LENGTH = 4096
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def _add_warnings(response: web.Response, warnings: Iterable[str]) -> None:
    """Add Warning headers, shortened as kube-apiserver does when all together are too long.

    As in kube-apiserver, a warning with a control character is left out: a header cannot contain it.
    """
    distinct = [text for text in dict.fromkeys(warnings) if not CONTROL_CHARACTER.search(text)]
    too_long = sum(map(len, distinct)) > MAX_WARNINGS_LENGTH
    total = 0
    for warning in distinct:
        text = warning[:MAX_WARNING_LENGTH] if too_long else warning
        total += len(text)
        if total > MAX_WARNINGS_LENGTH:
            return
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')
