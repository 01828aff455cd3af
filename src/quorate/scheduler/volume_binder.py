"""Binding of volumes before a pod is bound to its node (PreBind of kube-scheduler's VolumeBinding).

Provisioners wait for the selected node of a claim, and a volume that is reserved for one claim is not given
to another.
"""

import asyncio
from typing import assert_never

from quorate.api.core.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE
from quorate.api.meta import Key
from quorate.gang.cache.claims_to_bind import volumes_to_bind
from quorate.gang.cache.model import Model
from quorate.gang.outcome import Bind
from quorate.kube.client import Client
from quorate.kube.log import logger
from quorate.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from quorate.placement.filters.volumes.binding import DynamicProvisioning, NoMatchingVolume, StaticBinding


class VolumeBinder:
    """Binds the volumes of one pod at a time, so that pods that share a claim find it bound by the first."""

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
