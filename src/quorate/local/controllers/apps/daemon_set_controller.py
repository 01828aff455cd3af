"""The DaemonSet controller: reads caches, calls ``next_changes`` and writes."""

import asyncio
from typing import Final

import msgspec

from quorate.api.codec import Json
from quorate.api.core import Node, Pod
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.informer import Change, Informer
from quorate.local.controllers.apps.daemon_set import (
    daemon_tolerations,
    next_changes,
    node_fits,
    uses_host_network,
)
from quorate.local.controllers.apps.revisions import ControllerRevision, RevisionHistory
from quorate.local.controllers.apps.types import DAEMON_SETS, PODS, DaemonSet
from quorate.local.controllers.controller import Controller
from quorate.local.controllers.pod_control import (
    REVISION_LABEL,
    PodClaims,
    controller_key,
    delete_pod,
    enqueue_controllers,
    owner_references,
    pod_from_template,
    template_hash,
)
from quorate.local.own_writes import MutationCache

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


class DaemonSetController(Controller):
    def __init__(
        self,
        client: Client,
        clock: Clock,
        pods: Informer[Pod],
        nodes: Informer[Node],
        sets: Informer[DaemonSet],
        revisions: Informer[ControllerRevision],
    ) -> None:
        super().__init__("daemon-set", client, clock, sets, pods, nodes, revisions)
        self._history = RevisionHistory(client, DAEMON_SETS, revisions)
        self._sets = sets
        self._nodes = nodes
        self._pods = MutationCache(
            pods, lambda pod: controller_key(pod.metadata, DAEMON_SETS.kind), "daemon set"
        )
        self._claims = PodClaims(client, DAEMON_SETS, sets, pods, self._reconciler)
        sets.subscribe(lambda change: self._reconciler.enqueue(change.key))
        nodes.subscribe(self._on_node)
        enqueue_controllers(pods, DAEMON_SETS.kind, self._reconciler)

    def _on_node(self, change: Change[Node]) -> None:
        """Enqueue all sets if what a set reads of the node has changed."""
        if change.old is None or change.new is None or _fit_inputs(change.old) != _fit_inputs(change.new):
            for daemon_set in self._sets:
                self._reconciler.enqueue(daemon_set.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        daemon_set = self._sets.get(key)
        if daemon_set is None or daemon_set.metadata.deletion_timestamp is not None:
            return None
        pods = await self._claims.claim(daemon_set, self._pods.by_group(key), self._pods)
        used = {pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods}
        limit = daemon_set.spec.revision_history_limit
        await self._history.record(daemon_set.metadata, daemon_set.spec.template, limit, used)
        changes = next_changes(daemon_set, node_fits(daemon_set, self._nodes), pods, self._clock.now())
        await asyncio.gather(*(delete_pod(self._client, pod) for pod in changes.delete))
        await asyncio.gather(*(self._create(daemon_set, node) for node in changes.create))
        await self._write_status(DAEMON_SETS, daemon_set, changes.status)
        return changes.wake_at

    async def _create(self, daemon_set: DaemonSet, node: str) -> None:
        body = daemon_pod(daemon_set, node)
        self._pods.record(await self._client.create(PODS, body, daemon_set.metadata.namespace))


def daemon_pod(daemon_set: DaemonSet, node: str) -> Json:
    """Return the pod of a node: the scheduler binds it to no other node."""
    body = pod_from_template(
        daemon_set.spec.template,
        owner_references(DAEMON_SETS, daemon_set.metadata),
        generateName=f"{daemon_set.metadata.name}-",
    )
    body["metadata"]["labels"] |= {
        REVISION_LABEL: template_hash(daemon_set.spec.template),
        "pod-template-generation": daemon_set.metadata.annotations.get(TEMPLATE_GENERATION, ""),
    }
    spec = body["spec"]
    own = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [own]}
    tolerations = daemon_tolerations(uses_host_network(daemon_set))
    spec["tolerations"] = [*spec.get("tolerations", ()), *map(msgspec.to_builtins, tolerations)]
    return body


def _fit_inputs(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable
