"""The HTTP server of a kubelet, on a Unix socket: logs, exec, attach and port-forward of its containers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

from aiohttp import hdrs, web

from quorate.api.codec import Json
from quorate.api.meta import at_epoch
from quorate.kube.cancellation import end_tasks
from quorate.kube.clock import Clock
from quorate.kube.log import logger
from quorate.local.connections import (
    CONNECT_TIMEOUT_S,
    UPGRADED,
    Inbox,
    NoResponse,
    Streams,
    UpgradedConnection,
    connect,
    short_socket_path,
)
from quorate.local.container_logs import InvalidLogOption, log_chunks, read_options
from quorate.local.runtime.containers.running import PodIndex, PodOnNode
from quorate.local.runtime.network.types import PodNetwork
from quorate.local.runtime.streaming import port_forward
from quorate.local.runtime.streaming.commands import ClientStreams, CommandOptions, attach, run_command
from quorate.local.runtime.streaming.port_forward import forward, port_number
from quorate.local.runtime.streaming.remote_command import (
    MAX_MESSAGE_BYTES,
    SPDY_PROTOCOLS,
    WEBSOCKET_PROTOCOLS,
    SpdyStreams,
    WebSocketBytes,
    WebSocketStreams,
)
from quorate.local.runtime.streaming.spdy import ProtocolError, SpdySession
from quorate.local.runtime.streaming.stats import UsageStatistics

SOCKET: Final = "kubelet.sock"
SPDY: Final = "SPDY/3.1"
PROTOCOL_HEADER: Final = "X-Stream-Protocol-Version"
SHUTDOWN_S: Final = 1.0
MAX_REQUEST_LINE_BYTES: Final = 64 * 1024  # as of the API server: the command of ``exec`` is part of it
TUNNEL: Final = "tcp"  # raw bytes after the upgrade

T = TypeVar("T")
Run = Callable[[CommandOptions, ClientStreams], Coroutine[Any, Any, Json]]

log = logger(__name__)


class Refused(Exception):
    """A request that cannot be served: its status code, and the message that clients show."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class KubeletServer:
    def __init__(self, state: Path, pods: PodIndex, network: PodNetwork, clock: Clock) -> None:
        """``state``: the directory of the kubelet."""
        self._pods = pods
        self._statistics = UsageStatistics(state, pods)
        self._network = network
        self._clock = clock

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._route(request)
        except Refused as refusal:
            return web.Response(status=refusal.code, text=str(refusal))
        except (ProtocolError, ConnectionError, TimeoutError) as error:
            log.info("stream ended", path=request.path, reason=str(error) or type(error).__name__)
            return NoResponse() if request.get(UPGRADED) else web.Response(status=500, text=str(error))

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.path.strip("/").split("/"):
            case ["containerLogs", namespace, pod, container]:
                return await self._logs(request, namespace, pod, container)
            case ["exec", namespace, pod, container]:
                options = _command_options(request, request.query.getall("command", []))
                if not options.command:
                    raise Refused(400, "you must specify at least 1 command for the container")
                running = _present(self._pod(namespace, pod).running(container), container)
                return await self._command(request, options, partial(run_command, running))
            case ["attach", namespace, pod, container]:
                options = _command_options(request, ())
                console = _present(self._pod(namespace, pod).console(container), container)
                return await self._command(request, options, partial(attach, console))
            case ["portForward", namespace, pod]:
                return await self._port_forward(request, namespace, pod)
            case ["tunnel", namespace, pod, port]:
                return await self._tunnel(request, namespace, pod, port)
            case ["stats", "summary"]:
                return web.json_response(await self._statistics.summary())
            case ["healthz"]:
                return web.Response(text="ok")
            case _:
                raise Refused(404, "404 page not found")

    async def _logs(
        self, request: web.BaseRequest, namespace: str, pod: str, container: str
    ) -> web.StreamResponse:
        try:
            options = read_options(request.query, at_epoch(self._clock.now()))
        except InvalidLogOption as error:
            raise Refused(400, str(error)) from error
        path = self._log_path(namespace, pod, container, previous=options.previous)

        def may_grow() -> bool:
            running = self._pods.pod(namespace, pod)
            logs = None if running is None else running.logs(container)
            return logs is not None and logs.latest == path and logs.is_running

        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        async for chunk in log_chunks(path, options, may_grow):
            await response.write(chunk)
        return response

    def _log_path(self, namespace: str, pod: str, container: str, *, previous: bool) -> Path:
        logs = self._pod(namespace, pod).logs(container)
        if logs is None:
            raise Refused(404, f'container "{container}" not found in pod "{pod}"')
        path = logs.previous if previous else logs.latest
        if path is None and previous:
            raise Refused(400, f'previous terminated container "{container}" in pod "{pod}" not found')
        if path is None or not path.exists():
            raise Refused(400, f'container "{container}" in pod "{pod}" is waiting to start: {logs.waiting}')
        return path

    async def _command(
        self, request: web.BaseRequest, options: CommandOptions, run: Run
    ) -> web.StreamResponse:
        if _wants_websocket(request):
            websocket = await _open_websocket(request, WEBSOCKET_PROTOCOLS)
            client = WebSocketStreams(websocket)
            await client.open(options)
            await _run_while_connected(run, options, client, client.receive())
            return websocket
        _require_spdy(request)
        protocol = _stream_protocol(request, SPDY_PROTOCOLS)
        connection = await _switch_to_spdy(request, protocol)
        streams = SpdyStreams(options, protocol)
        receiving = asyncio.create_task(SpdySession(connection, streams.on_stream).run())
        tasks = [receiving]
        try:
            await streams.opened()
            tasks.append(asyncio.create_task(streams.receive_sizes()))
            await _run_while_connected(run, options, streams, receiving)
        finally:
            await end_tasks(tasks)
            connection.close()
        return NoResponse()

    async def _port_forward(self, request: web.BaseRequest, namespace: str, pod: str) -> web.StreamResponse:
        uid = self._pod(namespace, pod).uid

        async def connect(port: int) -> Streams:
            return await self._connect(uid, port)

        if not _wants_websocket(request):
            _require_spdy(request)
            protocol = _stream_protocol(request, (port_forward.SPDY_PROTOCOL,))
            connection = await _switch_to_spdy(request, protocol)
            try:
                await port_forward.forward_over_spdy(connection, connect, uid)
            finally:
                connection.close()
            return NoResponse()
        ports = _ports(request)
        websocket = await _open_websocket(request, port_forward.WEBSOCKET_PROTOCOLS)
        if websocket.ws_protocol == port_forward.TUNNEL_PROTOCOL:
            await port_forward.forward_over_spdy(WebSocketBytes(websocket), connect, uid)
            await websocket.close()
        else:
            await port_forward.forward_over_channels(websocket, ports, connect, uid)
        return websocket

    async def _tunnel(
        self, request: web.BaseRequest, namespace: str, pod: str, port: str
    ) -> web.StreamResponse:
        """Connect the client to a port of the pod: after the upgrade all bytes belong to the port."""
        try:
            target = await self._connect(self._pod(namespace, pod).uid, port_number(port))
        except (OSError, ValueError) as error:
            raise Refused(HTTPStatus.BAD_GATEWAY, str(error) or "no answer") from error
        connection = UpgradedConnection(request)
        await connection.switch((("Connection", "Upgrade"), ("Upgrade", TUNNEL)))
        inbox = Inbox()

        async def receive() -> None:
            while content := await connection.read():
                await inbox.put(content)
            inbox.end()

        receiving = asyncio.create_task(receive())
        try:
            await forward(inbox, connection.write, target)
        finally:
            await end_tasks([receiving])
            connection.close()
        return NoResponse()

    def _pod(self, namespace: str, name: str) -> PodOnNode:
        """Return a pod of this node.  Raises ``Refused`` (404)."""
        pod = self._pods.pod(namespace, name)
        if pod is None:
            raise Refused(404, f'pod "{namespace}/{name}" not found')
        return pod

    async def _connect(self, uid: str, port: int) -> Streams:
        """Connect to a port on the loopback device of a pod, as container runtimes do."""
        opened = await self._network.open_socket(uid)
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await connect(opened, ("127.0.0.1", port))


