"""Writes to the API server as values, and the functions that send them."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from quorate.api.meta import Key, ObjectMeta, Struct, Uid
from quorate.kube.client import Client, PatchKind
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.patches import merge_patch, whole_patch
from quorate.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Create:
    resource: Resource[Any]
    body: Any
    namespace: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch; the server refuses it if the object is no longer at ``resource_version``."""

    resource: Resource[Any]
    key: Key
    resource_version: str
    body: Mapping[str, Any]
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    resource: Resource[Any]
    key: Key
    uid: Uid
    grace_period_s: int | None = None  # for pods; None: their own terminationGracePeriodSeconds


@dataclass(frozen=True, slots=True)
class Apply:
    """A server-side apply of the fields in ``body``, owned by ``field_manager``."""

    resource: Resource[Any]
    key: Key
    body: Mapping[str, Any]
    field_manager: str
    subresource: str = ""


Write = Create | Patch | Apply | Delete


async def send(client: Client, writes: Iterable[Write]) -> list[Any]:
    """Send ``writes`` in order and return the objects as stored; stop at the first that is refused.

    A plan may patch one object several times.  All its patches were decided on one version, so each patch
    after the first expects the version that the previous one produced: a write in between by another client
    causes a ``Conflict``.  A write of our own in between causes it without a request, if the stored object is
    kept.
    """
    produced: dict[tuple[str, Key], str] = {}
    answers: list[Any] = []
    for write in writes:
        match write:
            case Create(resource, body, namespace):
                answers.append(await client.create(resource, body, namespace))
            case Patch(resource, key, resource_version, body, subresource):
                version = produced.get((resource.plural, key), resource_version)
                async with client.own_writes.turn(resource, key):
                    if client.own_writes.has_replaced(resource, key, version):
                        path = resource.path(key.namespace, key.name, subresource)
                        raise Conflict(
                            f"PATCH {path}", 409, "Conflict", f"our write replaced version {version}"
                        )
                    patched = await client.patch(
                        resource, key, _expecting(version, body), subresource=subresource
                    )
                    client.own_writes.record(resource, key, patched)
                produced[resource.plural, key] = patched.metadata.resource_version
                answers.append(patched)
            case Apply(resource, key, body, field_manager, subresource):
                named = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
                async with client.own_writes.turn(resource, key):
                    applied = await client.patch(
                        resource,
                        key,
                        named,
                        subresource=subresource,
                        kind=PatchKind.APPLY,
                        force=True,
                        field_manager=field_manager,
                    )
                    client.own_writes.record(resource, key, applied)
                produced[resource.plural, key] = applied.metadata.resource_version
                answers.append(applied)
            case Delete(resource, key, uid, grace_period_s):
                try:
                    await client.delete(
                        resource, key, uid=uid, propagation="Background", grace_period_s=grace_period_s
                    )
                except NotFound:
                    continue  # deleted already
            case _:
                assert_never(write)
    return answers


async def send_for_version(client: Client, patch: Patch) -> str:
    """Send ``patch`` in the turn of the caller; return only the resource version of the object as stored."""
    body = _expecting(patch.resource_version, patch.body)
    return await client.patch_for_version(patch.resource, patch.key, body, subresource=patch.subresource)


async def send_concurrently(client: Client, sequences: Iterable[Iterable[Write]]) -> None:
    """Send ``sequences`` concurrently, each in order, and ignore ``NotFound``.

    One failure does not stop the other sequences; the first failure is raised after all have ended.
    """
    outcomes = await asyncio.gather(
        *(send(client, sequence) for sequence in sequences), return_exceptions=True
    )
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, NotFound):
            raise outcome


def _expecting(version: str, body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {**body.get("metadata", {}), "resourceVersion": version}
    return {**body, "metadata": metadata}


class HasStatus(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def status(self) -> Struct: ...


def status_patch(
    resource: Resource[Any], obj: HasStatus, status: Struct | None, *, is_sent_at_once: bool = False
) -> tuple[Patch, ...]:
    """Return the one patch that changes the status of ``obj`` to ``status``.

    Return no patch if ``obj`` has that status, or if ``status`` is None.  The first status is written as a
    whole, because counters of 0 that are not stored yet differ from nothing that was read.  In a patch that
    ``is_sent_at_once`` it is encoded already, in half of the time.
    """
    if status is None or obj.status == status:
        return ()
    unwritten = obj.status == type(obj.status)()
    if unwritten and is_sent_at_once:
        changes = whole_patch(status)
    else:
        changes = merge_patch({} if unwritten else obj.status, status)
    if not changes:
        return ()
    metadata = obj.metadata
    return (Patch(resource, metadata.key, metadata.resource_version, {"status": changes}, "status"),)
