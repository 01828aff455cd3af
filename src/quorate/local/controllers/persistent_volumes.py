"""The controller of PersistentVolumes and PersistentVolumeClaims: it binds, provisions and reclaims.

A claim is bound to the volume that it names or that is reserved for it, else to the smallest volume that
satisfies it. If no volume does, and the StorageClass of the claim has the provisioner ``PROVISIONER``, a new
volume is a directory of this machine. A claim of a class with ``WaitForFirstConsumer`` gets a volume once a
scheduler has selected a node for it.
"""

import asyncio
import contextlib
import shutil
from pathlib import Path
from typing import Final

from quorate.api import codec
from quorate.api.core import volumes as core
from quorate.api.core.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from quorate.api.meta import Key, matches_selector
from quorate.api.quantity import Quantity
from quorate.kube.client import Client
from quorate.kube.errors import AlreadyExists, ApiError, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES, Resource, reference_to
from quorate.local.controllers.controller import Controller, ControllerContext, ObjectEvent

PROVISIONER: Final = "quorate.dev/directory"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
DEFAULT_CLASS: Final = "standard"
_DEFAULT_CLASS_ANNOTATIONS: Final = {"storageclass.kubernetes.io/is-default-class": "true"}
_UNBOUND: Final = "unbound"
_CLAIM: Final = "claim"
_FREE: Final = "free, by class"


class PersistentVolumeSpec(core.PersistentVolumeSpec):
    persistent_volume_reclaim_policy: str = "Retain"


class PersistentVolume(core.PersistentVolume):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class StorageClass(core.StorageClass):
    reclaim_policy: str = "Delete"


Claim = core.PersistentVolumeClaim
CLAIMS: Final = PERSISTENT_VOLUME_CLAIMS
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, PersistentVolume)
CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass)


async def create_default_class(client: Client) -> None:
    """Create the StorageClass of volumes in directories, unless it exists or a stored policy denies it."""
    metadata = {"name": DEFAULT_CLASS, "annotations": _DEFAULT_CLASS_ANNOTATIONS}
    with contextlib.suppress(ApiError):
        await client.create(STORAGE_CLASSES, {"metadata": metadata, "provisioner": PROVISIONER})