def _present(running: T | None, container: str) -> T:
    """Return a part of a running container.  Raises ``Refused`` (500) if the container does not run."""
    if running is None:
        raise Refused(500, f'container not found ("{container}")')
    return running


@asynccontextmanager
async def serve_kubelet(state: Path, server: KubeletServer) -> AsyncIterator[None]:
    """Serve on the socket in the directory ``state`` until the block ends; the streams end with it."""
    path = state / SOCKET
    path.unlink(missing_ok=True)
    runner = web.ServerRunner(
        web.Server(
            server.handle, handler_cancellation=True, access_log=None, max_line_size=MAX_REQUEST_LINE_BYTES
        ),
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    with short_socket_path(path) as short_path:
        await web.UnixSite(runner, short_path).start()
    try:
        yield
    finally:
        await runner.cleanup()
        with suppress(OSError):
            path.unlink(missing_ok=True)


async def _run_while_connected(
    run: Run, options: CommandOptions, client: ClientStreams, receiving: Awaitable[None]
) -> None:
    """Run the command, or attach to the container, until that ends or the client has disconnected."""
    if not options.stdin:
        client.stdin.discard()
    running = asyncio.ensure_future(run(options, client))
    connected = asyncio.ensure_future(receiving)
    try:
        await asyncio.wait([running, connected], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await client.finish(running.result())
    finally:
        await end_tasks([running, connected])


def _command_options(request: web.BaseRequest, command: Any) -> CommandOptions:
    """Read the options, under the names that the API or a kubelet has for them."""
    query = request.query

    def flag(*names: str) -> bool:
        return any(query.get(name, "").lower() not in ("", "0", "false") for name in names)

    tty = flag("tty")
    options = CommandOptions(
        flag("stdin", "input"),
        flag("stdout", "output"),
        flag("stderr", "error") and not tty,
        tty,
        tuple(command),
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise Refused(400, "you must specify at least 1 of stdin, stdout, stderr")
    return options


def _ports(request: web.BaseRequest) -> list[int]:
    texts = [text for value in request.query.getall("ports", []) for text in value.split(",")]
    try:
        ports = [port_number(text) for text in texts]
    except ValueError as error:
        raise Refused(400, f"ports: {error}") from error
    if len(ports) > port_forward.MAX_PORTS:
        raise Refused(400, f"ports: more than {port_forward.MAX_PORTS}")
    return ports


def _wants_websocket(request: web.BaseRequest) -> bool:
    return request.headers.get(hdrs.UPGRADE, "").lower() == "websocket"


def _require_spdy(request: web.BaseRequest) -> None:
    if request.headers.get(hdrs.UPGRADE, "").lower() != SPDY.lower():
        raise Refused(400, "Upgrade request required")


def _stream_protocol(request: web.BaseRequest, supported: tuple[str, ...]) -> str:
    """Return the first protocol of the client that is supported."""
    offered = request.headers.getall(PROTOCOL_HEADER, [])
    names = [name.strip() for value in offered for name in value.split(",")]
    if not names:
        return supported[-1]  # the oldest, as clients that name none expect
    chosen = next((name for name in names if name in supported), None)
    if chosen is None:
        raise Refused(
            403, f"unable to negotiate protocol: client supports {names}, server accepts {list(supported)}"
        )
    return chosen


async def _switch_to_spdy(request: web.BaseRequest, protocol: str) -> UpgradedConnection:
    connection = UpgradedConnection(request)
    headers = (("Connection", "Upgrade"), ("Upgrade", SPDY), (PROTOCOL_HEADER, protocol))
    await connection.switch(headers)
    return connection


async def _open_websocket(request: web.BaseRequest, protocols: tuple[str, ...]) -> web.WebSocketResponse:
    websocket = web.WebSocketResponse(protocols=protocols, max_msg_size=MAX_MESSAGE_BYTES, compress=False)
    try:
        await websocket.prepare(request)
    except web.HTTPException as error:
        raise Refused(error.status, error.text or error.reason) from error
    request[UPGRADED] = True
    return websocket
