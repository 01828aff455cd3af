"""The StatefulSet controller: pods with ordinals, created and deleted in order.

A pod without a controller that has the name of a set's pod, and its labels, is adopted: it is left over from
a set of the same name that was deleted without its pods.

Claims of its volume claim templates are kept when pods or the set are deleted, whatever
``persistentVolumeClaimRetentionPolicy`` says. An update deletes outdated pods one at a time, from the highest
ordinal, when all later ones are ready.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from quorate.api.codec import Json
from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists
from quorate.kube.informer import Informer
from quorate.kube.resources import PERSISTENT_VOLUME_CLAIMS
from quorate.local.controllers.apps.revisions import ControllerRevision, RevisionHistory
from quorate.local.controllers.apps.types import PODS, STATEFUL_SETS, StatefulSet, StatefulSetStatus
from quorate.local.controllers.controller import Controller
from quorate.local.controllers.pod_control import (
    BURST_REPLICAS,
    REVISION_LABEL,
    PodClaims,
    controller_key,
    delete_pod,
    enqueue_controllers,
    is_active,
    is_ready,
    owner_references,
    pod_from_template,
    template_hash,
)
from quorate.local.own_writes import MutationCache

POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"


@dataclass(frozen=True, slots=True)
class PodChanges:
    create: tuple[int, ...] = ()  # ordinals
    delete: tuple[Pod, ...] = ()


def next_changes(stateful_set: StatefulSet, pods: Sequence[Pod]) -> PodChanges:
    """Return the changes that are allowed now.

    ``OrderedReady`` allows one change at a time, and only if all preceding pods are ready.
    """
    by_ordinal = {ordinal_of(pod): pod for pod in pods}
    start = stateful_set.spec.ordinals.start
    wanted = range(start, start + stateful_set.spec.replicas)
    ended = tuple(pod for pod in pods if not is_active(pod) and pod.metadata.deletion_timestamp is None)
    surplus = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if ordinal not in wanted]
    if stateful_set.spec.pod_management_policy == "Parallel":
        going = tuple(pod for pod in surplus if pod.metadata.deletion_timestamp is None)
        missing = tuple(islice((ordinal for ordinal in wanted if ordinal not in by_ordinal), BURST_REPLICAS))
        deleted = (*ended, *going)[:BURST_REPLICAS]
        return PodChanges(missing, deleted or (() if missing else _outdated(stateful_set, by_ordinal)))
    if ended:
        return PodChanges(delete=ended[:1])
    for ordinal in wanted:
        pod = by_ordinal.get(ordinal)
        if pod is None:
            return PodChanges(create=(ordinal,))
        if not (is_active(pod) and is_ready(pod)):
            return PodChanges() if not surplus else PodChanges(delete=_first_to_delete(surplus))
    return PodChanges(delete=_first_to_delete(surplus) or _outdated(stateful_set, by_ordinal))


def _first_to_delete(surplus: Sequence[Pod]) -> tuple[Pod, ...]:
    """Return the excess pod with the highest ordinal, unless an excess pod is terminating."""
    if any(pod.metadata.deletion_timestamp is not None for pod in surplus):
        return ()
    return tuple(surplus[:1])


def _outdated(stateful_set: StatefulSet, by_ordinal: dict[int, Pod]) -> tuple[Pod, ...]:
    """Return the outdated pod with the highest ordinal, unless a later pod is not ready."""
    strategy = stateful_set.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return ()
    name = revision_name(stateful_set)
    first_updated = stateful_set.spec.ordinals.start + strategy.rolling_update.partition
    for ordinal in sorted(by_ordinal, reverse=True):
        pod = by_ordinal[ordinal]
        if ordinal < first_updated:
            break
        if pod.metadata.labels.get(REVISION_LABEL) != name:
            return (pod,) if is_active(pod) else ()
        if not (is_active(pod) and is_ready(pod)):
            break
    return ()


def ordinal_of(pod: Pod) -> int:
    return int(pod.metadata.name.rpartition("-")[2])


def is_member(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Return True if the name of a pod is that of a set with an ordinal."""
    name, _, ordinal = pod.metadata.name.rpartition("-")
    return name == stateful_set.metadata.name and ordinal.isascii() and ordinal.isdecimal()


def revision_name(stateful_set: StatefulSet) -> str:
    return f"{stateful_set.metadata.name}-{template_hash(stateful_set.spec.template)}"