class PersistentVolumeController(Controller):
    """Bind claims, provision volumes and reclaim them.

    A key with a namespace is the key of a claim, any other key is the key of a volume.
    """

    def __init__(
        self,
        context: ControllerContext,
        directory: Path | None,
        volumes: Informer[PersistentVolume],
        claims: Informer[Claim],
        classes: Informer[StorageClass],
    ) -> None:
        """``directory``: of provisioned volumes; None: no volume is provisioned."""
        super().__init__("persistent-volume", context, volumes, claims, classes, workers=1)
        self._volumes = volumes
        self._claims = claims
        self._classes = classes
        self._directory = directory
        self._reported: dict[Key, ObjectEvent] = {}  # of each unbound claim
        claims.add_index(_UNBOUND, lambda claim: () if _is_bound(claim) else ("",))
        volumes.add_index(_CLAIM, lambda volume: (_claim_key(volume),))
        volumes.add_index(_FREE, lambda volume: (volume.spec.storage_class_name,) if _is_free(volume) else ())
        claims.subscribe(self._on_claim)
        volumes.subscribe(self._on_volume)
        classes.subscribe(lambda _: self._enqueue_unbound())

    def _on_claim(self, change: Change[Claim]) -> None:
        self._reconciler.enqueue(change.key)
        for volume in self._volumes.by_index(_CLAIM, change.key):
            self._reconciler.enqueue(volume.metadata.key)

    def _on_volume(self, change: Change[PersistentVolume]) -> None:
        self._reconciler.enqueue(change.key)
        if change.new is not None and not _is_free(change.new):
            self._reconciler.enqueue(_claim_key(change.new))
        else:
            self._enqueue_unbound()

    def _enqueue_unbound(self) -> None:
        for claim in self._claims.by_index(_UNBOUND, ""):
            self._reconciler.enqueue(claim.metadata.key)

    async def reconcile(self, key: Key) -> None:
        if key.namespace:
            claim = self._claims.get(key)
            if claim is None or _is_bound(claim):
                self._reported.pop(key, None)
            elif claim.metadata.deletion_timestamp is None:
                await self._reconcile_claim(claim)
            return
        volume = self._volumes.get(key)
        if volume is not None and volume.metadata.deletion_timestamp is None:
            await self._reconcile_volume(volume)

    async def _reconcile_claim(self, claim: Claim) -> None:
        class_ = self._classes.get(Key("", claim.spec.storage_class_name or ""))
        waits = (
            class_ is not None
            and class_.volume_binding_mode == "WaitForFirstConsumer"
            and SELECTED_NODE not in claim.metadata.annotations
        )
        volume = self._volume_of(claim, only_reserved=waits)
        if volume is not None:
            await self._bind(claim, volume)
        elif claim.spec.volume_name or await self._set_default_class(claim):
            return
        elif class_ is None or waits or class_.provisioner != PROVISIONER or self._directory is None:
            event = _pending_event(claim, class_, waits=waits)
            if self._reported.get(claim.metadata.key) != event:
                self._reported[claim.metadata.key] = event
                self._events.report(CLAIMS, claim, *event)
        else:
            await self._provision(claim, class_, self._directory)

    def _volume_of(self, claim: Claim, *, only_reserved: bool) -> PersistentVolume | None:
        """Return the volume to bind; None if no volume satisfies the claim."""
        if claim.spec.volume_name:
            volume = self._volumes.get(Key("", claim.spec.volume_name))
            return volume if volume is not None and _may_bind(volume, claim) else None
        reserved = self._volumes.by_index(_CLAIM, claim.metadata.key)
        free = self._volumes.by_index(_FREE, claim.spec.storage_class_name or "")
        for candidates in (reserved, () if only_reserved else free):
            if satisfying := [volume for volume in candidates if _satisfies(volume, claim)]:
                return min(satisfying, key=lambda volume: (_capacity(volume), volume.metadata.name))
        return None

    async def _bind(self, claim: Claim, volume: PersistentVolume) -> None:
        """Bind both objects.  Raises ``Conflict`` if the volume has changed meanwhile."""
        chosen = {BOUND_BY_CONTROLLER: "yes"}
        is_reserved, is_named = volume.spec.claim_ref is not None, bool(claim.spec.volume_name)
        patch = {
            "metadata": {
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {} if is_reserved else chosen,
            },
            "spec": {"claimRef": reference_to(CLAIMS, claim.metadata)},
        }
        await self._client.patch(VOLUMES, volume.metadata.key, patch)
        bound = {"status": {"phase": "Bound"}}
        await self._client.patch(VOLUMES, volume.metadata.key, bound, subresource="status")
        annotations = {BIND_COMPLETED: "yes", **({} if is_named else chosen)}
        patch = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.metadata.name}}
        await self._client.patch(CLAIMS, claim.metadata.key, patch)
        status = {
            "phase": "Bound",
            "accessModes": volume.spec.access_modes,
            "capacity": codec.to_builtins(volume.spec.capacity),
            "currentVolumeAttributesClassName": volume.spec.volume_attributes_class_name or None,
        }
        await self._client.patch(CLAIMS, claim.metadata.key, {"status": status}, subresource="status")

    async def _set_default_class(self, claim: Claim) -> bool:
        """Set the newest default class on a claim that was created before there was one."""
        if claim.spec.storage_class_name is not None:
            return False
        defaults = [
            (class_.metadata.creation_timestamp or "", class_.metadata.name)
            for class_ in self._classes
            if _DEFAULT_CLASS_ANNOTATIONS.items() <= class_.metadata.annotations.items()
        ]
        if defaults:
            patch = {"spec": {"storageClassName": max(defaults)[1]}}
            await self._client.patch(CLAIMS, claim.metadata.key, patch)
        return bool(defaults)

    async def _provision(self, claim: Claim, class_: StorageClass, directory: Path) -> None:
        name = f"pvc-{claim.metadata.uid}"
        path = directory / name
        await asyncio.to_thread(_make_directory, path)
        spec = {
            "capacity": codec.to_builtins(claim.spec.resources.requests),
            "accessModes": claim.spec.access_modes,
            "persistentVolumeReclaimPolicy": class_.reclaim_policy,
            "storageClassName": class_.metadata.name,
            "volumeMode": claim.spec.volume_mode,
            "claimRef": reference_to(CLAIMS, claim.metadata),
            "hostPath": {"path": str(path)},
        }
        metadata = {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}
        with contextlib.suppress(AlreadyExists):
            await self._client.create(VOLUMES, {"metadata": metadata, "spec": spec})

    async def _reconcile_volume(self, volume: PersistentVolume) -> None:
        """Report a volume without a claim available, and reclaim a volume of a deleted claim."""
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            await self._report(volume, "Available")
            return
        key = Key(reference.namespace, reference.name)
        claim = self._claims.get(key)
        if claim is not None and claim.metadata.uid == reference.uid:
            return
        with contextlib.suppress(NotFound):  # the server knows more than the informer: data is deleted here
            if (await self._client.get(CLAIMS, key)).metadata.uid == reference.uid:
                return
        is_own = volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
        if (
            is_own
            and volume.spec.persistent_volume_reclaim_policy == "Delete"
            and self._directory is not None
        ):
            await asyncio.to_thread(shutil.rmtree, self._directory / volume.metadata.name, ignore_errors=True)
            with contextlib.suppress(NotFound):
                await self._client.delete(VOLUMES, volume.metadata.key)
        else:
            await self._report(volume, "Released")

    async def _report(self, volume: PersistentVolume, phase: str) -> None:
        if volume.status.phase != phase:
            patch = {"status": {"phase": phase}}
            await self._client.patch(VOLUMES, volume.metadata.key, patch, subresource="status")


