"""The StatefulSet controller: pods with ordinals, created and deleted in order.

A pod without a controller that has the name of a set's pod, and its labels, is adopted: it is left over from
a set of the same name that was deleted without its pods.

Claims of its volume claim templates are owned by the set, or by a pod that is to be deleted, if
``persistentVolumeClaimRetentionPolicy`` says that they are deleted with it. An update deletes outdated pods
one at a time, from the highest ordinal, when all later ones are ready.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core import Pod
from quorate.api.core.volumes import PersistentVolumeClaim
from quorate.api.meta import Key
from quorate.kube.errors import AlreadyExists, NotFound, RequestFailed
from quorate.kube.informer import Informer
from quorate.kube.resources import PERSISTENT_VOLUME_CLAIMS
from quorate.local.controllers import pod_control as control
from quorate.local.controllers.apps.revisions import ControllerRevision, RevisionHistory
from quorate.local.controllers.apps.types import PODS, STATEFUL_SETS, StatefulSet, StatefulSetStatus
from quorate.local.controllers.claims import pod_claims
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.own_writes import MutationCache

POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
CLAIM_RETRY_S: Final = 0.1
HASH_LABEL: Final = "controller.kubernetes.io/hash"  # of a ControllerRevision
POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"


@dataclass(frozen=True, slots=True)
class PodChanges:
    create: tuple[int, ...] = ()  # ordinals
    delete: tuple[Pod, ...] = ()


def next_changes(stateful_set: StatefulSet, pods: Sequence[Pod], now: float) -> PodChanges:
    """Return the changes that are allowed now.

    ``OrderedReady`` allows one change at a time, and only if all preceding pods are available.
    """
    by_ordinal = {ordinal_of(pod): pod for pod in pods}
    start, minimum_s = stateful_set.spec.ordinals.start, stateful_set.spec.min_ready_seconds
    wanted = range(start, start + stateful_set.spec.replicas)
    surplus = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if ordinal not in wanted]
    if stateful_set.spec.pod_management_policy == "Parallel":
        ended = tuple(pod for pod in pods if control.is_pod_finished(pod) and ordinal_of(pod) in wanted)
        going = (*ended, *surplus)
        missing = tuple(
            islice((ordinal for ordinal in wanted if ordinal not in by_ordinal), control.BURST_REPLICAS)
        )
        deleted = tuple(pod for pod in going if pod.metadata.deletion_timestamp is None)[
            : control.BURST_REPLICAS
        ]
        return PodChanges(missing, deleted or _outdated(stateful_set, by_ordinal, now))
    unavailable = [
        present
        for ordinal in sorted(by_ordinal, key=lambda ordinal: (ordinal not in wanted, ordinal))
        if not control.is_available(present := by_ordinal[ordinal], minimum_s, now)
        or control.is_terminating(present)
    ]
    for ordinal in wanted:
        pod = by_ordinal.get(ordinal)
        if pod is None:
            return PodChanges(create=(ordinal,))
        if control.is_pod_finished(pod):
            return PodChanges(delete=(pod,) if pod.metadata.deletion_timestamp is None else ())
        if pod in unavailable:
            return PodChanges()
    for last in surplus[:1]:
        is_blocked = last in unavailable and last is not unavailable[0]
        return PodChanges() if last.metadata.deletion_timestamp or is_blocked else PodChanges(delete=(last,))
    return PodChanges(delete=_outdated(stateful_set, by_ordinal, now))


def first_updated(stateful_set: StatefulSet) -> int:
    """Return the first ordinal that a rolling update replaces."""
    strategy = stateful_set.spec.update_strategy
    return stateful_set.spec.ordinals.start + strategy.rolling_update.partition


def _outdated(stateful_set: StatefulSet, by_ordinal: dict[int, Pod], now: float) -> tuple[Pod, ...]:
    """Return the outdated pod with the highest ordinal, unless a later pod is not available."""
    if stateful_set.spec.update_strategy.type != "RollingUpdate":
        return ()
    name, minimum_s = revision_name(stateful_set), stateful_set.spec.min_ready_seconds
    start = stateful_set.spec.ordinals.start
    for ordinal in reversed(range(first_updated(stateful_set), start + stateful_set.spec.replicas)):
        pod = by_ordinal.get(ordinal)
        if pod is None:
            break
        if (
            pod.metadata.labels.get(control.REVISION_LABEL) != name
            and pod.metadata.deletion_timestamp is None
        ):
            return (pod,)
        if pod.metadata.deletion_timestamp is not None or not control.is_available(pod, minimum_s, now):
            break
    return ()


def ordinal_of(pod: Pod) -> int:
    return int(pod.metadata.name.rpartition("-")[2])


def is_member(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Return True if the name of a pod is the name of the set followed by an ordinal."""
    name, _, ordinal = pod.metadata.name.rpartition("-")
    return name == stateful_set.metadata.name and ordinal.isascii() and ordinal.isdecimal()


