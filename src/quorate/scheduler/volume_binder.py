"""Saying where the claims of a pod will be used, before the pod is bound.

Whoever makes volumes waits for that, and a volume that is kept for one claim is not given to another.
"""

import asyncio
from typing import assert_never

from quorate.api.core.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE
from quorate.api.meta import Key
from quorate.gang.model import Model
from quorate.gang.outcome import Bind
from quorate.kube.client import Client
from quorate.kube.log import logger
from quorate.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from quorate.placement.filters.volumes.binding import DynamicProvisioning, NoMatchingVolume, StaticBinding


class VolumeBinder:
    """One pod at a time: pods that share a claim then find it settled by the first of them."""

    def __init__(self, client: Client, model: Model) -> None:
        self._client = client
        self._model = model
        self._one_at_a_time = asyncio.Lock()
        self._log = logger(__name__)

    async def bind_volumes(self, bind: Bind) -> bool:
        """Whether the pod's claims can be used on its node.  Raises what the API answers."""
        async with self._one_at_a_time:
            for step in self._model.volume_bindings(bind.task, bind.node):
                match step:
                    case NoMatchingVolume():
                        self._log.info("no volume left", pod=bind.task, claim=step.claim.metadata.key)
                        return False
                    case DynamicProvisioning():
                        await self._make(step)
                    case StaticBinding():
                        await self._keep(step)
                    case _:
                        assert_never(step)
        return True

    async def _make(self, step: DynamicProvisioning) -> None:
        metadata = step.claim.metadata
        change = {
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": {SELECTED_NODE: step.node},
            }
        }
        self._model.storage.set_claim(
            await self._client.patch(PERSISTENT_VOLUME_CLAIMS, metadata.key, change)
        )

    async def _keep(self, step: StaticBinding) -> None:
        claim, volume = step.claim.metadata, step.volume.metadata
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        }
        change = {
            "metadata": {
                "resourceVersion": volume.resource_version,
                # Then who takes the claim away takes the reference away, too.
                "annotations": {BOUND_BY_CONTROLLER: "yes"},
            },
            "spec": {"claimRef": reference},
        }
        self._model.storage.set_volume(
            await self._client.patch(PERSISTENT_VOLUMES, Key("", volume.name), change)
        )
