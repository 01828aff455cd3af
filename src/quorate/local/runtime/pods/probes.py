"""Probes and lifecycle hooks of containers.

A probe or hook is a command, a request over HTTP or gRPC, a TCP connection, or a sleep.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urljoin, urlsplit

from quorate.kube.clock import Clock
from quorate.local.connections import Streams, connect
from quorate.local.objects.protobuf.table import write_varint
from quorate.local.runtime.containers.processes import killed_at_the_end
from quorate.local.runtime.containers.running import RunningContainer, exec_arguments
from quorate.local.runtime.network.types import PodNetwork
from quorate.local.runtime.pod_types import Container, GrpcAction, Handler, HttpGetAction, IntOrString, Probe

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7  # types of frames
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8  # flags
STREAM: Final = 1
USER_AGENT: Final = "kube-probe/1.36"
MAX_FRAME_BYTES: Final = 16384
MAX_FRAMES: Final = 100
MESSAGE_HEAD_BYTES: Final = 5  # of gRPC: whether it is compressed, and its length
STATUSES: Final = {b"\x08\x01": "SERVING", b"\x08\x02": "NOT_SERVING", b"\x08\x03": "SERVICE_UNKNOWN"}
FAILED: Final = "error: health rpc probe failed"


async def health(
    reader: asyncio.StreamReader, write: Callable[[bytes], None], authority: str, service: str
) -> str:
    """Return the serving status of a service, such as SERVING, by grpc.health.v1 Health/Check.

    This client speaks as much of HTTP/2 (RFC 9113) and HPACK (RFC 7541) as one request takes: request headers
    are sent without compression, and of the response only the message is read, not the headers and trailers.

    Raises OSError if the server answers without a status, EOFError if it ends the connection before.
    """
    write(PREFACE + _frame(SETTINGS, 0, 0, b"") + _health_request(authority, service))
    message = b""
    for _ in range(MAX_FRAMES):
        head = await reader.readexactly(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        if length > MAX_FRAME_BYTES:
            break
        payload = await reader.readexactly(length)
        if kind in (SETTINGS, PING) and not flags & ACK:
            write(_frame(kind, ACK, 0, payload if kind == PING else b""))
        if kind == DATA:
            message += payload[1 : length - payload[0]] if flags & PADDED and payload else payload
            if len(message) >= MESSAGE_HEAD_BYTES:
                size = int.from_bytes(message[1:MESSAGE_HEAD_BYTES], "big")
                content = message[MESSAGE_HEAD_BYTES:]
                if len(content) >= size:
                    return STATUSES.get(content[:size], "UNKNOWN")
        if kind in (RST_STREAM, GOAWAY) or (kind in (DATA, HEADERS) and flags & END_STREAM):
            break
    raise OSError(FAILED)


def _health_request(authority: str, service: str) -> bytes:
    name = service.encode()
    message = b"\x0a" + write_varint(len(name)) + name if name else b""
    headers = b"".join(
        (
            b"\x83\x86",  # :method POST, :scheme http
            b"\x04" + _text("/grpc.health.v1.Health/Check"),
            b"\x01" + _text(authority),
            b"\x0f\x10" + _text("application/grpc"),  # content-type
            b"\x00" + _text("te") + _text("trailers"),
            b"\x0f\x2b" + _text(USER_AGENT),  # user-agent
        )
    )
    body = b"\0" + len(message).to_bytes(4, "big") + message
    return _frame(HEADERS, END_HEADERS, STREAM, headers) + _frame(DATA, END_STREAM, STREAM, body)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _text(text: str) -> bytes:
    """Return a string of HPACK, which has fewer than 127 bytes."""
    return bytes((len(text),)) + text.encode()


OUTPUT_BYTES: Final = 10240
HEADER_BYTES: Final = 65536
MAX_REQUESTS: Final = 10  # of a probe that is redirected


@dataclass(frozen=True, slots=True)
class HandlerResult:
    succeeded: bool
    output: str = ""
    warning: str = ""  # of a result that counts as a success


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """The container that is probed, and how it is reached."""

    container: Container
    running: RunningContainer
    address: str
    network: PodNetwork


async def run_handler(handler: Handler, target: ProbeTarget, timeout_s: float) -> HandlerResult:
    """Run a probe or hook; a failed result has the message that a kubelet reports."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _run(handler, target)
    except TimeoutError:
        return HandlerResult(
            False, f"command timed out after {timeout_s:g}s" if handler.exec else _deadline(timeout_s)
        )
    except (OSError, ValueError, OverflowError) as error:
        return HandlerResult(False, str(error))


