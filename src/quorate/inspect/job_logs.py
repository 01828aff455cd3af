"""The output of all containers of a job, while it runs or afterwards."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from quorate.api.batch import JOB_COMPLETION_INDEX
from quorate.api.core.started_pod import StartedPod
from quorate.api.meta import Key, Uid
from quorate.inspect.connection import Connection
from quorate.inspect.job_names import OwnerResolver
from quorate.inspect.listed_groups import STARTED_PODS
from quorate.kube.errors import ApiError, NotFound
from quorate.kube.resources import PODS

POLL_S: Final = 0.5  # between two looks at the pods of a job that is followed
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
        await _show(connection, log, source, query, show)
    return len(logs)


async def follow_logs(
    connection: Connection,
    uids: frozenset[Uid],
    has_ended: Callable[[], Awaitable[bool]],
    show: Callable[[Line], object],
) -> None:
    """Show what the containers write, as it comes, until the job has ended and all of it was shown."""
    owners = OwnerResolver(connection.client)  # which reads the owners of other pods only once
    followed: set[_Log] = set()
    async with asyncio.TaskGroup() as tasks:
        while True:
            ended = await has_ended()  # before the pods are read, so that none starts unseen
            for log, source in _logs(await _job_pods(connection, owners, uids)).items():
                if log not in followed:
                    followed.add(log)
                    tasks.create_task(
                        _show(connection, log, source, {"follow": "true"}, show), name=f"log of {log.key}"
                    )
            if ended:
                return
            await asyncio.sleep(POLL_S)


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
    connection: Connection, log: _Log, source: str, query: dict[str, str], show: Callable[[Line], object]
) -> None:
    path, rest = PODS.path(log.key.namespace, log.key.name, "log"), b""
    query = {"container": log.container, **query}

    def line_of(text: str) -> Line:
        return Line(source, log.key.name, log.container, text)

    try:
        async for chunk in connection.client.chunks("GET", path, query, silence_s=None):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                show(line_of(line.decode(errors="replace")))
        if rest:
            show(line_of(rest.decode(errors="replace")))
    except NotFound:
        pass  # the pod was deleted meanwhile
    except ApiError as error:
        show(line_of(f"(no log: {error})"))