def _pending_event(claim: Claim, class_: StorageClass | None, *, waits: bool) -> ObjectEvent:
    """Return why a claim without a volume is not bound, as kube-controller-manager says it."""
    if waits:
        return ObjectEvent("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    if class_ is not None:
        message = (
            f"Waiting for a volume to be created either by the external provisioner '{class_.provisioner}' "
            "or manually by the system administrator. If volume creation is delayed, please verify that the "
            "provisioner is running and correctly registered."
        )
        return ObjectEvent("ExternalProvisioning", message)
    if name := claim.spec.storage_class_name:
        return ObjectEvent("ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found', True)
    message = "no persistent volumes available for this claim and no storage class is set"
    return ObjectEvent("FailedBinding", message)


def _make_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)  # containers may run as any user


def _is_bound(claim: Claim) -> bool:
    return claim.status.phase == "Bound"


def _claim_key(volume: PersistentVolume) -> Key:
    """Return the key of the claim that a volume is reserved for or bound to; an empty key if it is free."""
    reference = volume.spec.claim_ref
    return Key("", "") if reference is None else Key(reference.namespace, reference.name)


def _is_free(volume: PersistentVolume) -> bool:
    return volume.spec.claim_ref is None


def _may_bind(volume: PersistentVolume, claim: Claim) -> bool:
    """Return True if the volume is free or reserved for the claim."""
    reference = volume.spec.claim_ref
    if volume.metadata.deletion_timestamp is not None:
        return False
    is_reserved = _claim_key(volume) == claim.metadata.key
    return reference is None or (is_reserved and reference.uid in ("", claim.metadata.uid))


def _satisfies(volume: PersistentVolume, claim: Claim) -> bool:
    spec = claim.spec
    request = spec.resources.requests.get("storage", Quantity(0))
    return (
        _may_bind(volume, claim)
        and volume.spec.storage_class_name == (spec.storage_class_name or "")
        and volume.spec.volume_mode == spec.volume_mode
        and set(spec.access_modes) <= set(volume.spec.access_modes)
        and _capacity(volume) >= request
        and (spec.selector is None or matches_selector(spec.selector, volume.metadata.labels))
    )


def _capacity(volume: PersistentVolume) -> Quantity:
    return volume.spec.capacity.get("storage", Quantity(0))