class StatefulSetController(Controller):
    """Creates and deletes pods."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        pods: Informer[Pod],
        sets: Informer[StatefulSet],
        revisions: Informer[ControllerRevision],
    ) -> None:
        super().__init__("stateful-set", client, clock, sets, pods, revisions)
        self._history = RevisionHistory(client, STATEFUL_SETS, revisions)
        self._sets = MutationCache(sets, lambda stateful_set: stateful_set.metadata.key)
        self._pods = pods
        pods.add_index("stateful set", lambda pod: (controller_key(pod.metadata, STATEFUL_SETS.kind),))
        self._claims = PodClaims(client, STATEFUL_SETS, sets, pods, self._reconciler, is_member=is_member)
        sets.subscribe(lambda change: self._reconciler.enqueue(change.key))
        enqueue_controllers(pods, STATEFUL_SETS.kind, self._reconciler)

    async def reconcile(self, key: Key) -> None:
        stateful_set = self._sets.get(key)
        if stateful_set is None or stateful_set.metadata.deletion_timestamp is not None:
            return
        candidates = [pod for pod in self._pods.by_index("stateful set", key) if is_member(stateful_set, pod)]
        pods = await self._claims.claim(stateful_set, candidates)
        used = {pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods}
        limit = stateful_set.spec.revision_history_limit
        await self._history.record(stateful_set.metadata, stateful_set.spec.template, limit, used)
        changes = next_changes(stateful_set, pods)
        await asyncio.gather(*(delete_pod(self._client, pod) for pod in changes.delete))
        # A pod keeps its name: creating it again before the watch delivers it fails with AlreadyExists.
        await asyncio.gather(*(self._create(stateful_set, ordinal) for ordinal in changes.create))
        await self._report(stateful_set, pods)

    async def _create(self, stateful_set: StatefulSet, ordinal: int) -> None:
        name = f"{stateful_set.metadata.name}-{ordinal}"
        body = pod_from_template(
            stateful_set.spec.template, owner_references(STATEFUL_SETS, stateful_set.metadata), name=name
        )
        body["metadata"]["labels"] |= {
            POD_INDEX_LABEL: str(ordinal),
            POD_NAME_LABEL: name,
            REVISION_LABEL: revision_name(stateful_set),
        }
        body["spec"] |= {"hostname": name, "subdomain": stateful_set.spec.service_name}
        await self._claim_volumes(stateful_set, body["spec"], name)
        await self._client.create(PODS, body, stateful_set.metadata.namespace)

    async def _claim_volumes(self, stateful_set: StatefulSet, spec: Json, pod: str) -> None:
        """Create the missing claims of a pod, and make them volumes of its spec."""
        for template in stateful_set.spec.volume_claim_templates:
            volume = template["metadata"]["name"]
            claim = f"{volume}-{pod}"
            labels = {**template["metadata"].get("labels", {}), **stateful_set.spec.selector.match_labels}
            metadata = {**template["metadata"], "name": claim, "labels": labels}
            with contextlib.suppress(AlreadyExists):
                await self._client.create(
                    PERSISTENT_VOLUME_CLAIMS,
                    {"metadata": metadata, "spec": template["spec"]},
                    stateful_set.metadata.namespace,
                )
            others = [other for other in spec.get("volumes", ()) if other["name"] != volume]
            spec["volumes"] = [*others, {"name": volume, "persistentVolumeClaim": {"claimName": claim}}]

    async def _report(self, stateful_set: StatefulSet, pods: Sequence[Pod]) -> None:
        name = revision_name(stateful_set)
        updated = sum(pod.metadata.labels.get(REVISION_LABEL) == name for pod in pods)
        ready = sum(is_ready(pod) and is_active(pod) for pod in pods)
        done = updated == len(pods) == stateful_set.spec.replicas
        status = StatefulSetStatus(
            replicas=len(pods),
            ready_replicas=ready,
            available_replicas=ready,
            current_replicas=updated if done else len(pods) - updated,
            updated_replicas=updated,
            current_revision=name if done else stateful_set.status.current_revision or name,
            update_revision=name,
            collision_count=0,
            observed_generation=stateful_set.metadata.generation,
        )
        await self._write_status(STATEFUL_SETS, stateful_set, status, self._sets.record)