def claim_owner(stateful_set: StatefulSet, pod: Pod) -> list[Json]:
    """Return the references of a pod's claims to what they are deleted with; empty if they are kept."""
    spec = stateful_set.spec
    policy, start = spec.persistent_volume_claim_retention_policy, spec.ordinals.start
    is_surplus = ordinal_of(pod) not in range(start, start + spec.replicas)
    if is_surplus and policy.when_scaled == "Delete":
        return control.owner_references(PODS, pod.metadata)
    return (
        control.owner_references(STATEFUL_SETS, stateful_set.metadata)
        if policy.when_deleted == "Delete"
        else []
    )


def revision_name(stateful_set: StatefulSet) -> str:
    return f"{stateful_set.metadata.name}-{control.template_hash(stateful_set.spec.template)}"


class StatefulSetController(Controller):
    """Creates and deletes pods."""

    def __init__(
        self,
        context: ControllerContext,
        pods: Informer[Pod],
        sets: Informer[StatefulSet],
        revisions: Informer[ControllerRevision],
        volume_claims: Informer[PersistentVolumeClaim],
    ) -> None:
        super().__init__(
            "stateful-set", context, sets, pods, revisions, volume_claims, component="statefulset-controller"
        )
        self._history = RevisionHistory(self._client, STATEFUL_SETS, revisions, HASH_LABEL)
        self._sets = MutationCache(sets, lambda stateful_set: stateful_set.metadata.key)
        self._pods = pods
        self._volume_claims = volume_claims
        pods.add_index(
            "stateful set", lambda pod: (control.controller_key(pod.metadata, STATEFUL_SETS.kind),)
        )
        self._claims = pod_claims(
            self._client, STATEFUL_SETS, sets, pods, self._reconciler, is_member=is_member
        )

    async def reconcile(self, key: Key) -> float | None:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return None
        candidates = [pod for pod in self._pods.by_index("stateful set", key) if is_member(stateful_set, pod)]
        pods = await self._claims.claim(stateful_set, candidates)
        now = self._clock.now()
        if stateful_set.metadata.deletion_timestamp is not None:
            status = stateful_set_status(stateful_set, pods, now)
            await self._write_status(STATEFUL_SETS, stateful_set, status, self._sets.record)
            return None
        used = {pod.metadata.labels.get(control.REVISION_LABEL, "") for pod in pods}
        used.add(stateful_set.status.current_revision)  # of pods below the partition that are created later
        limit = stateful_set.spec.revision_history_limit
        await self._history.record(stateful_set.metadata, stateful_set.spec.template, limit, used)
        changes = next_changes(stateful_set, pods, now)
        for pod in pods:
            await self._set_claim_owner(stateful_set, pod)
        if any(self._is_claim_of_former_pod(stateful_set, ordinal) for ordinal in changes.create):
            return now + CLAIM_RETRY_S
        await self._identify(stateful_set, [pod for pod in pods if pod not in changes.delete], now)
        await asyncio.gather(*(self._delete(stateful_set, pod) for pod in changes.delete))
        try:
            # A pod keeps its name: creating it again before the watch delivers it fails with AlreadyExists.
            await asyncio.gather(*(self._create(stateful_set, ordinal) for ordinal in changes.create))
        finally:
            status = stateful_set_status(stateful_set, pods, now)
            await self._write_status(STATEFUL_SETS, stateful_set, status, self._sets.record)
        return control.next_available_at(pods, stateful_set.spec.min_ready_seconds, now)

    def _claims_of(self, stateful_set: StatefulSet, ordinal: int) -> list[PersistentVolumeClaim]:
        """Return the stored claims of a pod."""
        set_key = stateful_set.metadata.key
        names = [template["metadata"]["name"] for template in stateful_set.spec.volume_claim_templates]
        keys = [Key(set_key.namespace, f"{name}-{set_key.name}-{ordinal}") for name in names]
        return [claim for key in keys if (claim := self._volume_claims.get(key)) is not None]

    def _is_claim_of_former_pod(self, stateful_set: StatefulSet, ordinal: int) -> bool:
        """Return True if the garbage collector is about to delete a claim of a pod to create."""
        return any(
            reference.kind == PODS.kind
            for claim in self._claims_of(stateful_set, ordinal)
            for reference in claim.metadata.owner_references
        )

    async def _set_claim_owner(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Give the claims of a pod the owner with which the set's policy deletes them."""
        ordinal, set_metadata = ordinal_of(pod), stateful_set.metadata
        wanted = claim_owner(stateful_set, pod)
        for claim in self._claims_of(stateful_set, ordinal):
            references = claim.metadata.owner_references
            kept = [
                reference
                for reference in references
                if reference.uid not in (set_metadata.uid, pod.metadata.uid)
            ]
            own = {
                (reference.uid, bool(reference.controller))
                for reference in references
                if reference not in kept
            }
            if (
                own == {(reference["uid"], reference["controller"]) for reference in wanted}
                or claim.metadata.deletion_timestamp
                or any(reference.controller for reference in kept)
            ):
                continue
            owners = [*codec.to_builtins(kept), *wanted]
            patch = {"metadata": {"uid": claim.metadata.uid, "ownerReferences": owners or None}}
            with contextlib.suppress(NotFound):
                await self._client.patch(PERSISTENT_VOLUME_CLAIMS, claim.metadata.key, patch)

    async def _identify(self, stateful_set: StatefulSet, pods: Sequence[Pod], now: float) -> None:
        """Give adopted pods the labels of their names; with ``OrderedReady`` once they are available."""
        spec = stateful_set.spec
        waits = spec.pod_management_policy != "Parallel"
        for pod in pods:
            name = pod.metadata.name
            labels = _identity(name)
            if waits and not control.is_available(pod, spec.min_ready_seconds, now):
                break
            if control.is_active(pod) and not labels.items() <= pod.metadata.labels.items():
                patch = {"metadata": {"uid": pod.metadata.uid, "labels": labels}}
                await self._client.patch(PODS, pod.metadata.key, patch)
                self._report(stateful_set, "Update", f"Pod {name}", "successful")

    async def _delete(self, stateful_set: StatefulSet, pod: Pod) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid)
        self._report(stateful_set, "Delete", f"Pod {pod.metadata.name}", "successful")

    async def _create(self, stateful_set: StatefulSet, ordinal: int) -> None:
        name = f"{stateful_set.metadata.name}-{ordinal}"
        template, revision = await self._template(stateful_set, ordinal)
        body = control.pod_from_template(
            template,
            control.owner_references(STATEFUL_SETS, stateful_set.metadata),
            name=name,
            generateName=f"{stateful_set.metadata.name}-",
        )
        body["metadata"]["labels"] |= {**_identity(name), control.REVISION_LABEL: revision}
        body["spec"] |= {"hostname": name, "subdomain": stateful_set.spec.service_name}
        await self._claim_volumes(stateful_set, body["spec"], name)
        try:
            await self._client.create(PODS, body, stateful_set.metadata.namespace)
        except AlreadyExists:
            raise
        except RequestFailed as error:
            self._report(stateful_set, "Create", f"Pod {name}", f"failed error: {control.problem_of(error)}")
            raise
        self._report(stateful_set, "Create", f"Pod {name}", "successful")

    async def _template(self, stateful_set: StatefulSet, ordinal: int) -> tuple[msgspec.Raw, str]:
        """Return the template and the revision of a new pod; below the partition, the current revision."""
        revision, current = revision_name(stateful_set), stateful_set.status.current_revision
        if current in ("", revision) or ordinal >= first_updated(stateful_set):
            return stateful_set.spec.template, revision
        stored = await self._history.template(stateful_set.metadata.namespace, current)
        return (stateful_set.spec.template, revision) if stored is None else (stored, current)

    def _report(self, stateful_set: StatefulSet, verb: str, what: str, result: str) -> None:
        is_failure = result.startswith("failed")
        message = f"{verb} {what} in StatefulSet {stateful_set.metadata.name} {result}"
        reason = f"{'Failed' if is_failure else 'Successful'}{verb}"
        self._events.report(STATEFUL_SETS, stateful_set, reason, message, warning=is_failure)

    async def _claim_volumes(self, stateful_set: StatefulSet, spec: Json, pod: str) -> None:
        """Create the missing claims of a pod, and make them volumes of its spec."""
        for template in stateful_set.spec.volume_claim_templates:
            volume = template["metadata"]["name"]
            claim = f"{volume}-{pod}"
            labels = {**template["metadata"].get("labels", {}), **stateful_set.spec.selector.match_labels}
            metadata = {**template["metadata"], "name": claim, "labels": labels}
            if stateful_set.spec.persistent_volume_claim_retention_policy.when_deleted == "Delete":
                metadata["ownerReferences"] = control.owner_references(STATEFUL_SETS, stateful_set.metadata)
            with contextlib.suppress(AlreadyExists):
                await self._client.create(
                    PERSISTENT_VOLUME_CLAIMS,
                    {"metadata": metadata, "spec": template["spec"]},
                    stateful_set.metadata.namespace,
                )
                self._report(stateful_set, "Create", f"Claim {claim} Pod {pod}", "success")
            others = [other for other in spec.get("volumes", ()) if other["name"] != volume]
            spec["volumes"] = [*others, {"name": volume, "persistentVolumeClaim": {"claimName": claim}}]


