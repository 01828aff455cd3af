"""log, exec, attach, portforward and proxy: requests that the kubelet of the pod's node answers."""

from base64 import b64encode
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final
from urllib.parse import quote

import aiohttp
import msgspec
from aiohttp import hdrs, web

from quorate.api.codec import Json
from quorate.api.meta import at_epoch
from quorate.local.container_logs import InvalidLogOption, LogOptions, one_line, read_options
from quorate.local.objects.errors import StatusError, bad_request, not_found
from quorate.local.server.admission import webhooks
from quorate.local.server.aggregation.proxy import forwarded_headers
from quorate.local.server.backend_client import SERVICE_NAME_LABEL
from quorate.local.server.handlers import watch
from quorate.local.server.kubelet_client import KubeletClient, is_simulated, request_head
from quorate.local.server.parameters import boolean
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.requests.usage import PodUsage, read_summary
from quorate.local.server.storage.store import Key, Store

STREAMS: Final = frozenset({"attach", "exec", "log", "portforward"})
OPTIONS: Final = {
    "attach": "AttachOptions",
    "exec": "ExecOptions",
    "portforward": "PortForwardOptions",
    "proxy": "ProxyOptions",
}
FLAGS: Final = ("stdin", "stdout", "stderr", "tty")
PROXIED: Final = frozenset({"nodes", "pods", "services"})
BASE64_PROTOCOL: Final = "base64.binary.k8s.io"
LOG_PROTOCOLS: Final = ("binary.k8s.io", BASE64_PROTOCOL)
"""The subprotocols of a log over a WebSocket: bytes, also without a subprotocol, or text."""
UPGRADE_HEADERS: Final = ("connection", "origin", "upgrade", "x-stream-protocol-version")


def handles(context: RequestContext) -> bool:
    """Return True if ``respond`` answers the request."""
    kind, subresource = context.kind, context.info.subresource
    if kind.group:
        return False
    is_stream = kind.resource == "pods" and subresource in STREAMS
    return is_stream or (subresource == "proxy" and kind.resource in PROXIED)


async def respond(
    request: web.BaseRequest, context: RequestContext, kubelet: KubeletClient
) -> web.StreamResponse:
    """Answer from the kubelet.  Raises StatusError."""
    if context.info.subresource != "log":
        kind, options = _connect_options(request, context)
        await webhooks.validate(context, "CONNECT", options, kind=kind)
    if context.info.subresource == "proxy":
        return await _proxy(request, context, kubelet)
    pod = _get(context, "pods", context.namespace, context.name)
    if context.info.subresource == "log":
        return await _log(request, context, pod, kubelet)
    if context.info.verb == "get":
        context.require("create")  # a WebSocket starts with a GET, but what it does is no reading
    _require_process(context, pod, context.info.subresource)
    path = f"/portForward/{context.namespace}/{context.name}"
    if context.info.subresource != "portforward":
        container = _container(pod, context.query.get("container", ""))
        path = f"/{context.info.subresource}/{context.namespace}/{context.name}/{quote(container, safe='')}"
    headers = [
        (name, value)
        for name, value in request.headers.items()
        if name.lower() in UPGRADE_HEADERS or name.lower().startswith("sec-websocket-")
    ]
    return await kubelet.upgrade(request, f"{path}?{request.rel_url.raw_query_string}", headers)


def _connect_options(request: web.BaseRequest, context: RequestContext) -> tuple[Kind, Json]:
    """Return the options of a connection as an object, which admission regards, and their kind."""
    kind = replace(context.kind, kind=f"{context.kind.kind}{OPTIONS[context.info.subresource]}")
    options: Json = {"kind": kind.kind, "apiVersion": kind.api_version}
    if context.info.subresource == "proxy":
        return kind, options | {"path": proxied_path(request.raw_path).partition("?")[0]}
    query = context.query
    options |= {name: True for name in FLAGS if name in query and boolean(query, name)}
    if query.get("container"):
        options["container"] = query["container"]
    if "command" in query:
        options["command"] = query.getall("command")
    if "ports" in query:
        options["ports"] = [int(port) for port in query.getall("ports") if port.isdecimal()]
    return kind, options


async def usage_of(store: Store, kubelet: KubeletClient, node: str) -> PodUsage | None:
    """Return what the pods of a node use; None for a simulated node, nothing without an answer."""
    if is_simulated(store, node):
        return None
    try:
        async with kubelet.get("/stats/summary", "") as response:
            return read_summary(await response.read())
    except (StatusError, msgspec.MsgspecError, aiohttp.ClientError):
        return {}


