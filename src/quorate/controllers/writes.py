"""What a decision asks of the API server, as values, and the one place that sends them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from quorate.api.kueue import Workload, WorkloadStatus
from quorate.api.meta import Key, Uid
from quorate.kube.client import Client
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


Write = Create | Patch | Delete


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
            case Delete(resource, key, uid):
                try:
                    await client.delete(resource, key, uid=uid, propagation="Background")
                except NotFound:
                    continue  # somebody else was faster; the wish is fulfilled
            case _:
                assert_never(write)
    return answers


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