def _identity(pod: str) -> dict[str, str]:
    """Return the labels of a pod of this name."""
    return {POD_INDEX_LABEL: pod.rpartition("-")[2], POD_NAME_LABEL: pod}


def stateful_set_status(stateful_set: StatefulSet, pods: Sequence[Pod], now: float) -> StatefulSetStatus:
    spec, name = stateful_set.spec, revision_name(stateful_set)
    current = stateful_set.status.current_revision or name
    revisions = [
        pod.metadata.labels.get(control.REVISION_LABEL)
        for pod in pods
        if pod.metadata.deletion_timestamp is None
    ]
    updated = revisions.count(name)
    ready = [pod for pod in pods if control.is_ready(pod) and pod.status.phase == "Running"]
    is_rolling = spec.update_strategy.type == "RollingUpdate"
    if is_rolling and updated == len(ready) == len(pods) == spec.replicas:
        current = name
    return StatefulSetStatus(
        replicas=len(pods),
        ready_replicas=len(ready),
        available_replicas=sum(control.is_available(pod, spec.min_ready_seconds, now) for pod in ready),
        current_replicas=revisions.count(current),
        updated_replicas=updated,
        current_revision=current,
        update_revision=name,
        collision_count=0,
        observed_generation=stateful_set.metadata.generation,
    )
