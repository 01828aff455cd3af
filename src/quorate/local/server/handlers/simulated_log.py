"""The log of a container of a simulated node: one line, which says that the container has no output."""

from contextlib import suppress
from datetime import datetime
from typing import Final

from aiohttp import hdrs, web

from quorate.api.codec import Json
from quorate.api.meta import at_epoch
from quorate.local.container_logs import InvalidLogOption, LogOptions, one_line, read_options
from quorate.local.server.errors import bad_request
from quorate.local.server.requests.context import RequestContext

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
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/plain"})
    response.enable_chunked_encoding()
    with suppress(ConnectionResetError):  # the client has disconnected
        await response.prepare(request)
        if line:
            await response.write(line)
        if options.follow and not options.previous:
            await _end(context, pod["metadata"]["uid"], container)
    return response


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
    found = (one for field in STATUSES for one in statuses.get(field) or () if one["name"] == container)
    return next(found, {})


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
