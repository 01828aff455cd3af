"""The output of all containers of a job, while it runs or afterwards."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.api.batch import JOB_COMPLETION_INDEX
from quorate.api.core.started_pod import StartedPod
from quorate.api.meta import Key, Uid
from quorate.inspect.connection import Connection
from quorate.inspect.job_names import OwnerResolver
from quorate.inspect.listed_groups import STARTED_PODS
from quorate.kube.errors import PASSING, ApiError, NotFound
from quorate.kube.resources import PODS

POLL_S: Final = 0.5  # between two looks at the pods of a job that is followed
_MOST_FAILURES: Final = 600  # to read one log, one after the other: five minutes
_LOOKS_AFTER_END: Final = 20  # for the rest of a broken stream
_INDEXES: Final = (JOB_COMPLETION_INDEX, "volcano.sh/task-index")


class Line(NamedTuple):
    source: str  # the index or name of the pod, if the job has several, and the container likewise
    pod: str
    container: str
    text: str


class _Log(NamedTuple):
    """One run of a container; a restarted container, or another pod with the name, has another log."""

    key: Key
    uid: Uid
    container: str
    restarts: int


async def _job_pods(connection: Connection, owners: OwnerResolver, uids: frozenset[Uid]) -> list[StartedPod]:
    """Return the pods of the objects ``uids``, through all levels of owner references, by name."""
    pods = (await connection.client.list(STARTED_PODS, connection.namespace)).items
    own = await owners.descendants([pod.metadata for pod in pods], uids)
    return sorted((pod for pod in pods if pod.metadata.uid in own), key=lambda pod: pod.metadata.name)


async def show_logs(
    connection: Connection, uids: frozenset[Uid], show: Callable[[Line], object], tail: int | None = None
) -> int:
    """Show what the containers have written, pod by pod, and return how many have started.

    ``tail``: only so many of the last lines of each; None: all.
    """
    query = {} if tail is None else {"tailLines": str(tail)}
    logs = _logs(await _job_pods(connection, OwnerResolver(connection.client), uids))
    for log, source in logs.items():
        try:
            await _show(connection, log, source, query, show)
        except ApiError as error:
            show(Line(source, log.key.name, log.container, f"(no log: {error})"))
    return len(logs)


@dataclass(slots=True)
class _Reading:
    """How far a log that is followed was shown."""

    stamp: str = ""  # of the last line
    is_complete: bool = False
    failures: int = 0  # attempts since the last line
    task: asyncio.Task[None] | None = None

    def has_more(self, *, runs: bool) -> bool:
        """Return True if the log is to be read again: its stream broke, or its container still runs."""
        return (self.task is None or self.task.done()) and (runs or not self.is_complete)


async def follow_logs(
    connection: Connection,
    uids: frozenset[Uid],
    has_ended: Callable[[], Awaitable[bool]],
    show: Callable[[Line], object],
) -> None:
    """Show what the containers write, as it comes, until the job has ended and all of it was shown.

    After a restart of the API server each log goes on behind the last line that was shown.
    """
    owners = OwnerResolver(connection.client)  # which reads the owners of other pods only once
    readings: defaultdict[_Log, _Reading] = defaultdict(_Reading)
    left = _LOOKS_AFTER_END
    async with asyncio.TaskGroup() as tasks:
        while True:
            ended = await has_ended()  # before the pods are read, so that none starts unseen
            try:
                pods = await _job_pods(connection, owners, uids)
            except PASSING:
                await asyncio.sleep(POLL_S)
                continue
            running = _running(pods)
            for log, source in _logs(pods).items():
                reading, runs = readings[log], log in running and not ended
                if reading.has_more(runs=runs):
                    coroutine = _follow(connection, log, source, reading, show, runs=runs)
                    reading.task = tasks.create_task(coroutine, name=f"log of {log.key}")
            if ended:
                if opened := [reading.task for reading in readings.values() if reading.task is not None]:
                    await asyncio.wait(opened)
                left -= 1
                if not left or all(reading.is_complete for reading in readings.values()):
                    return
            await asyncio.sleep(POLL_S)


async def _follow(
    connection: Connection,
    log: _Log,
    source: str,
    reading: _Reading,
    show: Callable[[Line], object],
    *,
    runs: bool,
) -> None:
    """Show the lines behind the last one that was shown, until the log or its stream ends.

    While the container ``runs``, a line without end is not shown: the stream may have broken in it.
    """
    query = {"follow": "true", "timestamps": "true"}
    if last := reading.stamp:
        query["sinceTime"] = last  # of which the API server regards the second only

    def show_new(line: Line) -> None:
        stamp, _, text = line.text.partition(" ")
        if stamp > last:
            reading.stamp, reading.failures = stamp, 0
            show(line._replace(text=text))

    reading.is_complete = False
    try:
        reading.is_complete = await _show(connection, log, source, query, show_new, with_rest=not runs)
        return
    except PASSING as error:
        reading.failures += 1
        if reading.failures < _MOST_FAILURES:
            return
        show(Line(source, log.key.name, log.container, f"(no log: {error})"))
    except ApiError as error:
        show(Line(source, log.key.name, log.container, f"(no log: {error})"))
    reading.is_complete = True


def _running(pods: Sequence[StartedPod]) -> frozenset[_Log]:
    return frozenset(
        _Log(pod.metadata.key, pod.metadata.uid, status.name, status.restart_count)
        for pod in pods
        for status in pod.status.container_statuses
        if status.state.running is not None
    )


def _logs(pods: Sequence[StartedPod]) -> dict[_Log, str]:
    """Return the logs with the source of their lines, which depends on how many pods there are so far."""
    return {
        _Log(pod.metadata.key, pod.metadata.uid, status.name, status.restart_count): _source(
            pod, status.name, len(pods)
        )
        for pod in pods
        for status in pod.status.container_statuses
        if status.state.waiting is None
    }


def _source(pod: StartedPod, container: str, pods: int) -> str:
    """Return what tells the container from others of the job; empty for the only one."""
    index = next((pod.metadata.annotations[key] for key in _INDEXES if key in pod.metadata.annotations), "")
    name = index or ("" if pods == 1 else pod.metadata.name)
    return name if len(pod.status.container_statuses) == 1 else f"{name} {container}".lstrip()


async def _show(
    connection: Connection,
    log: _Log,
    source: str,
    query: dict[str, str],
    show: Callable[[Line], object],
    *,
    with_rest: bool = True,
) -> bool:
    """Show the lines of a log, ``with_rest`` also a last one without end; return True if all were shown."""
    path, rest = PODS.path(log.key.namespace, log.key.name, "log"), b""
    query = {"container": log.container, **query}

    def line_of(text: str) -> Line:
        return Line(source, log.key.name, log.container, text)

    try:
        async for chunk in connection.client.chunks("GET", path, query, silence_s=None):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                show(line_of(line.decode(errors="replace")))
        if rest and with_rest:
            show(line_of(rest.decode(errors="replace")))
    except NotFound:
        return True  # the pod was deleted meanwhile
    return with_rest or not rest
