"""The Deployment controller: one ReplicaSet per pod template, and rollouts (``rollout.py``)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.kube.errors import NotFound, RequestFailed
from quorate.kube.informer import Informer
from quorate.kube.patches import merge_patch
from quorate.local.controllers import pod_control as control
from quorate.local.controllers.apps.rollout import (
    DESIRED,
    MAXIMUM,
    REVISION,
    REVISION_HISTORY,
    deployment_status,
    is_complete,
    is_scaled,
    paused_status,
    progress_deadline,
    recreate_sizes,
    replica_annotations,
    rolling_sizes,
    scaled_sizes,
    with_new_replica_set,
    with_progress,
)
from quorate.local.controllers.apps.types import DEPLOYMENTS, REPLICA_SETS, Deployment, ReplicaSet
from quorate.local.controllers.claims import Claims, index_orphans
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.own_writes import MutationCache

POD_TEMPLATE_HASH: Final = "pod-template-hash"
HISTORY_CHARS: Final = 2000  # of the annotation with earlier revisions
PODS_OF_SETS: Final = "replica set"
_NOT_PROPAGATED: Final = {
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAXIMUM,
}


class DeploymentController(Controller):
    """Creates and scales ReplicaSets."""

    def __init__(
        self,
        context: ControllerContext,
        deployments: Informer[Deployment],
        sets: Informer[ReplicaSet],
        pods: Informer[Pod],
    ) -> None:
        super().__init__("deployment", context, deployments, sets, pods, component="deployment-controller")
        self._deployments = MutationCache(deployments, lambda deployment: deployment.metadata.key)
        self._sets = MutationCache(
            sets, lambda replica_set: control.controller_key(replica_set.metadata, DEPLOYMENTS.kind)
        )
        self._pods = pods
        index_orphans(sets)
        self._claims = Claims(
            self._client, DEPLOYMENTS, deployments, REPLICA_SETS, sets, self._reconciler,
            may_adopt=lambda deployment, replica_set: True,
        )  # fmt: skip
        pods.add_index(PODS_OF_SETS, lambda pod: (control.controller_key(pod.metadata, REPLICA_SETS.kind),))

    async def reconcile(self, key: Key) -> float | None:
        deployment, now = self._deployments.get(key), self._clock.now()
        if deployment is None:
            return None
        owned = await self._claims.claim(deployment, self._sets.by_group(key), self._sets)
        owned.sort(
            key=lambda owned_set: (str(owned_set.metadata.creation_timestamp), owned_set.metadata.name)
        )
        hash_ = control.template_hash(deployment.spec.template)
        new = next((replica_set for replica_set in owned if _own_hash(replica_set) == hash_), None)
        old = [replica_set for replica_set in owned if replica_set is not new]
        if deployment.metadata.deletion_timestamp is not None:
            await self._write_status(DEPLOYMENTS, deployment, deployment_status(deployment, new, old, now))
            return None
        status = paused_status(deployment, now)
        if status != deployment.status:
            await self._write_status(DEPLOYMENTS, deployment, status, self._deployments.record)
            deployment = replace(deployment, status=status)
        if new is not None:
            new = await self._annotate(deployment, new, old)
        is_scaling = deployment.spec.paused or is_scaled(deployment, owned)
        if is_scaling:
            sizes = scaled_sizes(deployment, new, old)
        elif deployment.spec.strategy.type == "Recreate":
            sizes = recreate_sizes(deployment, new, old, has_old_pods=self._has_old_pods(old))
        else:
            sizes = rolling_sizes(deployment, new, old)
        was_created = new is None and sizes.new is not None
        if new is None and sizes.new is not None:
            new = await self._create(deployment, hash_, sizes.new, old)
        elif new is not None and sizes.new is not None:
            new = await self._scale(deployment, new, sizes.new, force=is_scaling)
        old = [
            await self._scale(deployment, replica_set, size, force=is_scaling)
            for replica_set, size in zip(old, sizes.old, strict=True)
        ]
        if deployment.spec.paused or (not is_scaling and is_complete(deployment, deployment.status)):
            old = await self._clean_up(deployment, old)
        return await self._report(deployment, new, old, was_created=was_created, is_rollout=not is_scaling)

    def _has_old_pods(self, old: Sequence[ReplicaSet]) -> bool:
        return any(
            replica_set.status.replicas
            or any(
                not control.is_pod_finished(pod)
                for pod in self._pods.by_index(PODS_OF_SETS, replica_set.metadata.key)
            )
            for replica_set in old
        )

    async def _create(
        self, deployment: Deployment, hash_: str, size: int, old: Sequence[ReplicaSet]
    ) -> ReplicaSet:
        template: Json = msgspec.json.decode(deployment.spec.template)
        metadata = template.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), POD_TEMPLATE_HASH: hash_}
        selector = codec.to_builtins(deployment.spec.selector)
        selector["matchLabels"] = {**selector.get("matchLabels", {}), POD_TEMPLATE_HASH: hash_}
        name = f"{deployment.metadata.name[: 253 - 1 - len(hash_)]}-{hash_}"
        body = {
            "metadata": {
                "name": name,
                "labels": metadata["labels"],
                "annotations": {
                    **_propagated_annotations(deployment),
                    **replica_annotations(deployment),
                    REVISION: str(_highest_revision(old) + 1),
                },
                "ownerReferences": control.owner_references(DEPLOYMENTS, deployment.metadata),
            },
            "spec": {
                "replicas": size,
                "minReadySeconds": deployment.spec.min_ready_seconds,
                "selector": selector,
                "template": template,
            },
        }
        try:
            created = await self._client.create(REPLICA_SETS, body, deployment.metadata.namespace)
        except RequestFailed as error:
            message = f'Failed to create new replica set "{name}": {control.problem_of(error)}'
            now = self._clock.now()
            status = with_progress(
                deployment, deployment.status, "False", "ReplicaSetCreateError", message, now
            )
            await self._write_status(DEPLOYMENTS, deployment, status)
            self._events.report(DEPLOYMENTS, deployment, "ReplicaSetCreateError", message, warning=True)
            raise
        self._sets.record(created)
        if size > 0:
            self._scaled(deployment, "up", name, 0, size)
        return created

    async def _annotate(
        self, deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]
    ) -> ReplicaSet:
        """Give the new ReplicaSet the annotations of the Deployment and the highest revision."""
        has = new.metadata.annotations
        missing = {
            name: text for name, text in _propagated_annotations(deployment).items() if has.get(name) != text
        }
        revision = _highest_revision(old) + 1
        if _revision(new) < revision:
            missing[REVISION] = str(revision)
            if REVISION in has:
                missing[REVISION_HISTORY] = _history(has.get(REVISION_HISTORY, ""), has[REVISION])
        if not missing and new.spec.min_ready_seconds == deployment.spec.min_ready_seconds:
            return new
        return await self._patch(new, missing, {"minReadySeconds": deployment.spec.min_ready_seconds})

    async def _scale(
        self, deployment: Deployment, replica_set: ReplicaSet, size: int, *, force: bool
    ) -> ReplicaSet:
        """Set the size and its annotations; ``force``: set the annotations also if the size stays."""
        before, annotations = replica_set.spec.replicas, replica_annotations(deployment)
        up_to_date = annotations.items() <= replica_set.metadata.annotations.items()
        if before == size and (up_to_date or not force or before == 0):
            return replica_set
        changed = await self._patch(replica_set, annotations, {"replicas": size})
        if before != size:
            self._scaled(
                deployment, "up" if before < size else "down", replica_set.metadata.name, before, size
            )
        return changed

    async def _patch(self, replica_set: ReplicaSet, annotations: Mapping[str, str], spec: Json) -> ReplicaSet:
        metadata = {
            "resourceVersion": replica_set.metadata.resource_version,
            "annotations": dict(annotations),
        }
        body = {"metadata": metadata, "spec": spec}
        changed = await self._client.patch(REPLICA_SETS, replica_set.metadata.key, body)
        self._sets.record(changed)
        return changed

    async def _clean_up(self, deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
        """Delete old ReplicaSets without pods beyond ``revisionHistoryLimit``; return the remaining sets."""
        alive = sorted(
            (replica_set for replica_set in old if replica_set.metadata.deletion_timestamp is None),
            key=_revision,
        )
        surplus = alive[: max(len(alive) - deployment.spec.revision_history_limit, 0)]
        unused = [
            replica_set
            for replica_set in surplus
            if not replica_set.status.replicas
            and not replica_set.spec.replicas
            and replica_set.metadata.generation <= replica_set.status.observed_generation
        ]
        for metadata in (replica_set.metadata for replica_set in unused):
            with suppress(NotFound):
                await self._client.delete(
                    REPLICA_SETS, metadata.key, uid=metadata.uid, propagation="Background"
                )
        return [replica_set for replica_set in old if replica_set not in unused]

    async def _report(
        self,
        deployment: Deployment,
        new: ReplicaSet | None,
        old: Sequence[ReplicaSet],
        *,
        was_created: bool,
        is_rollout: bool,
    ) -> float | None:
        status, now = deployment.status, self._clock.now()
        if new is not None:
            status = with_new_replica_set(deployment, new.metadata.name, now, was_created=was_created)
        if not was_created:  # a new ReplicaSet has no counts yet; its first status enqueues the Deployment
            observed = replace(deployment, status=status)
            status = deployment_status(observed, new, old, now, is_rollout=is_rollout)
        patch = merge_patch(deployment.status, status)
        body: Json = {"status": patch} if patch else {}
        revision = "" if new is None else new.metadata.annotations.get(REVISION, "")
        if revision and deployment.metadata.annotations.get(REVISION) != revision:
            body["metadata"] = {"annotations": {REVISION: revision}}
        if body:
            body.setdefault("metadata", {})["resourceVersion"] = deployment.metadata.resource_version
            self._deployments.record(
                await self._client.patch(DEPLOYMENTS, deployment.metadata.key, body, subresource="status")
            )
        return progress_deadline(deployment, status) if is_rollout else None

    def _scaled(self, deployment: Deployment, direction: str, name: str, before: int, size: int) -> None:
        message = f"Scaled {direction} replica set {name} from {before} to {size}"
        self._events.report(DEPLOYMENTS, deployment, "ScalingReplicaSet", message)


def _own_hash(replica_set: ReplicaSet) -> str:
    """Return the hash of a ReplicaSet's template without the label with the hash."""
    template: Json = msgspec.json.decode(replica_set.spec.template)
    labels = template.get("metadata", {}).get("labels", {})
    labels.pop(POD_TEMPLATE_HASH, None)
    return control.template_hash(msgspec.Raw(msgspec.json.encode(template)))


def _revision(replica_set: ReplicaSet) -> int:
    text = replica_set.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def _highest_revision(sets: Sequence[ReplicaSet]) -> int:
    return max(map(_revision, sets), default=0)


def _history(earlier: str, revision: str) -> str:
    """Return the earlier revisions with one more; the oldest are dropped from a long list."""
    revisions = [*filter(None, earlier.split(",")), revision]
    while len(",".join(revisions)) > HISTORY_CHARS:
        del revisions[0]
    return ",".join(revisions)


def _propagated_annotations(deployment: Deployment) -> Mapping[str, str]:
    """Return the annotations to copy to the new ReplicaSet: all except those about the rollout."""
    annotations = deployment.metadata.annotations
    return {name: text for name, text in annotations.items() if name not in _NOT_PROPAGATED}