def _deadline(timeout_s: float) -> str:
    return f"context deadline exceeded (no answer within {timeout_s:g} s)"


async def _run(handler: Handler, target: ProbeTarget) -> HandlerResult:
    if handler.exec is not None:
        return await _exec(handler.exec.command, target.running)
    if handler.http_get is not None:
        return await _http_get(handler.http_get, target)
    if handler.tcp_socket is not None:
        port = _port(handler.tcp_socket.port, target.container)
        _, writer = await _connect(handler.tcp_socket.host, port, target, None)
        writer.close()
        return HandlerResult(True)
    if handler.sleep is not None:
        await asyncio.sleep(handler.sleep.seconds)
        return HandlerResult(True)
    if handler.grpc is not None:
        return await _grpc(handler.grpc, target)
    return HandlerResult(False, "missing probe handler")


async def _exec(command: tuple[str, ...], running: RunningContainer) -> HandlerResult:
    process = await asyncio.create_subprocess_exec(
        *exec_arguments(running, command),
        env=dict(running.environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    async with killed_at_the_end(process):
        output = await process.stdout.read(OUTPUT_BYTES)
        while await process.stdout.read(OUTPUT_BYTES):
            pass  # the rest is not kept
        code = await process.wait()
    return HandlerResult(code == 0, output.decode(errors="replace"))


async def _grpc(action: GrpcAction, target: ProbeTarget) -> HandlerResult:
    address = f"{target.address}:{action.port}"
    try:
        reader, writer = await _connect("", action.port, target, None)
    except OSError as error:
        return HandlerResult(False, f'error: failed to connect service at "{address}": {error}')
    try:
        status = await health(reader, writer.write, address, action.service)
    except EOFError:
        return HandlerResult(False, FAILED)
    finally:
        writer.close()
    return HandlerResult(status == "SERVING", f'service unhealthy (responded with "{status}")')


async def _http_get(action: HttpGetAction, target: ProbeTarget) -> HandlerResult:
    """Send the request, and again where the container redirects it to on the same host."""
    port = _port(action.port, target.container)
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    host = action.host or target.address
    url = f"{action.scheme.lower()}://{f'[{host}]' if ':' in host else host}:{port}{path}"
    for _ in range(MAX_REQUESTS):
        answer = await _get(url, action, target)
        if isinstance(answer, HandlerResult):
            return answer
        location = urljoin(url, answer.location)
        if not answer.location or urlsplit(location).hostname != urlsplit(url).hostname:
            warning = f"Probe terminated redirects, Response body: {answer.body}"
            return HandlerResult(True, warning=warning)
        url = location
    return HandlerResult(False, f'Get "{url}": stopped after {MAX_REQUESTS} redirects')


@dataclass(frozen=True, slots=True)
class _Redirect:
    location: str  # empty if the response names none
    body: str


async def _get(url: str, action: HttpGetAction, target: ProbeTarget) -> HandlerResult | _Redirect:
    tls = None
    parts = urlsplit(url)
    if parts.scheme == "https":
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    reader, writer = await _connect(action.host, parts.port or (443 if tls else 80), target, tls)
    try:
        headers = {"Host": parts.netloc, "User-Agent": USER_AGENT, "Accept": "*/*", "Connection": "close"}
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        writer.write(_request(path, action, headers))
        await writer.drain()
        status_line = await reader.readline()
        words = status_line.split(b" ", 2)
        if len(words) < 2 or not words[1].isdigit():
            return HandlerResult(False, f"malformed HTTP response {status_line[:100]!r}")
        code = int(words[1])
        if 300 <= code < 400:
            return await _redirect(reader)
    finally:
        writer.close()
    if 200 <= code < 300:
        return HandlerResult(True)
    return HandlerResult(False, f"HTTP probe failed with statuscode: {code}")


async def _redirect(reader: asyncio.StreamReader) -> _Redirect:
    location = ""
    while line := (await reader.readline()).strip():
        name, _, value = line.decode(errors="replace").partition(":")
        if name.lower() == "location":
            location = value.strip()
    return _Redirect(location, (await reader.read(OUTPUT_BYTES)).decode(errors="replace"))


def _request(path: str, action: HttpGetAction, headers: Mapping[str, str]) -> bytes:
    sent = {**headers, **{header.name: header.value for header in action.http_headers}}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    text = "".join(f"{line.translate({10: None, 13: None})}\r\n" for line in lines)
    return f"{text}\r\n".encode()


async def _connect(host: str, port: int, target: ProbeTarget, tls: ssl.SSLContext | None) -> Streams:
    address, name = (host or target.address, port), "" if tls else None
    opened = await target.network.open_socket_to(address[0])
    return await connect(opened, address, ssl=tls, server_hostname=name, limit=HEADER_BYTES)


def _port(port: IntOrString, container: Container) -> int:
    if isinstance(port, int):
        return port
    for declared in container.ports:
        if declared.name == port:
            return declared.container_port
    if port.isdecimal():
        return int(port)
    raise OSError(f"couldn't find port: {port!r} in container {container.name}")


Kind = Literal["Startup", "Liveness", "Readiness"]
KINDS: Final[tuple[Kind, ...]] = ("Startup", "Liveness", "Readiness")


@dataclass(frozen=True, slots=True)
class Health:
    """What probes and hooks say of a running container."""

    started: bool = True  # the startup probe has succeeded, and the postStart hook has ended
    ready: bool = True
    failure: str = ""  # why the container is to be stopped; restart policies decide what follows


@dataclass(frozen=True, slots=True)
class ProbeHistory:
    """The number of successive equal results of a probe of a container, and the verdict of that probe."""

    succeeded: bool  # the verdict; it changes once the threshold of equal results is reached
    last: bool | None = None
    count: int = 0  # of equal results in a row

    def after(self, probe: Probe, succeeded: bool) -> "ProbeHistory":
        """Return the history after one more result."""
        count = self.count + 1 if self.last is succeeded else 1
        threshold = probe.success_threshold if succeeded else probe.failure_threshold
        verdict = succeeded if count >= threshold else self.succeeded
        return ProbeHistory(verdict, succeeded, count)


class ContainerProber:
    """Runs the probes of one running container.

    ``health`` is what the probes say so far; ``on_change`` is called when it has changed.
    ``on_result`` gets the reason and the message of the event of each failed probe, and of each warning.
    """

    def __init__(
        self,
        target: ProbeTarget,
        clock: Clock,
        started_at: float,
        on_change: Callable[[], None],
        on_result: Callable[[str, str], None],
    ) -> None:
        self._target = target
        self._clock = clock
        self._started_at = started_at
        self._on_change = on_change
        self._on_result = on_result
        container = target.container
        self.hook_ended = container.lifecycle.post_start is None
        self._started = container.startup_probe is None
        self._ready = container.readiness_probe is None
        self._failure = ""
        self._startup_passed = asyncio.Event()
        if self._started:
            self._startup_passed.set()

    @property
    def health(self) -> Health:
        return Health(self._started and self.hook_ended, self._ready, self._failure)

    def fail(self, message: str) -> None:
        """Let the container be stopped because of a failed hook."""
        self._failure = message
        self._on_change()

    async def run(self) -> None:
        """Probe until cancelled."""
        container = self._target.container
        probes = (container.startup_probe, container.liveness_probe, container.readiness_probe)
        async with asyncio.TaskGroup() as tasks:
            for kind, probe in zip(KINDS, probes, strict=True):
                if probe is not None:
                    tasks.create_task(self._repeat(kind, probe))

    async def _repeat(self, kind: Kind, probe: Probe) -> None:
        if kind != "Startup":
            await self._startup_passed.wait()
        history = ProbeHistory(succeeded=kind == "Liveness")
        await self._clock.sleep_until(self._started_at + probe.initial_delay_seconds)
        while True:
            result = await run_handler(probe, self._target, max(1, probe.timeout_seconds))
            if not result.succeeded:
                self._on_result("Unhealthy", f"{kind} probe failed: {result.output}")
            elif result.warning:
                self._on_result("ProbeWarning", f"{kind} probe warning: {result.warning}")
            history = history.after(probe, result.succeeded)
            self._apply(kind, probe, history)
            if kind == "Startup" and history.succeeded:
                return
            await asyncio.sleep(max(1, probe.period_seconds))

    def _apply(self, kind: Kind, probe: Probe, history: ProbeHistory) -> None:
        before = self.health
        name = self._target.container.name
        failed = history.last is False and history.count >= probe.failure_threshold
        match kind:
            case "Startup" if history.succeeded:
                self._started = True
                self._startup_passed.set()
            case "Readiness":
                self._ready = history.succeeded
            case _ if failed and not self._failure:
                self._failure = f"Container {name} failed {kind.lower()} probe, will be restarted"
        if self.health != before:
            self._on_change()
