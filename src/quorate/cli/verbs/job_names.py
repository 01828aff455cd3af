"""From a job, as a user knows it, to its workloads: ``job/train``, ``mpijob.kubeflow.org/train``."""

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from quorate.api import codec
from quorate.api.kueue import JOB_UID, Workload
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from quorate.cli.errors import UsageError
from quorate.cli.verbs import completion
from quorate.cli.verbs.options import Connection
from quorate.kube.client import Client
from quorate.kube.errors import NotFound
from quorate.kube.resources import WORKLOADS, Json, Resource, metadata_of, untyped
from quorate.kube.rest.discovery import plural_of

_ARGUMENT: Any = typer.Argument(
    metavar="NAME|TYPE/NAME...",
    help="Workloads by name, or by their job: job/train, rayjob.ray.io/train.",
    autocompletion=completion.workloads,
)
Workloads = Annotated[list[str], _ARGUMENT]
SomeWorkloads = Annotated[list[str] | None, _ARGUMENT]
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_OURS: Final = ("workload", "workloads", "kwl", "kueueworkload", "kueueworkloads", "wl")


class _Kind(Struct):
    kind: str = ""


class _Served(Struct):
    resource: str
    response_kind: _Kind = _Kind()
    scope: str = "Namespaced"
    singular_resource: str = ""
    short_names: tuple[str, ...] = ()


class _Version(Struct):
    version: str
    resources: tuple[_Served, ...] = ()


class _Group(Struct):
    metadata: ObjectMeta = ObjectMeta()
    versions: tuple[_Version, ...] = ()


class _Groups(Struct):
    items: tuple[_Group, ...] = ()


async def named_workloads(connection: Connection, written: str) -> tuple[Workload, ...]:
    """Return the workload of that name, or those of the job ``TYPE[.GROUP]/NAME``.

    Raises ``UsageError`` if there is none.
    """
    type_, slash, name = written.rpartition("/")
    if not slash or type_.partition(".")[0].lower() in _OURS:
        return (await connection.client.get(WORKLOADS, Key(connection.namespace, name)),)
    belongs = await job_filter(connection, written)
    listed = await connection.client.list(WORKLOADS, connection.namespace)
    found = tuple(each for each in listed.items if belongs(each))
    if not found:
        raise UsageError(
            f"{written} in {connection.place} has no workload (does it name a queue in its label "
            "kueue.x-k8s.io/queue-name, and do the controllers run?)"
        )
    return found


async def job_uids(connection: Connection, written: str) -> tuple[Uid, ...]:
    """Of the job ``TYPE[.GROUP]/NAME``, or of the jobs that own the workload of that name."""
    type_, slash, _ = written.rpartition("/")
    if not slash or type_.partition(".")[0].lower() in _OURS:
        (workload,) = await named_workloads(connection, written)
        return tuple(owner.uid for owner in workload.metadata.owner_references)
    return (await _uid_of(connection, written),)


async def job_filter(connection: Connection, written: str) -> Callable[[Workload], bool]:
    """Whether a workload is of the job ``TYPE[.GROUP]/NAME``: by its label, or else by its owners."""
    uid = await _uid_of(connection, written)

    def belongs(workload: Workload) -> bool:
        metadata = workload.metadata
        labelled = metadata.labels.get(JOB_UID)
        return uid == labelled or any(owner.uid == uid for owner in metadata.owner_references)

    return belongs


async def _uid_of(connection: Connection, written: str) -> Uid:
    """Of the job ``TYPE[.GROUP]/NAME``."""
    type_, slash, name = written.rpartition("/")
    if not slash or not type_ or not name:
        raise UsageError(f"{written!r} names no job (write TYPE/NAME or TYPE.GROUP/NAME, such as job/train)")
    if not connection.namespace:
        raise UsageError("a job is looked for in one namespace (write -n NAMESPACE instead of -A)")
    resource = await _kind(connection.client, type_)
    job = await connection.client.get(resource, Key(connection.namespace, name))
    return metadata_of(job).uid


async def _kind(client: Client, written: str) -> Resource[Json]:
    """The namespaced kind with that name, singular, plural or short; the core's before those of groups."""
    name, _, group = written.lower().partition(".")
    if not group and name in ("job", "jobs"):  # most are, and need not be asked for
        return untyped("batch", "v1", "jobs", "Job", True)
    for root in ("/api", "/apis"):
        answer = await client.request("GET", root, headers={"Accept": _AGGREGATED})
        for found in codec.decode(_Groups, answer).items:
            if group in ("", found.metadata.name):
                for version in found.versions[:1]:  # the one the server prefers
                    for served in version.resources:
                        if name in _names(served) and served.scope == "Namespaced":
                            kind = served.response_kind.kind
                            return untyped(found.metadata.name, version.version, served.resource, kind, True)
    raise UsageError(
        f"{client.config.server} serves no namespaced kind {written!r} (kubectl api-resources lists them)"
    )


def _names(served: _Served) -> tuple[str, ...]:
    kind = served.response_kind.kind.lower()
    return served.resource, served.singular_resource, kind, *served.short_names


class _Anything(Struct):
    metadata: ObjectMeta


class OwnerResolver:
    """Asks for each kind and each object once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds: dict[tuple[str, str], Resource[Json] | None] = {}
        self._known: dict[Uid, ObjectMeta | None] = {}  # None: it is gone

    def know(self, metadata: ObjectMeta) -> None:
        """This one need not be asked for."""
        self._known[metadata.uid] = metadata

    async def kind_of(self, owner: OwnerReference) -> Resource[Json] | None:
        """``None`` when the cluster does not serve it."""
        kind = owner.api_version, owner.kind
        if kind not in self._kinds:
            plural = await plural_of(self._client, *kind)
            group, _, version = owner.api_version.rpartition("/")
            self._kinds[kind] = untyped(group, version, plural, owner.kind, True) if plural else None
        return self._kinds[kind]

    async def leads_to(self, metadata: ObjectMeta, wanted: frozenset[Uid]) -> bool:
        """Whether the object is one of those ``wanted``, or was made by one, or by what one made."""
        passed: set[Uid] = set()
        current: ObjectMeta | None = metadata
        while current is not None and current.uid not in passed:
            if current.uid in wanted:
                return True
            passed.add(current.uid)
            owner = current.controller
            current = await self._of(owner, metadata.namespace) if owner is not None else None
        return False

    async def _of(self, owner: OwnerReference, namespace: str) -> ObjectMeta | None:
        if owner.uid not in self._known:
            self._known[owner.uid] = await self._asked(owner, namespace)
        return self._known[owner.uid]

    async def _asked(self, owner: OwnerReference, namespace: str) -> ObjectMeta | None:
        kind = await self.kind_of(owner)
        if kind is None:
            return None
        anything = Resource(kind.group, kind.version, kind.plural, kind.kind, True, _Anything)
        try:
            found = (await self._client.get(anything, Key(namespace, owner.name))).metadata
        except NotFound:
            return None
        return found if found.uid == owner.uid else None  # another took its name
