"""Allocation of claimed devices before a pod is bound (PreBind of kube-scheduler's DynamicResources).

A claim is protected by a finalizer, gets its devices, and is reserved for the pod, in the order in which
kube-scheduler writes it, so that the controller of claims gives the devices back when the pod has ended.
"""

import asyncio
from typing import Any, assert_never

from quorate.api.core.device_claims import DELETE_PROTECTION, ResourceClaim
from quorate.api.core.pod import Pod
from quorate.api.core.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE
from quorate.api.meta import Key
from quorate.gang.cache.claims_to_bind import claims_devices, devices_to_allocate, volumes_to_bind
from quorate.gang.cache.model import Model
from quorate.gang.outcome import Bind
from quorate.kube.client import Client
from quorate.kube.errors import ApiError, NotFound
from quorate.kube.log import logger
from quorate.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PLACEABLE_PODS,
    RESOURCE_CLAIMS,
)
from quorate.placement.filters.devices.allocation import DeviceShortage
from quorate.placement.filters.devices.demand import claim_keys
from quorate.placement.filters.volumes.binding import DynamicProvisioning, NoMatchingVolume, StaticBinding


class DeviceBinder:
    """Allocates the claims of one pod at a time, so that no device is given to two pods."""

    def __init__(self, client: Client, model: Model) -> None:
        self._client = client
        self._model = model
        self._lock = asyncio.Lock()
        self._log = logger(__name__)

    async def allocate(self, bind: Bind) -> bool:
        """Return whether the pod's claims have devices on its node; raise the errors of the client."""
        if not claims_devices(self._model, bind.task):
            return True
        async with self._lock:
            steps = devices_to_allocate(self._model, bind.task, bind.node)
            if isinstance(steps, DeviceShortage):
                self._log.info("no devices", pod=bind.task, node=bind.node, problem=str(steps))
                return False
            for step in steps:
                claim = await self._protect(step.claim)
                allocation = step.allocation(self._model.devices.classes, bind.node)
                await self._write(claim, {"allocation": allocation, "reservedFor": [_consumer(bind)]})
            for claim in self._claims(bind):
                consumers = claim.status.reserved_for
                if all(consumer.uid != bind.uid for consumer in consumers):
                    others = [
                        {"resource": consumer.resource, "name": consumer.name, "uid": consumer.uid}
                        for consumer in consumers
                    ]
                    await self._write(claim, {"reservedFor": [*others, _consumer(bind)]})
        return True

    async def release(self, bind: Bind) -> None:
        """Take back the devices of a pod that was not bound, so that it may be placed on another node."""
        if not claims_devices(self._model, bind.task):
            return
        try:
            pod: Pod = await self._client.get(PLACEABLE_PODS, bind.task)
        except NotFound:
            return  # the controller of claims gives them back
        except ApiError as error:
            self._log.warning("devices not taken back", pod=bind.task, problem=str(error))
            return
        if pod.node_name or pod.metadata.uid != bind.uid:
            return
        async with self._lock:
            for claim in self._claims(bind):
                others = [consumer for consumer in claim.status.reserved_for if consumer.uid != bind.uid]
                if len(others) < len(claim.status.reserved_for) and not others:
                    try:
                        await self._write(claim, {"allocation": None, "reservedFor": None})
                    except ApiError as error:
                        self._log.warning(
                            "devices not taken back", claim=claim.metadata.key, problem=str(error)
                        )

    def _claims(self, bind: Bind) -> list[ResourceClaim]:
        """Return the claims of the pod as they are known now."""
        pod = self._model.pod(bind.task)
        keys = () if pod is None else claim_keys(pod)
        stored = (self._model.devices.claims.get(key) for key in keys if isinstance(key, Key))
        return [claim for claim in stored if claim is not None]

    async def _protect(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = claim.metadata
        if DELETE_PROTECTION in metadata.finalizers:
            return claim
        finalizers = [*metadata.finalizers, DELETE_PROTECTION]
        patch = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": finalizers}}
        return await self._client.patch(RESOURCE_CLAIMS, metadata.key, patch)

    async def _write(self, claim: ResourceClaim, status: dict[str, Any]) -> None:
        metadata = claim.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": status}
        written = await self._client.patch(RESOURCE_CLAIMS, metadata.key, patch, subresource="status")
        self._model.devices.set_claim(written)


def _consumer(bind: Bind) -> dict[str, str]:
    return {"resource": "pods", "name": bind.task.name, "uid": bind.uid}


class VolumeBinder:
    """Binds the volumes of pods, one pod after the other: a claim that several pods share is bound once.

    Provisioners wait for the selected node of a claim, and a volume that is reserved for one claim is not
    given to another.
    """

    def __init__(self, client: Client, model: Model) -> None:
        self._client = client
        self._model = model
        self._lock = asyncio.Lock()
        self._log = logger(__name__)

    async def bind_volumes(self, bind: Bind) -> bool:
        """Return whether the pod's claims can be used on its node; raise the errors of the client."""
        async with self._lock:
            for step in volumes_to_bind(self._model, bind.task, bind.node):
                match step:
                    case NoMatchingVolume():
                        self._log.info("no matching volume", pod=bind.task, claim=step.claim.metadata.key)
                        return False
                    case DynamicProvisioning():
                        await self._select_node(step)
                    case StaticBinding():
                        await self._reserve_volume(step)
                    case _:
                        assert_never(step)
        return True

    async def _select_node(self, step: DynamicProvisioning) -> None:
        metadata = step.claim.metadata
        patch = {
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": {SELECTED_NODE: step.node},
            }
        }
        self._model.storage.set_claim(await self._client.patch(PERSISTENT_VOLUME_CLAIMS, metadata.key, patch))

    async def _reserve_volume(self, step: StaticBinding) -> None:
        claim, volume = step.claim.metadata, step.volume.metadata
        claim_ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        }
        patch = {
            "metadata": {
                "resourceVersion": volume.resource_version,
                # The volume controller then removes the claimRef when the claim is deleted.
                "annotations": {BOUND_BY_CONTROLLER: "yes"},
            },
            "spec": {"claimRef": claim_ref},
        }
        self._model.storage.set_volume(
            await self._client.patch(PERSISTENT_VOLUMES, Key("", volume.name), patch)
        )
