"""What a decision asks of the API server, as values, and the one place that sends them."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from quorate.api.kueue import Workload, WorkloadStatus
from quorate.api.meta import Key, Uid
from quorate.kube.client import Client, PatchKind
from quorate.kube.errors import NotFound
from quorate.kube.patches import merge_patch
from quorate.kube.resources import WORKLOADS, Resource


@dataclass(frozen=True, slots=True)
class Create:
    resource: Resource[Any]
    body: Any
    namespace: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch, refused by the server when the object is no longer at ``resource_version``."""

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
    grace_period_s: int | None = None  # how long pods have to end; None: as long as they say


@dataclass(frozen=True, slots=True)
class Apply:
    """A server-side apply in a manager's name: the fields in ``body`` become as it says."""

    resource: Resource[Any]
    key: Key
    body: Mapping[str, Any]
    field_manager: str
    subresource: str = ""


Write = Create | Patch | Apply | Delete


async def send(client: Client, writes: Iterable[Write]) -> list[Any]:
    """Send ``writes`` in order and return the objects they made; the first that is refused ends it.

    A plan may patch one object several times.  It was decided on one version, so each patch after the
    first expects the version the one before it produced: whoever writes in between causes a ``Conflict``.
    """
    produced: dict[tuple[str, Key], str] = {}
    answers: list[Any] = []
    for write in writes:
        match write:
            case Create(resource, body, namespace):
                answers.append(await client.create(resource, body, namespace))
            case Patch(resource, key, resource_version, body, subresource):
                version = produced.get((resource.plural, key), resource_version)
                patched = await client.patch(
                    resource, key, _expecting(version, body), subresource=subresource
                )
                produced[resource.plural, key] = patched.metadata.resource_version
                answers.append(patched)
            case Apply(resource, key, body, field_manager, subresource):
                named = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
                applied = await client.patch(
                    resource,
                    key,
                    named,
                    subresource=subresource,
                    kind=PatchKind.APPLY,
                    force=True,
                    field_manager=field_manager,
                )
                produced[resource.plural, key] = applied.metadata.resource_version
                answers.append(applied)
            case Delete(resource, key, uid, grace_period_s):
                try:
                    await client.delete(
                        resource, key, uid=uid, propagation="Background", grace_period_s=grace_period_s
                    )
                except NotFound:
                    continue  # somebody else was faster; the wish is fulfilled
            case _:
                assert_never(write)
    return answers


async def send_side_by_side(client: Client, sequences: Iterable[Iterable[Write]]) -> None:
    """Send each of ``sequences`` in order, all of them at once; what is gone already needs no write.

    All are sent, however some end; then the first failure is raised.
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


def status_patch(workload: Workload, status: WorkloadStatus | None) -> tuple[Patch, ...]:
    """The one patch that turns the workload's status into ``status``; none when it is that, or is to stay."""
    if status is None:
        return ()
    difference = merge_patch(workload.status, status)
    if not difference:
        return ()
    metadata = workload.metadata
    return (Patch(WORKLOADS, metadata.key, metadata.resource_version, {"status": difference}, "status"),)
