"""The Deployment controller: one ReplicaSet per pod template, and rolling updates."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from quorate.api.codec import Json
from quorate.api.meta import (
    Condition,
    ConditionStatus,
    Key,
    at_epoch,
    find_condition,
    scaled_value,
    with_condition,
)
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.informer import Informer
from quorate.local.controllers.apps.types import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    DeploymentStatus,
    ReplicaSet,
    RollingUpdate,
)
from quorate.local.controllers.controller import Controller
from quorate.local.controllers.pod_control import (
    controller_key,
    enqueue_controllers,
    is_controlled_by,
    owner_references,
    template_hash,
)
from quorate.local.own_writes import MutationCache

POD_TEMPLATE_HASH: Final = "pod-template-hash"
_DEPLOYMENT_PREFIX: Final = "deployment.kubernetes.io/"
REVISION: Final = f"{_DEPLOYMENT_PREFIX}revision"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class ReplicaCounts(msgspec.Struct, frozen=True):
    """Desired replicas of the new ReplicaSet and of the old ones."""

    new: int
    old: tuple[int, ...]


def rollout_step(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaCounts:
    """Return the next step of the rollout to the new template.

    A rolling update creates at most ``maxSurge`` pods above the desired number and keeps at most
    ``maxUnavailable`` below it available. ``Recreate`` deletes all old pods before it creates a new one.
    """
    desired = deployment.spec.replicas
    present = 0 if new is None else new.spec.replicas
    remaining = [replica_set.spec.replicas for replica_set in old]
    if deployment.spec.strategy.type == "Recreate":
        gone = all(replica_set.status.replicas == 0 for replica_set in old)
        return ReplicaCounts(desired if gone else present, tuple(0 for _ in old))
    surge, unavailable = _surge_and_unavailable(deployment.spec.strategy.rolling_update, desired)
    grown = min(desired, max(present, desired + surge - sum(remaining)))
    available = sum(
        replica_set.status.available_replicas for replica_set in (*old, *([new] if new is not None else []))
    )
    # Unavailable old pods are removed first, then as many available ones as the minimum allows.
    spare = max(available - (desired - unavailable), 0)
    shrunk = []
    for replica_set, size in zip(old, remaining, strict=True):
        idle = max(size - replica_set.status.available_replicas, 0)
        less = min(replica_set.status.available_replicas, spare)
        spare -= less
        shrunk.append(max(size - idle - less, 0))
    return ReplicaCounts(grown, tuple(shrunk))


def _surge_and_unavailable(rolling: RollingUpdate, desired: int) -> tuple[int, int]:
    surge = scaled_value(rolling.max_surge, desired, round_up=True)
    unavailable = scaled_value(rolling.max_unavailable, desired, round_up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


class DeploymentController(Controller):
    """Creates and scales ReplicaSets."""

    def __init__(
        self, client: Client, clock: Clock, deployments: Informer[Deployment], sets: Informer[ReplicaSet]
    ) -> None:
        super().__init__("deployment", client, clock, deployments, sets)
        self._deployments = MutationCache(deployments, lambda deployment: deployment.metadata.key)
        self._sets = MutationCache(
            sets, lambda replica_set: controller_key(replica_set.metadata, DEPLOYMENTS.kind)
        )
        deployments.subscribe(lambda change: self._reconciler.enqueue(change.key))
        enqueue_controllers(sets, DEPLOYMENTS.kind, self._reconciler)

    async def reconcile(self, key: Key) -> None:
        deployment = self._deployments.get(key)
        if deployment is None or deployment.metadata.deletion_timestamp is not None:
            return
        uid = deployment.metadata.uid
        owned = [
            replica_set
            for replica_set in self._sets.by_group(key)
            if is_controlled_by(replica_set.metadata, uid)
        ]
        revision = template_hash(deployment.spec.template)
        new = next(
            (
                replica_set
                for replica_set in owned
                if replica_set.metadata.labels.get(POD_TEMPLATE_HASH) == revision
            ),
            None,
        )
        old = [replica_set for replica_set in owned if replica_set is not new]
        if not deployment.spec.paused:
            step = rollout_step(deployment, new, old)
            if new is None:
                new = await self._create(deployment, revision, step.new, len(old) + 1)
            elif (missing := _missing_annotations(deployment, new)) or new.spec.replicas != step.new:
                new = await self._change(new, step.new, missing)
            for replica_set, size in zip(list(old), step.old, strict=True):
                if replica_set.spec.replicas != size:
                    old[old.index(replica_set)] = await self._change(replica_set, size, {})
        await self._report(deployment, new, old)

    async def _create(self, deployment: Deployment, revision: str, size: int, number: int) -> ReplicaSet:
        template: Json = msgspec.json.decode(deployment.spec.template)
        metadata = template.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), POD_TEMPLATE_HASH: revision}
        matched = {**(deployment.spec.selector.get("matchLabels") or {}), POD_TEMPLATE_HASH: revision}
        body = {
            "metadata": {
                "name": f"{deployment.metadata.name}-{revision}",
                "labels": metadata["labels"],
                "annotations": {**_propagated_annotations(deployment), REVISION: str(number)},
                "ownerReferences": owner_references(DEPLOYMENTS, deployment.metadata),
            },
            "spec": {
                "replicas": size,
                "selector": {**deployment.spec.selector, "matchLabels": matched},
                "template": template,
            },
        }
        made = await self._client.create(REPLICA_SETS, body, deployment.metadata.namespace)
        self._sets.record(made)
        return made

    async def _change(self, replica_set: ReplicaSet, size: int, annotations: Mapping[str, str]) -> ReplicaSet:
        metadata = {
            "resourceVersion": replica_set.metadata.resource_version,
            "annotations": dict(annotations),
        }
        body = {"metadata": metadata, "spec": {"replicas": size}}
        changed = await self._client.patch(REPLICA_SETS, replica_set.metadata.key, body)
        self._sets.record(changed)
        return changed

    async def _report(
        self, deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
    ) -> None:
        every = [*old, *([new] if new is not None else [])]
        present = sum(replica_set.status.replicas for replica_set in every)
        available = sum(replica_set.status.available_replicas for replica_set in every)
        status = DeploymentStatus(
            replicas=present,
            updated_replicas=0 if new is None else new.status.replicas,
            ready_replicas=sum(replica_set.status.ready_replicas for replica_set in every),
            available_replicas=available,
            unavailable_replicas=max(max(deployment.spec.replicas, present) - available, 0),
            observed_generation=deployment.metadata.generation,
            conditions=deployment.status.conditions,
        )
        moment = at_epoch(self._clock.now())
        for condition in (_availability(deployment, status), progress_condition(deployment, status, new)):
            dated = msgspec.structs.replace(condition, last_transition_time=moment)
            conditions = with_condition(status.conditions, dated)
            status = msgspec.structs.replace(status, conditions=conditions)
        await self._write_status(DEPLOYMENTS, deployment, status, self._deployments.record)


def _availability(deployment: Deployment, status: DeploymentStatus) -> Condition:
    replicas = deployment.spec.replicas
    _, unavailable = _surge_and_unavailable(deployment.spec.strategy.rolling_update, replicas)
    enough = status.available_replicas >= replicas - unavailable
    return Condition(
        type="Available",
        status="True" if enough else "False",
        reason="MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        message=f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    )


COMPLETE: Final = "NewReplicaSetAvailable"


def progress_condition(deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None) -> Condition:
    """Return the condition that `helm --wait` and other users of kstatus read.

    A rollout that was complete stays so if pods fail later.
    """
    if deployment.spec.paused or new is None:
        return _progressing("Unknown", "DeploymentPaused", "Deployment is paused")
    replicas, before = deployment.spec.replicas, find_condition(status.conditions, "Progressing")
    name = f'ReplicaSet "{new.metadata.name}"'
    was_complete = before is not None and before.reason == COMPLETE and name in before.message
    is_available = status.updated_replicas == replicas == status.available_replicas
    if status.replicas == status.updated_replicas and (is_available or was_complete):
        return _progressing("True", COMPLETE, f"{name} has successfully progressed.")
    return _progressing("True", "ReplicaSetUpdated", f"{name} is progressing.")


def _progressing(status: ConditionStatus, reason: str, message: str) -> Condition:
    return Condition(type="Progressing", status=status, reason=reason, message=message)


def _propagated_annotations(deployment: Deployment) -> Mapping[str, str]:
    """Return the annotations to copy to the new ReplicaSet: all except those about the rollout."""
    annotations = deployment.metadata.annotations
    return {
        name: text
        for name, text in annotations.items()
        if not name.startswith(_DEPLOYMENT_PREFIX) and name != _LAST_APPLIED
    }


def _missing_annotations(deployment: Deployment, new: ReplicaSet) -> Mapping[str, str]:
    has = new.metadata.annotations
    return {name: text for name, text in _propagated_annotations(deployment).items() if has.get(name) != text}