async def _log(
    request: web.BaseRequest, context: RequestContext, pod: Json, kubelet: KubeletClient
) -> web.StreamResponse:
    container = _container(pod, context.query.get("container", ""))
    if not pod["spec"].get("nodeName"):
        return web.Response(status=204)
    if is_simulated(context.server.store, pod["spec"]["nodeName"]):
        return await simulated_log(request, context, pod, container)
    path = f"/containerLogs/{context.namespace}/{context.name}/{quote(container, safe='')}"
    async with kubelet.get(path, request.rel_url.raw_query_string) as upstream:
        return await _send_log(request, upstream.content.iter_any())


async def _send_log(request: web.BaseRequest, chunks: AsyncIterable[bytes]) -> web.StreamResponse:
    """Send a log as the body of the response or, if the client upgrades, as messages of a WebSocket."""
    if watch.is_websocket(request):
        return await watch.send_messages(request, LOG_PROTOCOLS, partial(_send_messages, chunks))
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/plain"})
    response.enable_chunked_encoding()
    with suppress(ConnectionResetError):  # the client has disconnected
        await response.prepare(request)
        async for chunk in chunks:
            await response.write(chunk)
    return response


async def _send_messages(chunks: AsyncIterable[bytes], websocket: web.WebSocketResponse) -> None:
    async for chunk in chunks:
        if websocket.ws_protocol == BASE64_PROTOCOL:
            await websocket.send_str(b64encode(chunk).decode())
        else:
            await websocket.send_bytes(chunk)


def _get(context: RequestContext, resource: str, namespace: str, name: str) -> Json:
    """Return an object of the core group.  Raises StatusError(404)."""
    entry = context.server.store.get(Key(resource, namespace, name))
    if entry is None:
        raise not_found("", resource, name)
    return entry.decode()


def _require_process(context: RequestContext, pod: Json, what: str) -> None:
    """Raise StatusError(400), which says ``what`` is missing, unless the pod's node has a kubelet."""
    name, node_name = pod["metadata"]["name"], pod["spec"].get("nodeName")
    if not node_name:
        raise bad_request(f"pod {name} does not have a host assigned")
    _require_kubelet(context, node_name, f"pod {name} has no {what}")


def _require_kubelet(context: RequestContext, node: str, problem: str) -> None:
    """Raise StatusError(400), which begins with ``problem``, if the node is simulated."""
    if is_simulated(context.server.store, node):
        raise bad_request(
            f"{problem}: node {node} simulates its pods and runs no process for them "
            "(quorate local up --runtime process runs pods as processes)"
        )


def _container(pod: Json, name: str) -> str:
    """Return the name of the container of a request; without one the pod must have only one container."""
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    names = [container["name"] for container in spec["containers"]]
    others = [container["name"] for container in spec.get("initContainers", ())]
    ephemeral = [container["name"] for container in spec.get("ephemeralContainers", ())]
    if name:
        if name not in (*names, *others, *ephemeral):
            raise bad_request(f"container {name} is not valid for pod {pod_name}")
        return name
    if len(names) == 1:
        return str(names[0])
    message = f"a container name must be specified for pod {pod_name}, choose one of: [{' '.join(names)}]"
    if others:
        message += f" or one of the init containers: [{' '.join(others)}]"
    if ephemeral:
        message += f" or one of the ephemeral containers: [{' '.join(ephemeral)}]"
    raise bad_request(message)


async def _proxy(
    request: web.BaseRequest, context: RequestContext, kubelet: KubeletClient
) -> web.StreamResponse:
    """Forward a request to a port of a pod, to a pod of a service, or to the kubelet of a node."""
    path = proxied_path(request.raw_path)
    if context.kind.resource == "nodes":
        node = context.name.partition(":")[0]
        _get(context, "nodes", "", node)
        _require_kubelet(context, node, f"node {node} has no kubelet")
        return await kubelet.forward(
            request, _forwarded_head(request, context, path, "kubelet"), context.body
        )
    scheme, name, port = _split_name(context.name)
    if scheme == "https":
        raise bad_request("the proxy reaches ports with HTTP only")
    if context.kind.resource == "services":
        name, number = _endpoint(context, name, port)
    else:
        number = _pod_port(_get(context, "pods", context.namespace, name), port)
    pod = _get(context, "pods", context.namespace, name)
    _require_process(context, pod, "port")
    head = _forwarded_head(request, context, path, f"{pod.get('status', {}).get('podIP', name)}:{number}")
    return await kubelet.tunnel(request, f"{context.namespace}/{name}/{number}", head, context.body)


def proxied_path(raw_path: str) -> str:
    """Return the path and query after the subresource proxy, also if a name before it is proxy."""
    path, separator, query = raw_path.partition("?")
    segments = path.split("/")
    # After /api/v1/namespaces/N/pods/P/proxy or /api/v1/nodes/N/proxy.
    start = 8 if segments[3:4] == ["namespaces"] else 6
    return "/" + "/".join(segments[start:]) + separator + query


