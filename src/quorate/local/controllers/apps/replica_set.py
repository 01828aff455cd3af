"""The controller of ReplicaSets and of ReplicationControllers: keeps the desired number of active pods."""

import asyncio
from collections.abc import Iterable
from typing import Generic, TypeVar

from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.informer import Informer
from quorate.kube.resources import Resource
from quorate.local.controllers.apps.types import PODS, ReplicaSet, ReplicaSetStatus, ReplicationController
from quorate.local.controllers.controller import Controller
from quorate.local.controllers.pod_control import (
    BURST_REPLICAS,
    PodClaims,
    controller_key,
    delete_pod,
    enqueue_controllers,
    is_active,
    is_ready,
    owner_references,
    pod_from_template,
)
from quorate.local.own_writes import MutationCache

S = TypeVar("S", bound=ReplicaSet | ReplicationController)


def pods_to_delete(pods: Iterable[Pod], wanted: int) -> list[Pod]:
    """Return the excess pods: pods without a node first, then not ready ones, then the youngest."""
    by_priority = sorted(
        pods, key=lambda pod: (not pod.spec.node_name, not is_ready(pod), _created(pod), pod.metadata.name)
    )
    return by_priority[wanted:]


def _created(pod: Pod) -> str:
    created = pod.metadata.creation_timestamp
    return created.isoformat() if created is not None else ""


class ReplicaSetController(Controller, Generic[S]):
    """Creates and deletes pods."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        kind: Resource[S],
        sets: Informer[S],
        pods: Informer[Pod],
    ) -> None:
        """``kind``: REPLICA_SETS or REPLICATION_CONTROLLERS."""
        super().__init__(kind.plural, client, clock, sets, pods)
        self._kind = kind
        self._sets = sets
        self._pods = MutationCache(pods, lambda pod: controller_key(pod.metadata, kind.kind), kind.plural)
        self._claims = PodClaims(client, kind, sets, pods, self._reconciler)
        sets.subscribe(lambda change: self._reconciler.enqueue(change.key))
        enqueue_controllers(pods, kind.kind, self._reconciler)

    async def reconcile(self, key: Key) -> None:
        replica_set = self._sets.get(key)
        if replica_set is None or replica_set.metadata.deletion_timestamp is not None:
            return
        claimed = await self._claims.claim(replica_set, self._pods.by_group(key), self._pods)
        live = [pod for pod in claimed if is_active(pod)]
        wanted = replica_set.spec.replicas
        await asyncio.gather(
            *(delete_pod(self._client, pod) for pod in pods_to_delete(live, wanted)[:BURST_REPLICAS])
        )
        missing = min(wanted - len(live), BURST_REPLICAS)
        await asyncio.gather(*(self._create(replica_set) for _ in range(missing)))
        await self._report(replica_set, live)

    async def _create(self, replica_set: S) -> None:
        owner = owner_references(self._kind, replica_set.metadata)
        body = pod_from_template(
            replica_set.spec.template, owner, generateName=f"{replica_set.metadata.name}-"
        )
        self._pods.record(await self._client.create(PODS, body, replica_set.metadata.namespace))

    async def _report(self, replica_set: S, live: list[Pod]) -> None:
        ready = sum(map(is_ready, live))
        status = ReplicaSetStatus(
            replicas=len(live),
            fully_labeled_replicas=len(live),
            ready_replicas=ready,
            available_replicas=ready,
            observed_generation=replica_set.metadata.generation,
        )
        await self._write_status(self._kind, replica_set, status)
