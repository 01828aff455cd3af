"""Create the objects of a job that a user submits, in the queue that the request names."""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from quorate.api.suggestions import suggestion
from quorate.api.volcano import DEFAULT_QUEUE
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.job_names import NamedJob
from quorate.kube.client import Client
from quorate.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from quorate.kube.resources import (
    JOBS,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    QUEUES,
    SERVICES,
    VOLCANO_JOBS,
    WORKLOAD_PRIORITY_CLASSES,
    Json,
    Resource,
    metadata_of,
    untyped,
)
from quorate.submission.objects import owned_by
from quorate.submission.request import MAX_JOB_NAME, JobRequest

_SUFFIX_BYTES: Final = 2  # of a name that is made up
_MAKE_ONE: Final = "an administrator makes one: quorate queue create lq/NAME -c CLUSTERQUEUE"
RESOURCES: Final[Mapping[tuple[str, str], Resource[Json]]] = {
    (kind.api_version, kind.kind): untyped(kind.group, kind.version, kind.plural, kind.kind, True)
    for kind in (JOBS, VOLCANO_JOBS, SERVICES)
}


def new_name(written: str) -> str:
    """Return a name that begins as ``written``, the name of a program or of a script."""
    name = written.rpartition("/")[2].lower()
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    suffix = secrets.token_hex(_SUFFIX_BYTES)
    stem = letters.lstrip("-0123456789")[: MAX_JOB_NAME - len(suffix) - 1].strip("-")
    return f"{stem or 'job'}-{suffix}"


async def in_queue(connection: Connection, wanted: JobRequest) -> JobRequest:
    """Return the request with its queue.  Raises ``UsageError`` for a queue or class that does not exist.

    A gang waits in a local queue, or else in a queue of pod groups.
    """
    queued = await _with_queue(connection, wanted)
    if wanted.priority_class:
        await _check_priority_class(connection.client, queued)
    return queued


async def _check_priority_class(client: Client, wanted: JobRequest) -> None:
    resource: Resource[Any] = PRIORITY_CLASSES if wanted.volcano_queue else WORKLOAD_PRIORITY_CLASSES
    try:
        names = [metadata_of(item).name for item in (await client.list(resource)).items]
    except (NotFound, Forbidden):
        return  # the job then has an event about it
    name = wanted.priority_class
    if name not in names:
        hint = suggestion(name, names) or f" (there are: {', '.join(names) or 'none'})"
        raise UsageError(f"--priority {name}: no {resource.kind} of that name{hint}")


async def _with_queue(connection: Connection, wanted: JobRequest) -> JobRequest:
    written = wanted.local_queue
    # To users without permission, kinds that the cluster does not serve are forbidden too.
    missing = (NotFound, Forbidden) if wanted.gang else (NotFound,)
    local = await _names(connection, LOCAL_QUEUES, connection.namespace, missing)
    if written in local:
        return wanted
    try:
        groups = await _names(connection, QUEUES, "", (NotFound,)) if wanted.gang else []
    except Forbidden:
        groups = [written] if written else []  # the scheduler says if there is none of that name
    if written in groups:
        return replace(wanted, local_queue="", volcano_queue=written)
    if not written and len(local) == 1:
        return replace(wanted, local_queue=local[0])
    if not written and wanted.gang:
        return replace(wanted, volcano_queue=DEFAULT_QUEUE)
    queues = sorted({*local, *groups})
    where = f"in {connection.scope}" if not groups else f"in {connection.scope}, and no queue of pod groups"
    if not queues:
        await connection.require_namespace()
    if not written:
        names = f"choose one with -q: {', '.join(queues)}" if queues else _MAKE_ONE
        raise UsageError(f"{len(local) or 'no'} local queues {where} ({names})")
    names = f"there are: {', '.join(queues)}" if queues else "there is none"
    hint = suggestion(written, queues) or f" ({names})"
    raise UsageError(f"-q {written}: no local queue of that name {where}{hint}")


async def _names(
    connection: Connection, resource: Resource[Any], namespace: str, missing: tuple[type[ApiError], ...]
) -> list[str]:
    """Return the names of the objects; none if the API server answers with an error in ``missing``."""
    try:
        return [item.metadata.name for item in (await connection.client.list(resource, namespace)).items]
    except missing:
        return []


async def create_job(connection: Connection, objects: Sequence[Json]) -> NamedJob:
    """Create the job, then what belongs to it and is deleted with it; all of it or nothing."""
    job, *others = objects
    resource = RESOURCES[job["apiVersion"], job["kind"]]
    try:
        created = NamedJob(resource, await connection.client.create(resource, job, connection.namespace))
    except AlreadyExists as error:
        name = job["metadata"]["name"]
        raise UsageError(f"{error.message} (write another --name, or quorate cancel {name} first)") from error
    metadata = created.metadata
    for document in others:
        kind = RESOURCES[document["apiVersion"], document["kind"]]
        try:
            await connection.client.create(kind, owned_by(document, resource, metadata), connection.namespace)
        except ApiError:
            with suppress(NotFound):
                await connection.client.delete(
                    resource, metadata.key, uid=metadata.uid, propagation="Background"
                )
            raise
    return created


async def check_objects(connection: Connection, objects: Sequence[Json]) -> None:
    """Have the API server check the objects without creating them.  Raises ``ApiError``."""
    for document in objects:
        kind = RESOURCES[document["apiVersion"], document["kind"]]
        await connection.client.create(kind, document, connection.namespace, dry_run=True)