def _split_name(text: str) -> tuple[str, str, str]:
    """Return scheme, name and port of NAME, NAME:PORT or SCHEME:NAME:PORT."""
    match text.split(":"):
        case [name]:
            return "", name, ""
        case [name, port]:
            return "", name, port
        case [scheme, name, port]:
            return scheme, name, port
        case _:
            raise bad_request(f'invalid service request "{text}"')


def _pod_port(pod: Json, port: str) -> int:
    """Return the port of a request; without one, the first port that the pod declares."""
    if port.isdecimal():
        return int(port)
    declared = [one for container in pod["spec"]["containers"] for one in container.get("ports", ())]
    for one in declared:
        if port in ("", one.get("name", "")):
            return int(one["containerPort"])
    if port:
        raise bad_request(f"pod {pod['metadata']['name']} has no port {port}")
    return 80


def _endpoint(context: RequestContext, name: str, port: str) -> tuple[str, int]:
    """Return a ready pod of a service, and its port.  Raises StatusError: 404, 503."""
    service = _get(context, "services", context.namespace, name)
    ports = service["spec"].get("ports", [])
    if port or len(ports) == 1:
        ports = [one for one in ports if port in ("", one.get("name", ""), str(one["port"]))]
    if len(ports) != 1:
        message = f'no service port "{port}" found for service "{name}"'
        raise StatusError(503, "ServiceUnavailable", message)
    for entry in context.server.store.entries("endpointslices.discovery.k8s.io", context.namespace):
        if entry.labels.get(SERVICE_NAME_LABEL) != name:
            continue
        content = entry.decode()
        numbers = [
            one["port"]
            for one in content.get("ports") or ()
            if one.get("name", "") == ports[0].get("name", "")
        ]
        for endpoint in content.get("endpoints") or ():
            target = endpoint.get("targetRef", {})
            if numbers and target.get("kind") == "Pod" and endpoint.get("conditions", {}).get("ready", True):
                return target["name"], int(numbers[0])
    raise StatusError(503, "ServiceUnavailable", f'no endpoints available for service "{name}"')


def _forwarded_head(request: web.BaseRequest, context: RequestContext, path: str, host: str) -> bytes:
    """Return the head of the forwarded request: without credentials, and for one response only."""
    upgrade = request.headers.get(hdrs.UPGRADE, "")
    headers = [("Host", host), *forwarded_headers(request)]
    headers += [("Connection", "Upgrade"), ("Upgrade", upgrade)] if upgrade else [("Connection", "close")]
    if request.body_exists:
        headers.append(("Content-Length", str(len(context.body))))
    return request_head(request.method, path, headers)


STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


async def simulated_log(
    request: web.BaseRequest, context: RequestContext, pod: Json, container: str
) -> web.StreamResponse:
    """Send the line; with ``follow`` the response ends when the container does.

    Raises StatusError(400) with the messages of a kubelet for a container that has not started.
    """
    now = at_epoch(context.server.clock.now())
    try:
        options = read_options(context.query, now)
    except InvalidLogOption as error:
        raise bad_request(str(error)) from error
    text = (
        f"container {container} of pod {context.name} ran no program and has no output: "
        f"node {pod['spec']['nodeName']} is simulated "
        "(quorate local up --runtime process runs pods as processes)"
    )
    line = one_line(_started_at(pod, container, options) or now, text, options)

    async def chunks() -> AsyncIterator[bytes]:
        if line:
            yield line
        if options.follow and not options.previous:
            await _end(context, pod["metadata"]["uid"], container)

    return await _send_log(request, chunks())


def _started_at(pod: Json, container: str, options: LogOptions) -> datetime | None:
    """Return when the container, or its previous attempt, started; None if its status does not say when.

    Raises StatusError(400) if it has not started.
    """
    name = pod["metadata"]["name"]
    status = _status(pod, container)
    attempt = status.get("lastState" if options.previous else "state", {})
    started = attempt.get("terminated") or attempt.get("running")
    if options.previous and not started:
        raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    # A container that waits for its next start has the log of its last attempt.
    started = started or status.get("lastState", {}).get("terminated")
    if not started:
        reason = attempt.get("waiting", {}).get("reason") or "ContainerCreating"
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    return datetime.fromisoformat(started["startedAt"]) if "startedAt" in started else None


def _status(pod: Json, container: str) -> Json:
    statuses = pod.get("status", {})
    matching = (one for field in STATUSES for one in statuses.get(field) or () if one["name"] == container)
    return next(matching, {})


async def _end(context: RequestContext, uid: str, container: str) -> None:
    """Wait until the container has ended, or its pod has been deleted."""
    store = context.server.store
    seen = 0
    while True:
        changed = store.changed(context.key.resource)
        entry = store.get(context.key)
        if entry is None:
            return
        if entry.revision != seen:
            seen, pod = entry.revision, entry.decode()
            if pod["metadata"]["uid"] != uid or "running" not in _status(pod, container).get("state", {}):
                return
        await changed.wait()
