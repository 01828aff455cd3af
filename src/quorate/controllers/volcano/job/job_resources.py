"""What a job needs besides pods: services, host lists, keys and claims, made before the first pod."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import json

from quorate.api import codec
from quorate.api.meta import Key, Uid
from quorate.api.volcano_job import Job
from quorate.controllers.volcano.job.job_pod_group import owned_by
from quorate.controllers.volcano.job.job_status import claim_name, makes_claim
from quorate.controllers.volcano.job.plugins import Plugin
from quorate.controllers.volcano.job.plugins.interface import Owned
from quorate.controllers.volcano.job.plugins.keys import PRIVATE, PUBLIC
from quorate.controllers.volcano.job.ssh_keys import new_keys
from quorate.kube.client import Client
from quorate.kube.errors import AlreadyExists, NotFound
from quorate.kube.resources import Json, metadata_of, untyped

_Bring = Callable[[Job, Owned], Awaitable[None]]

CLAIMS: Final = untyped("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)


class Taken(Exception):
    """An object the job needs is there, and belongs to somebody else."""

    def __init__(self, kind: str, key: Key, owner: str) -> None:
        super().__init__(kind, key, owner)
        self.kind, self.key, self.owner = kind, key, owner

    def __str__(self) -> str:
        return f"{self.kind} {self.key} belongs to {self.owner} (it must go, or the job be renamed)"


class Belongings:
    """Makes what is missing, and brings in step what follows the job, once for each state of the job.

    Both raise ``Taken``, ``ApiError`` or ``Unreachable``.
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
        await self._bring(job, (each for each in _owned(plugins) if each.follows), self._adopt_or_make)
        self._followed[job.metadata.uid] = job.metadata.generation

    async def _bring(self, job: Job, all_owned: Iterable[Owned], bring: _Bring) -> None:
        made = self._made.setdefault(job.metadata.uid, {})
        for owned in all_owned:
            place = (owned.resource.kind, owned.name)
            digest = hashlib.sha256(codec.encode(owned.body)).hexdigest()
            if made.get(place) != digest:
                await bring(job, owned)
                made[place] = digest

    async def _adopt_or_make(self, job: Job, owned: Owned) -> None:
        """It is there nearly always, so that is asked first."""
        try:
            await self._adopt(job, owned)
        except NotFound:
            await self._ensure(job, owned)

    async def _ensure(self, job: Job, owned: Owned) -> None:
        key = Key(job.metadata.namespace, owned.name)
        body = dict(owned.body)
        if owned.takes_keys:
            private, public = await asyncio.to_thread(new_keys, job.metadata.name)
            body["stringData"] = {**body["stringData"], PRIVATE: private, PUBLIC: public}
        metadata = {"name": owned.name, "ownerReferences": [codec.to_builtins(owned_by(job))]}
        try:
            await self._client.create(owned.resource, {"metadata": metadata, **body}, key.namespace)
        except AlreadyExists:
            if not owned.is_unique:
                await self._adopt(job, owned)

    async def _adopt(self, job: Job, owned: Owned) -> None:
        """Use what is there, unless another job has it, maybe one of the same name on its way out."""
        key = Key(job.metadata.namespace, owned.name)
        there = await self._client.get(owned.resource, key)
        owner = metadata_of(there).controller
        if owner is not None and owner.uid != job.metadata.uid:
            raise Taken(owned.resource.kind, key, f"{owner.kind} {owner.name}")
        if owned.follows and any(there.get(field) != wanted for field, wanted in owned.body.items()):
            await self._client.patch(owned.resource, key, owned.body)

    def forget(self, job: Uid) -> None:
        self._made.pop(job, None)
        self._followed.pop(job, None)


def _owned(plugins: Iterable[Plugin]) -> Iterator[Owned]:
    for plugin in plugins:
        yield from plugin.owned()


def _claims(job: Job) -> Iterator[Owned]:
    for index, volume in enumerate(job.spec.volumes):
        if makes_claim(volume):
            spec: Json = json.decode(volume.volume_claim)
            body: dict[str, Any] = {"spec": spec}
            yield Owned(CLAIMS, claim_name(job, index), body)
