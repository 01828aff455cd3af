"""Resolve jobs written ``job/train`` or ``mpijob.kubeflow.org/train``, and the owners of objects."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from quorate.api.kueue import Workload
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from quorate.api.names.kueue import JOB_UID
from quorate.api.suggestions import suggestion
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.kube.client import Client
from quorate.kube.discovery import plural_of
from quorate.kube.errors import ApiError, Forbidden, NotFound, StatusDetails
from quorate.kube.named_kinds import find_kind
from quorate.kube.resources import JOBS, VOLCANO_JOBS, WORKLOADS, Json, Resource, metadata_of, untyped

# Kinds that quorate submit makes, as JSON.
_SUBMITTED: Final[tuple[Resource[Json], ...]] = tuple(
    untyped(kind.group, kind.version, kind.plural, kind.kind, True) for kind in (JOBS, VOLCANO_JOBS)
)
_WORKLOAD_TYPES: Final = ("workload", "workloads", "kwl", "kueueworkload", "kueueworkloads", "wl")


def is_workload_type(written: str) -> bool:
    return written.partition(".")[0].lower() in _WORKLOAD_TYPES


async def named_workloads(connection: Connection, written: str) -> tuple[Workload, ...]:
    """Return the workload of that name, else the workloads of the job ``NAME`` or ``TYPE[.GROUP]/NAME``.

    Raises ``UsageError`` or ``NotFound`` if there is none.
    """
    type_, slash, name = written.rpartition("/")
    if slash and not is_workload_type(type_):
        uid = await _uid_of(connection, written)
    else:
        named = await workload_or_job(connection, name, only_workload=bool(slash))
        if isinstance(named, Workload):
            return (named,)
        uid, written = named.metadata.uid, f"{named.resource.kind.lower()}/{name}"
    workloads = tuple(await workloads_of_job(connection.client, connection.namespace, uid))
    if not workloads:
        raise UsageError(
            f"{written} in {connection.scope} has no workload (quorate explain {written} says why)"
        )
    return workloads


async def workloads_of_job(client: Client, namespace: str, uid: Uid) -> list[Workload]:
    """Return the workloads of a job, by label or owner; none if the cluster does not serve workloads."""
    try:
        listed = await client.list(WORKLOADS, namespace)
    except NotFound:
        return []
    return [workload for workload in listed.items if _belongs(workload, uid)]


async def job_uids(connection: Connection, written: str) -> tuple[Uid, ...]:
    """Return the UID of the job ``NAME`` or ``TYPE[.GROUP]/NAME``, or of the owners of a workload."""
    type_, slash, name = written.rpartition("/")
    if slash and not is_workload_type(type_):
        return (await _uid_of(connection, written),)
    named = await workload_or_job(connection, name, only_workload=bool(slash))
    if isinstance(named, Workload):
        return tuple(owner.uid for owner in named.metadata.owner_references)
    return (named.metadata.uid,)


class NamedJob(NamedTuple):
    resource: Resource[Json]
    document: Json

    @property
    def metadata(self) -> ObjectMeta:
        return metadata_of(self.document)


async def named_job(connection: Connection, written: str) -> NamedJob:
    """Return the job ``TYPE[.GROUP]/NAME``, or the one of any kind with that name.

    Of several jobs with one name, a batch Job comes first, then a Volcano Job, then a job of any kind that
    has a workload.  The name of a workload stands for its owner.  Raises ``UsageError`` if there is none.
    """
    client, namespace = connection.client, connection.namespace
    if not namespace:
        raise UsageError("a job needs one namespace (write -n NAMESPACE instead of -A)")
    if "/" in written and not is_workload_type(written.partition("/")[0]):
        resource, name = await _kind_and_name(connection, written)
        return NamedJob(resource, await client.get(resource, Key(namespace, name)))
    name = written.rpartition("/")[2]
    if not name:
        raise UsageError(f"{written!r} is no job (write NAME or TYPE/NAME, such as job/train)")
    job = await _job_of_any_kind(client, Key(namespace, name))
    if job is None:
        await connection.require_namespace()
        raise UsageError(await _no_job(connection, name))
    return job


async def _no_job(connection: Connection, name: str) -> str:
    """Return a sentence about a name that no workload and no job has, with a similar one."""
    names: set[str] = set()
    with suppress(ApiError):
        for workload in (await connection.client.list(WORKLOADS, connection.namespace)).items:
            names |= {workload.metadata.name, *(owner.name for owner in workload.metadata.owner_references)}
    hint = suggestion(name, names - {name}) or " (quorate status lists the jobs)"
    return f"no workload or job {name!r} in {connection.scope}{hint}"


async def workload_or_job(
    connection: Connection, name: str, only_workload: bool = False
) -> Workload | NamedJob:
    """Return the workload of that name, else the job of any kind.

    Raises ``NotFound`` if there is none.
    """
    client, key = connection.client, Key(connection.namespace, name)
    try:
        return await client.get(WORKLOADS, key)
    except NotFound as missing:
        if only_workload:
            raise
        try:
            job = await _job_of_any_kind(client, key)
        except Forbidden:  # then the missing workload is the answer
            raise missing from None
        if job is None:
            details = StatusDetails(kind=WORKLOADS.plural)
            raise NotFound(
                missing.request, missing.status_code, missing.reason, await _no_job(connection, name), details
            ) from None
        return job


async def _job_of_any_kind(client: Client, key: Key) -> NamedJob | None:
    """Return the first job of that name as ``named_job`` does; None if there is none."""
    forbidden: Forbidden | None = None
    for submitted in _SUBMITTED:
        try:
            return NamedJob(submitted, await client.get(submitted, key))
        except NotFound:
            continue
        except Forbidden as error:  # also the answer if the cluster does not serve the kind
            forbidden = forbidden or error
    owners = OwnerResolver(client)
    for workload in (await client.list(WORKLOADS, key.namespace)).items:
        for owner in workload.metadata.owner_references:
            if key.name in (owner.name, workload.metadata.name):
                kind = await owners.resource_of(owner)
                if kind is not None:
                    with suppress(NotFound):  # it was deleted, and its workload is about to be
                        return NamedJob(kind, await client.get(kind, Key(key.namespace, owner.name)))
    if forbidden is not None:
        raise forbidden
    return None


async def job_filter(connection: Connection, written: str) -> Callable[[Workload], bool]:
    """Return a predicate: the workload belongs to the job ``TYPE[.GROUP]/NAME``, by label or owner."""
    uid = await _uid_of(connection, written)

    return lambda workload: _belongs(workload, uid)


def _belongs(workload: Workload, uid: Uid) -> bool:
    metadata = workload.metadata
    return uid == metadata.labels.get(JOB_UID) or any(owner.uid == uid for owner in metadata.owner_references)


async def _uid_of(connection: Connection, written: str) -> Uid:
    """Return the UID of the job ``TYPE[.GROUP]/NAME``."""
    resource, name = await _kind_and_name(connection, written)
    job = await connection.client.get(resource, Key(connection.namespace, name))
    return metadata_of(job).uid


async def _kind_and_name(connection: Connection, written: str) -> tuple[Resource[Json], str]:
    """Return the kind and the name in ``TYPE[.GROUP]/NAME``."""
    type_, slash, name = written.rpartition("/")
    if not slash or not type_ or not name:
        raise UsageError(f"{written!r} is no job (write TYPE/NAME or TYPE.GROUP/NAME, such as job/train)")
    if not connection.namespace:
        raise UsageError("a job needs one namespace (write -n NAMESPACE instead of -A)")
    return await resource_of(connection.client, type_), name


async def resource_of(client: Client, written: str) -> Resource[Json]:
    """Return the namespaced kind with that name, singular, plural or short; the core group comes first."""
    kind = await find_kind(client, written, only_namespaced=True)
    if kind is None:
        raise UsageError(
            f"{client.config.server} serves no namespaced kind {written!r} (kubectl api-resources lists them)"
        )
    return kind


class _MetadataOnly(Struct):
    metadata: ObjectMeta


class OwnerResolver:
    """Resolves owner references; reads each kind and each object once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds: dict[tuple[str, str], Resource[Json] | None] = {}
        self._objects: dict[Uid, ObjectMeta | None] = {}  # None: it does not exist

    def add(self, objects: Iterable[ObjectMeta]) -> None:
        """Add objects that were read already: a pod may own other pods."""
        self._objects.update((metadata.uid, metadata) for metadata in objects)

    async def resource_of(self, owner: OwnerReference) -> Resource[Json] | None:
        """Return the resource of an owner; None if the cluster does not serve it."""
        kind = owner.api_version, owner.kind
        if kind not in self._kinds:
            plural = await plural_of(self._client, *kind)
            group, _, version = owner.api_version.rpartition("/")
            self._kinds[kind] = untyped(group, version, plural, owner.kind, True) if plural else None
        return self._kinds[kind]

    async def descendants(self, pods: Sequence[ObjectMeta], wanted: frozenset[Uid]) -> set[Uid]:
        """Return the UIDs of the pods that the objects ``wanted`` own, through all levels of owners."""
        self.add(pods)
        return {pod.uid for pod in pods if await self.ancestor_in(pod, wanted) is not None}

    async def ancestor_in(self, metadata: ObjectMeta, wanted: frozenset[Uid]) -> Uid | None:
        """Return the first of the object and its controllers that is in ``wanted``; None if none is."""
        visited: set[Uid] = set()
        current: ObjectMeta | None = metadata
        while current is not None and current.uid not in visited:
            if current.uid in wanted:
                return current.uid
            visited.add(current.uid)
            owner = current.controller
            if owner is not None and owner.uid in wanted:
                return owner.uid  # without reading it, also if it was deleted
            current = await self._metadata_of(owner, metadata.namespace) if owner is not None else None
        return None

    async def _metadata_of(self, owner: OwnerReference, namespace: str) -> ObjectMeta | None:
        if owner.uid not in self._objects:
            self._objects[owner.uid] = await self._fetch(owner, namespace)
        return self._objects[owner.uid]

    async def _fetch(self, owner: OwnerReference, namespace: str) -> ObjectMeta | None:
        kind = await self.resource_of(owner)
        if kind is None:
            return None
        metadata_only = Resource(kind.group, kind.version, kind.plural, kind.kind, True, _MetadataOnly)
        try:
            metadata = (await self._client.get(metadata_only, Key(namespace, owner.name))).metadata
        except NotFound:
            return None
        return metadata if metadata.uid == owner.uid else None  # another object has its name
