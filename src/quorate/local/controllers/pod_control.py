"""Functions that the workload and Job controllers share."""

import hashlib
from typing import Any, Final

import msgspec

from quorate.api.codec import Json
from quorate.api.core import Pod
from quorate.api.meta import Key, ObjectMeta, Uid, is_true
from quorate.kube.client import Client
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PODS, Resource, T, metadata_of

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
        for each in (change.old, change.new):
            key = None if each is None else controller_key(metadata_of(each), kind)
            if key is not None:
                reconciler.enqueue(key)

    dependents.subscribe(on_change)


async def run_when_synced(reconciler: Reconciler, *informers: Informer[Any]) -> None:
    for informer in informers:
        await informer.synced.wait()
    await reconciler.run()


async def delete_pod(client: Client, pod: Pod) -> None:
    """Delete ``pod``, which may be deleted already."""
    try:
        await client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid)
    except NotFound:
        return


def is_pod_finished(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Return True if a pod is neither finished nor terminating."""
    return pod.metadata.deletion_timestamp is None and not is_pod_finished(pod)


def is_ready(pod: Pod) -> bool:
    return is_true(pod.status.conditions, "Ready")


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
