"""Functions that the workload and Job controllers share, and creation and deletion of their pods."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import msgspec

from quorate.api.codec import Json
from quorate.api.core import Pod
from quorate.api.meta import (
    Key,
    ObjectMeta,
    Uid,
    condition_at,
    epoch,
    find_condition,
    is_true,
    with_condition,
)
from quorate.kube.client import Client
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import ApiError, NotFound, RequestFailed
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import HasMetadata, Resource, T, metadata_of
from quorate.local.controllers.controller import EventRecorder

Owner = TypeVar("Owner", bound=HasMetadata)
OwnedPod = TypeVar("OwnedPod", bound=HasMetadata)

REVISION_LABEL: Final = "controller-revision-hash"
BURST_REPLICAS: Final = 500  # pods of one set created or deleted per reconciliation, as in Kubernetes


def controller_key(metadata: ObjectMeta, kind: str) -> Key | None:
    """Return the key of the controlling owner if that is of ``kind``."""
    owner = metadata.controller
    return Key(metadata.namespace, owner.name) if owner is not None and owner.kind == kind else None


def is_controlled_by(metadata: ObjectMeta, owner: Uid) -> bool:
    return metadata.controller is not None and metadata.controller.uid == owner


def enqueue_controllers(dependents: Informer[T], kind: str, reconciler: Reconciler) -> None:
    """Enqueue the controlling owners of ``kind`` whenever one of ``dependents`` changes."""

    def on_change(change: Change[T]) -> None:
        for dependent in change.versions:
            if key := controller_key(metadata_of(dependent), kind):
                reconciler.enqueue(key)

    dependents.subscribe(on_change)


def is_pod_finished(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Return True if a pod is neither finished nor terminating."""
    return pod.metadata.deletion_timestamp is None and not is_pod_finished(pod)


def is_terminating(pod: Pod) -> bool:
    """Return True if a pod is being deleted and has not finished."""
    return pod.metadata.deletion_timestamp is not None and not is_pod_finished(pod)


def is_ready(pod: Pod) -> bool:
    return is_true(pod.status.conditions, "Ready")


def ready_since(pod: Pod) -> float | None:
    condition = find_condition(pod.status.conditions, "Ready")
    if condition is None or condition.status != "True" or condition.last_transition_time is None:
        return None
    return epoch(condition.last_transition_time)


def is_available(pod: Pod, minimum_s: int, now: float) -> bool:
    """Return True if a pod has been ready for ``minReadySeconds``."""
    if minimum_s == 0:
        return is_ready(pod)
    since = ready_since(pod)
    return since is not None and since + minimum_s <= now


def next_available_at(pods: Iterable[Pod], minimum_s: int, now: float) -> float | None:
    """Return when the next ready pod becomes available; None if no such pod waits."""
    moments = map(ready_since, pods)
    return min((at + minimum_s for at in moments if at is not None and at + minimum_s > now), default=None)


def finalizer_removal(metadata: ObjectMeta, finalizer: str) -> Json:
    """Return a strategic merge patch that removes one finalizer from an object, guarded by its uid.

    Concurrent changes of other finalizers are kept.
    """
    return {"metadata": {"uid": metadata.uid, "$deleteFromPrimitiveList/finalizers": [finalizer]}}


def disruption_patch(pod: Pod, now: float, reason: str, message: str, **status: str) -> Json:
    """Return a status patch, guarded by the uid, that marks a pod as disrupted since ``now``.

    ``status``: other fields of the status.
    """
    disrupted = condition_at(now, "DisruptionTarget", "True", reason, message)
    conditions = with_condition(pod.status.conditions, disrupted)
    fields = {**status, "conditions": conditions, "observedGeneration": pod.metadata.generation}
    return {"metadata": {"uid": pod.metadata.uid}, "status": fields}


def template_hash(template: msgspec.Raw) -> str:
    """Return a short hash of a pod template, equal for equal content."""
    document = msgspec.json.decode(template)
    text = msgspec.json.encode(document, order="deterministic")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()[:10]


def owner_references(resource: Resource[Any], metadata: ObjectMeta) -> list[Json]:
    """Return the owner references of objects created for an owner."""
    return [
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": metadata.name,
            "uid": metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def pod_from_template(template: msgspec.Raw, owner: list[Json], **named: str) -> Json:
    """Return a pod from ``template``; ``named`` sets name or generateName, and namespace."""
    document: Json = msgspec.json.decode(template)
    described = document.get("metadata") or {}
    metadata = {
        "labels": dict(described.get("labels") or {}),
        "annotations": dict(described.get("annotations") or {}),
        "finalizers": list(described.get("finalizers") or ()),
        "ownerReferences": owner,
        **named,
    }
    return {"metadata": metadata, "spec": document["spec"]}


class PodControl(Generic[Owner, OwnedPod]):
    """Creates and deletes the pods of objects of ``kind``, and reports that in events of their owner."""

    def __init__(
        self,
        client: Client,
        kind: Resource[Owner],
        pods: Resource[OwnedPod],
        events: EventRecorder,
        record: Callable[[OwnedPod], None],
    ) -> None:
        """``record`` is called with each created pod."""
        self._client = client
        self._kind = kind
        self._resource = pods
        self._events = events
        self._record = record

    async def create(self, owner: Owner, bodies: Sequence[Json]) -> tuple[int, RequestFailed | None]:
        """Create pods in batches of 1, 2, 4, 8, ...; return the number created, and the first error.

        Because of the slow start, an object does not send hundreds of requests if all its pods are rejected.
        """
        created, size = 0, 1
        while created < len(bodies):
            batch = bodies[created : created + size]
            results = await asyncio.gather(*(self._create_one(owner, body) for body in batch))
            refusals = [result for result in results if result is not None]
            created += len(batch) - len(refusals)
            if refusals:
                return created, refusals[0]
            size *= 2
        return created, None

    async def _create_one(self, owner: Owner, body: Json) -> RequestFailed | None:
        try:
            pod = await self._client.create(self._resource, body, metadata_of(owner).namespace)
        except RequestFailed as error:
            if not is_namespace_terminating(error):
                message = f"Error creating: {problem_of(error)}"
                self._events.report(self._kind, owner, "FailedCreate", message, warning=True)
            return error
        self._record(pod)
        self._events.report(self._kind, owner, "SuccessfulCreate", f"Created pod: {metadata_of(pod).name}")
        return None

    async def delete(self, owner: Owner, pods: Iterable[OwnedPod]) -> None:
        """Delete pods, which may be deleted already."""

        async def delete(pod: OwnedPod) -> None:
            metadata = metadata_of(pod)
            with suppress(NotFound):
                await self._client.delete(self._resource, metadata.key, uid=metadata.uid)
                message = f"Deleted pod: {metadata.name}"
                self._events.report(self._kind, owner, "SuccessfulDelete", message)

        await asyncio.gather(*map(delete, pods))


def problem_of(error: RequestFailed) -> str:
    return error.message if isinstance(error, ApiError) else str(error)


def is_namespace_terminating(error: RequestFailed) -> bool:
    causes = error.details.causes if isinstance(error, ApiError) else ()
    return any(cause.reason == "NamespaceTerminating" for cause in causes)
