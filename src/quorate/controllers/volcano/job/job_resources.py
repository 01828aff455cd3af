"""The objects a job needs before its first pod: services, host lists, keys, claims.

The objects of plugins are deleted when the job ends or restarts, as Volcano (v1.15) does in ``OnJobDelete``:
a finished job may be kept for a long time, and nothing uses its private key any more.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from msgspec import json

from quorate.api import codec
from quorate.api.meta import Key, OwnerReference, Uid
from quorate.api.volcano.job import Job
from quorate.controllers.limits import OWNED_OBJECTS_CHECK_S
from quorate.controllers.volcano.job.job_pod_group import owner_reference_to
from quorate.controllers.volcano.job.job_status import claim_name, has_claim_template, job_size
from quorate.controllers.volcano.job.plugins import Plugin
from quorate.controllers.volcano.job.plugins.env_ssh_svc import (
    AUTHORIZED_KEYS,
    PRIVATE_KEY,
    PUBLIC_KEY,
    generate_ssh_keys,
)
from quorate.controllers.volcano.job.plugins.interface import OwnedObject
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.computations import Computations
from quorate.kube.errors import AlreadyExists, Conflict, NotFound
from quorate.kube.resources import Json, metadata_of, untyped

_WriteObject = Callable[[Job, OwnedObject], Awaitable[None]]
_Digested = tuple[OwnedObject, str]  # an object and the digest of its body

CLAIMS: Final = untyped("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)


class AlreadyOwned(Exception):
    """An object that the job needs exists and has another controller, or none."""

    def __init__(self, kind: str, key: Key, owner: OwnerReference | None) -> None:
        super().__init__(kind, key, owner)
        self.kind, self.key, self.owner = kind, key, owner

    def __str__(self) -> str:
        owner = "no job" if self.owner is None else f"{self.owner.kind} {self.owner.name}"
        return f"{self.kind} {self.key} belongs to {owner} (delete it, or rename the job)"


class JobResources:
    """Creates missing objects of a job and updates the objects that track it, once for each state.

    ``ensure`` and ``update`` raise ``AlreadyOwned`` or ``RequestFailed``.
    """

    def __init__(self, client: Client, steady: Clock, computations: Computations) -> None:
        self._client = client
        self._steady = steady
        self._computations = computations
        self._checked: dict[Uid, float] = {}  # by job: the steady time since which it knows what is written
        self._written: dict[Uid, dict[tuple[str, str], str]] = {}  # digests of bodies, by kind and name
        self._updated: dict[Uid, int] = {}  # by job: the generation of the last update

    async def ensure(self, job: Job, plugins: Iterable[Plugin]) -> None:
        """Create everything that the next pod needs, also what was deleted in the meantime."""
        needed = await self._computations.run(job_size(job), _needed_objects, job, plugins)
        uid, now = job.metadata.uid, self._steady.now()
        checked = self._checked.setdefault(uid, now)
        if now - checked <= OWNED_OBJECTS_CHECK_S:
            await self._write_all(job, needed, self._create_or_adopt)
            return
        for owned, _ in needed:
            if not owned.is_unique:  # new keys take long to make, and no pod would agree on them
                self._written.get(uid, {}).pop((owned.resource.kind, owned.name), None)
        await self._write_all(job, needed, self._adopt_or_create)
        self._checked[uid] = now

    async def missing_claim(self, job: Job) -> str:
        """Return the first claim that the job names and that does not exist; empty if all claims exist."""
        for name in _named_claims(job):
            if await self._client.find(CLAIMS, Key(job.metadata.namespace, name)) is None:
                return name
        return ""

    def is_up_to_date(self, job: Job) -> bool:
        """Return True if the objects that track the job were updated for its current generation."""
        return self._updated.get(job.metadata.uid) == job.metadata.generation

    async def update(self, job: Job, plugins: Iterable[Plugin]) -> None:
        """Update the objects that track the job although no pod is created: the job may have shrunk."""
        tracking = await self._computations.run(job_size(job), _tracking_objects, plugins)
        await self._write_all(job, tracking, self._adopt_or_create)
        self._updated[job.metadata.uid] = job.metadata.generation

    async def _write_all(self, job: Job, objects: Iterable[_Digested], write: _WriteObject) -> None:
        written = self._written.setdefault(job.metadata.uid, {})
        for owned, digest in objects:
            identity = (owned.resource.kind, owned.name)
            if written.get(identity) != digest:
                await write(job, owned)
                written[identity] = digest

    async def _adopt_or_create(self, job: Job, owned: OwnedObject) -> None:
        """Read the object first: it nearly always exists.  The controller may not read Secrets."""
        if not owned.is_unique:
            try:
                await self._adopt(job, owned)
            except NotFound:
                pass
            else:
                return
        await self._create_or_adopt(job, owned)

    async def _create_or_adopt(self, job: Job, owned: OwnedObject) -> None:
        key = Key(job.metadata.namespace, owned.name)
        body = dict(owned.body)
        if owned.generates_keys:
            private, public = await asyncio.to_thread(generate_ssh_keys, job.metadata.name)
            keys = {PRIVATE_KEY: private, PUBLIC_KEY: public, AUTHORIZED_KEYS: public}
            body["stringData"] = {**body["stringData"], **keys}
        metadata = {"name": owned.name, "ownerReferences": [codec.to_builtins(owner_reference_to(job))]}
        try:
            await self._client.create(owned.resource, {"metadata": metadata, **body}, key.namespace)
        except AlreadyExists:
            if not owned.is_unique:
                await self._adopt(job, owned)

    async def _adopt(self, job: Job, owned: OwnedObject) -> None:
        """Use the stored object, unless another job owns it, maybe a terminating namesake."""
        key = Key(job.metadata.namespace, owned.name)
        stored = await self._client.get(owned.resource, key)
        owner = metadata_of(stored).controller
        # Without an owner only what the job would overwrite is refused: it may be made for the job.
        if owned.tracks_job if owner is None else owner.uid != job.metadata.uid:
            raise AlreadyOwned(owned.resource.kind, key, owner)
        if owned.tracks_job and any(stored.get(field) != wanted for field, wanted in owned.body.items()):
            await self._client.patch(owned.resource, key, owned.body)

    async def release(self, job: Job, plugins: Iterable[Plugin]) -> None:
        """Delete the objects of ``plugins``, except objects of another owner with the same names."""
        self.forget(job.metadata.uid)
        for owned in await self._computations.run(job_size(job), _owned_objects, plugins):
            with suppress(NotFound, Conflict):  # deleted, maybe replaced, in the meantime
                await self._delete(job, owned)

    async def _delete(self, job: Job, owned: OwnedObject) -> None:
        key = Key(job.metadata.namespace, owned.name)
        if owned.is_unique:
            await self._client.delete(owned.resource, key)
            return
        stored = await self._client.get(owned.resource, key)
        metadata = metadata_of(stored)
        if metadata.controller is not None and metadata.controller.uid == job.metadata.uid:
            await self._client.delete(owned.resource, key, uid=metadata.uid)

    def forget(self, job: Uid) -> None:
        self._written.pop(job, None)
        self._checked.pop(job, None)
        self._updated.pop(job, None)


def _needed_objects(job: Job, plugins: Iterable[Plugin]) -> list[_Digested]:
    return _digested((*_claims(job), *_owned_objects(plugins)))


def _tracking_objects(plugins: Iterable[Plugin]) -> list[_Digested]:
    return _digested(owned_object for owned_object in _owned_objects(plugins) if owned_object.tracks_job)


def _digested(objects: Iterable[OwnedObject]) -> list[_Digested]:
    return [(owned, hashlib.sha256(codec.encode(owned.body)).hexdigest()) for owned in objects]


def _owned_objects(plugins: Iterable[Plugin]) -> list[OwnedObject]:
    return [owned for plugin in plugins for owned in plugin.owned_objects()]


def _named_claims(job: Job) -> list[str]:
    """Return the claims that exist independently of the job."""
    return [
        volume.volume_claim_name
        for volume in job.spec.volumes
        if volume.volume_claim_name and not has_claim_template(volume)
    ]


def _claims(job: Job) -> Iterator[OwnedObject]:
    for index, volume in enumerate(job.spec.volumes):
        if has_claim_template(volume):
            spec: Json = json.decode(volume.volume_claim)
            body: dict[str, Any] = {"spec": spec}
            yield OwnedObject(CLAIMS, claim_name(job, index), body)
