"""What a job needs besides pods: services, host lists, keys and claims, made before the first pod."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import json

from quorate.api import codec
from quorate.api.meta import Key, Uid
from quorate.api.volcano.job import Job
from quorate.controllers.volcano.job.job_pod_group import owner_reference_to
from quorate.controllers.volcano.job.job_status import claim_name, makes_claim
from quorate.controllers.volcano.job.plugins import Plugin
from quorate.controllers.volcano.job.plugins.interface import OwnedObject
from quorate.controllers.volcano.job.plugins.keys import PRIVATE, PUBLIC
from quorate.controllers.volcano.job.ssh_keys import new_keys
from quorate.kube.client import Client
from quorate.kube.errors import AlreadyExists, NotFound
from quorate.kube.resources import Json, metadata_of, untyped

_Bring = Callable[[Job, OwnedObject], Awaitable[None]]

CLAIMS: Final = untyped("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)


class AlreadyOwned(Exception):
    """An object the job needs is there, and belongs to somebody else."""

    def __init__(self, kind: str, key: Key, owner: str) -> None:
        super().__init__(kind, key, owner)
        self.kind, self.key, self.owner = kind, key, owner

    def __str__(self) -> str:
        return f"{self.kind} {self.key} belongs to {self.owner} (it must go, or the job be renamed)"


class JobResources:
    """Makes what is missing, and brings in step what follows the job, once for each state of the job.

    Both raise ``AlreadyOwned``, ``ApiError`` or ``Unreachable``.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._made: dict[Uid, dict[tuple[str, str], str]] = {}  # a digest of each body, by kind and name
        self._followed: dict[Uid, int] = {}  # by job, the generation that what follows is in step with

    async def ensure(self, job: Job, plugins: Iterable[Plugin]) -> None:
        """Have all there that the next pod needs."""
        await self._bring(job, (*_claims(job), *_owned(plugins)), self._ensure)

    def are_in_step(self, job: Job) -> bool:
        """Whether what follows the job is known to be as the job is now."""
        return self._followed.get(job.metadata.uid) == job.metadata.generation

    async def follow(self, job: Job, plugins: Iterable[Plugin]) -> None:
        """Have what follows the job in step with it, though no pod is to be made: it may have shrunk."""
        await self._bring(job, (each for each in _owned(plugins) if each.tracks_job), self._adopt_or_make)
        self._followed[job.metadata.uid] = job.metadata.generation

    async def _bring(self, job: Job, all_owned: Iterable[OwnedObject], bring: _Bring) -> None:
        made = self._made.setdefault(job.metadata.uid, {})
        for owned_objects in all_owned:
            place = (owned_objects.resource.kind, owned_objects.name)
            digest = hashlib.sha256(codec.encode(owned_objects.body)).hexdigest()
            if made.get(place) != digest:
                await bring(job, owned_objects)
                made[place] = digest

    async def _adopt_or_make(self, job: Job, owned_objects: OwnedObject) -> None:
        """It is there nearly always, so that is asked first."""
        try:
            await self._adopt(job, owned_objects)
        except NotFound:
            await self._ensure(job, owned_objects)

    async def _ensure(self, job: Job, owned_objects: OwnedObject) -> None:
        key = Key(job.metadata.namespace, owned_objects.name)
        body = dict(owned_objects.body)
        if owned_objects.generates_keys:
            private, public = await asyncio.to_thread(new_keys, job.metadata.name)
            body["stringData"] = {**body["stringData"], PRIVATE: private, PUBLIC: public}
        metadata = {
            "name": owned_objects.name,
            "ownerReferences": [codec.to_builtins(owner_reference_to(job))],
        }
        try:
            await self._client.create(owned_objects.resource, {"metadata": metadata, **body}, key.namespace)
        except AlreadyExists:
            if not owned_objects.is_unique:
                await self._adopt(job, owned_objects)

    async def _adopt(self, job: Job, owned_objects: OwnedObject) -> None:
        """Use what is there, unless another job has it, maybe one of the same name on its way out."""
        key = Key(job.metadata.namespace, owned_objects.name)
        there = await self._client.get(owned_objects.resource, key)
        owner = metadata_of(there).controller
        if owner is not None and owner.uid != job.metadata.uid:
            raise AlreadyOwned(owned_objects.resource.kind, key, f"{owner.kind} {owner.name}")
        if owned_objects.tracks_job and any(
            there.get(field) != wanted for field, wanted in owned_objects.body.items()
        ):
            await self._client.patch(owned_objects.resource, key, owned_objects.body)

    def forget(self, job: Uid) -> None:
        self._made.pop(job, None)
        self._followed.pop(job, None)


def _owned(plugins: Iterable[Plugin]) -> Iterator[OwnedObject]:
    for plugin in plugins:
        yield from plugin.owned_objects()


def _claims(job: Job) -> Iterator[OwnedObject]:
    for index, volume in enumerate(job.spec.volumes):
        if makes_claim(volume):
            spec: Json = json.decode(volume.volume_claim)
            body: dict[str, Any] = {"spec": spec}
            yield OwnedObject(CLAIMS, claim_name(job, index), body)
