"""The controller of ReplicaSets and of ReplicationControllers: keeps the desired number of active pods."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final, Generic, TypeVar

from quorate.api.core import Pod
from quorate.api.meta import Key, ObjectMeta, condition_at, epoch, find_condition, with_condition
from quorate.kube.errors import RequestFailed
from quorate.kube.informer import Informer
from quorate.kube.resources import Resource
from quorate.local.controllers import pod_control as control
from quorate.local.controllers.apps.types import (
    PODS,
    REPLICA_SETS,
    ReplicaSet,
    ReplicaSetStatus,
    ReplicationController,
    template_labels,
)
from quorate.local.controllers.claims import pod_claims
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.own_writes import MutationCache

S = TypeVar("S", bound=ReplicaSet | ReplicationController)
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
REPLICA_FAILURE: Final = "ReplicaFailure"


def pods_to_delete(pods: Collection[Pod], wanted: int) -> list[Pod]:
    """Return the excess pods.

    Pods are compared by, in this order: no node first, phase, unready first, lower deletion cost first, pods
    of the node with most of the pods first, shortest ready time, most restarts, youngest first.
    """
    on_node = Counter(pod.spec.node_name for pod in pods)

    def order(pod: Pod) -> tuple[Any, ...]:
        return (
            bool(pod.spec.node_name),
            ("Pending", "Unknown", "Running").index(pod.status.phase or "Pending"),
            control.is_ready(pod),
            _deletion_cost(pod.metadata),
            -on_node[pod.spec.node_name],
            -(control.ready_since(pod) or 0),
            -max((container.restart_count for container in pod.status.container_statuses), default=0),
            -epoch(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else 0,
            pod.metadata.name,
        )

    return sorted(pods, key=order)[: max(len(pods) - wanted, 0)]


def _deletion_cost(metadata: ObjectMeta) -> int:
    text = metadata.annotations.get(DELETION_COST, "0")
    return int(text) if text.removeprefix("-").isdecimal() else 0


class ReplicaSetController(Controller, Generic[S]):
    """Creates and deletes pods."""

    def __init__(
        self, context: ControllerContext, kind: Resource[S], sets: Informer[S], pods: Informer[Pod]
    ) -> None:
        """``kind``: REPLICA_SETS or REPLICATION_CONTROLLERS."""
        component = "replicaset-controller" if kind == REPLICA_SETS else "replication-controller"
        super().__init__(kind.plural, context, sets, pods, component=component)
        self._kind = kind
        self._sets = sets
        self._pods = MutationCache(
            pods, lambda pod: control.controller_key(pod.metadata, kind.kind), kind.plural
        )
        self._control = control.PodControl(self._client, kind, PODS, self._events, self._pods.record)
        self._claims = pod_claims(self._client, kind, sets, pods, self._reconciler)

    async def reconcile(self, key: Key) -> float | None:
        replica_set = self._sets.get(key)
        if replica_set is None:
            return None
        claimed = await self._claims.claim(replica_set, self._pods.by_group(key), self._pods)
        live = [pod for pod in claimed if control.is_active(pod)]
        refusal = None
        if replica_set.metadata.deletion_timestamp is None:
            refusal = await self._change(replica_set, live)
        now = self._clock.now()
        terminating = sum(map(control.is_terminating, claimed))
        status = replica_set_status(replica_set, live, terminating, refusal, now)
        await self._write_status(self._kind, replica_set, status)
        if refusal is not None:
            raise refusal
        return control.next_available_at(live, replica_set.spec.min_ready_seconds, now)

    async def _change(self, replica_set: S, live: Sequence[Pod]) -> RequestFailed | None:
        """Create or delete pods; return the first error."""
        wanted = replica_set.spec.replicas
        await self._control.delete(replica_set, pods_to_delete(live, wanted)[: control.BURST_REPLICAS])
        missing = min(wanted - len(live), control.BURST_REPLICAS)
        owner, prefix = (
            control.owner_references(self._kind, replica_set.metadata),
            f"{replica_set.metadata.name}-",
        )
        template = replica_set.spec.template
        bodies = [control.pod_from_template(template, owner, generateName=prefix) for _ in range(missing)]
        _, refusal = await self._control.create(replica_set, bodies)
        return refusal


def replica_set_status(
    replica_set: ReplicaSet | ReplicationController,
    live: Sequence[Pod],
    terminating: int,
    refusal: RequestFailed | None,
    now: float,
) -> ReplicaSetStatus:
    spec, conditions = replica_set.spec, replica_set.status.conditions
    if refusal is None:
        conditions = tuple(condition for condition in conditions if condition.type != REPLICA_FAILURE)
    elif find_condition(conditions, REPLICA_FAILURE) is None:
        failure = condition_at(now, REPLICA_FAILURE, "True", "FailedCreate", control.problem_of(refusal))
        conditions = with_condition(conditions, failure)
    labels = template_labels(spec.template)
    return ReplicaSetStatus(
        replicas=len(live),
        fully_labeled_replicas=sum(labels.items() <= pod.metadata.labels.items() for pod in live),
        ready_replicas=sum(map(control.is_ready, live)),
        available_replicas=sum(control.is_available(pod, spec.min_ready_seconds, now) for pod in live),
        terminating_replicas=terminating if isinstance(replica_set, ReplicaSet) else None,
        observed_generation=replica_set.metadata.generation,
        conditions=conditions,
    )
