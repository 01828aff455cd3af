"""Pods that use more than quota is charged for their workload: recorded, shown, and deleted if configured.

A bound pod belongs to the job that its chain of controllers leads to, or else to the workload that its labels
and annotations name.  Copies of pods and workloads do not arrive together, and the controllers of jobs take
some time to delete pods: only a use that lasts is recorded.  One that ends is removed at once.
"""

from typing import Final

from msgspec.structs import replace

from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.names.kueue import IS_GROUP_WORKLOAD, POD_GROUP_NAME, WORKLOAD_ANNOTATION
from quorate.controllers.context import ControllerContext
from quorate.controllers.jobframework.ancestors import AncestorFinder, OwnerNotFound
from quorate.controllers.limits import FEW_WORKERS, OUTSIDE_DELAY_S, OUTSIDE_GRACE_S, POD_OWNER_RETRY_S
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import Forbidden
from quorate.kube.informer import Change
from quorate.kube.resources import PODS, WORKLOADS, reference_to
from quorate.kube.selection import Selection
from quorate.kube.writes import Delete, Patch, Write, send, status_patch
from quorate.queueing.conditions import OUTSIDE_QUOTA, new_condition, with_conditions, without_condition
from quorate.queueing.outside_quota import ANNOTATION, as_annotation, is_larger, recorded_use
from quorate.queueing.pods_outside_quota import PodsOutside, find_pods_outside
from quorate.queueing.state import State

_NAMESPACE: Final = "namespace"  # index of pods
_ROOT: Final = "root"  # index of workloads by what ``_root`` returns


class OutsideQuotaController:
    """Evaluates the pods of each *root*: a job, or the workload of a group of pods.

    The key of a root is its namespace with the uid of the job, or the name of the workload.
    """

    def __init__(
        self, context: ControllerContext, state: State, pods: Selection[Pod], ancestors: AncestorFinder
    ) -> None:
        self._client, self._clock, self._events = context.client, context.clock, context.events
        self._configuration, self._workloads = context.configuration, context.informers.workloads
        self._deletes = context.configuration.outside_quota.mode == "Delete"
        self._state, self._pods, self._ancestors = state, pods, ancestors
        self._root_of: dict[Key, Key] = {}  # of each bound pod that belongs to a workload
        self._pods_of: dict[Key, set[Key]] = {}  # the inverse; no set is empty
        self._namespaces: set[str] = set()  # with workloads; the owners of other pods are not read
        self._since: dict[Key, float] = {}  # roots that use more than is recorded, epoch seconds
        self._owners = Reconciler("owners of pods", self._find_root, context.clock, FEW_WORKERS)
        self._uses = Reconciler("pods outside quota", self._reconcile, context.clock, FEW_WORKERS)
        self._workloads.add_index(_ROOT, lambda workload: (_root(workload),), of_metadata=True)
        pods.add_index(_NAMESPACE, lambda pod: (pod.metadata.namespace,))
        self._workloads.subscribe(self._workload_changed)
        pods.subscribe(self._pod_changed)

    @property
    def reconcilers(self) -> tuple[Reconciler, ...]:
        return self._owners, self._uses

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new, root = change.old, change.new, self._root_of.get(change.key)
        if new is None:
            self._owners.forget(change.key)
            self._set_root(change.key, None)
        elif old is None or _ties(old) != _ties(new):
            self._owners.enqueue(change.key)
        if root is not None:
            self._uses.enqueue_in(root, OUTSIDE_DELAY_S)

    def _workload_changed(self, change: Change[Workload]) -> None:
        workload = change.new
        if workload is None:
            return
        namespace = workload.metadata.namespace
        if namespace not in self._namespaces:
            self._namespaces.add(namespace)
            for pod in self._pods.by_index(_NAMESPACE, namespace):
                self._owners.enqueue(pod.metadata.key)
        root = _root(workload)
        if root in self._pods_of or ANNOTATION in workload.metadata.annotations:
            self._uses.enqueue_in(root, OUTSIDE_DELAY_S)

    def _set_root(self, pod: Key, root: Key | None) -> None:
        old = self._root_of.pop(pod, None)
        if old is not None:
            self._pods_of[old].discard(pod)
            if not self._pods_of[old]:
                del self._pods_of[old]
        if root is not None:
            self._root_of[pod] = root
            self._pods_of.setdefault(root, set()).add(pod)
            self._uses.enqueue_in(root, OUTSIDE_DELAY_S)

    async def _find_root(self, key: Key) -> float | None:
        """Find what a pod belongs to: the first of its owners and the names in its labels with a workload."""
        pod = self._pods.get(key)
        if pod is None:
            return None
        metadata, namespace = pod.metadata, key.namespace
        if namespace not in self._namespaces:
            return None
        try:
            ancestor = await self._ancestors.managing_ancestor(metadata)
        except Forbidden:  # a kind that the controllers are not to queue
            ancestor = None
        if isinstance(ancestor, OwnerNotFound):
            return self._clock.now() + POD_OWNER_RETRY_S
        controller = metadata.controller
        uids = (
            ancestor if isinstance(ancestor, str) else "",
            "" if controller is None else controller.uid,
            metadata.uid,
        )
        names = (
            metadata.annotations.get(POD_GROUP_NAME) or metadata.labels.get(POD_GROUP_NAME, ""),
            metadata.annotations.get(WORKLOAD_ANNOTATION, ""),
        )
        roots = [Key(namespace, uid) for uid in uids if uid]
        named = (self._workloads.get(Key(namespace, name)) for name in names if name)
        roots += (_root(workload) for workload in named if workload is not None)
        self._set_root(key, next((root for root in roots if self._workloads.by_index(_ROOT, root)), None))
        return None

    async def _reconcile(self, root: Key) -> float | None:
        await self._pods.synced.wait()
        await self._owners.drained()
        workloads = self._workloads.by_index(_ROOT, root)
        pods = (self._pods.get(key) for key in sorted(self._pods_of.get(root, ())))
        bound = [pod for pod in pods if pod is not None]
        outside = find_pods_outside(workloads, bound, self._state.ledger.cluster_queues, self._configuration)
        if outside is not None and is_larger(outside.use, recorded_use(outside.holder)):
            due = self._since.setdefault(root, self._clock.now()) + OUTSIDE_GRACE_S
            if self._clock.now() < due:
                return due
        self._since.pop(root, None)
        if outside is None:
            return None
        for workload in workloads:
            if workload is not outside.holder:
                await send(self._client, self._record(workload, None))
        writes = self._record(outside.holder, outside)
        await send(self._client, writes)
        if writes and outside.use is not None:
            about = reference_to(WORKLOADS, outside.holder.metadata)
            self._events.event(about, "Warning", "OutsideQuota", self._text(outside))
        if self._deletes:
            deletions = (Delete(PODS, pod.metadata.key, pod.metadata.uid) for pod in outside.to_stop)
            await send(self._client, deletions)
        return None

    def _text(self, outside: PodsOutside) -> str:
        return f"{outside.message}, of which the first are deleted" if self._deletes else outside.message

    def _record(self, workload: Workload, outside: PodsOutside | None) -> tuple[Write, ...]:
        """Return the writes of the condition and the annotation; none if the use is recorded already."""
        metadata, status = workload.metadata, workload.status
        use = None if outside is None else outside.use
        if use == recorded_use(workload) and (use is not None) == (ANNOTATION in metadata.annotations):
            return ()
        conditions = without_condition(status.conditions, OUTSIDE_QUOTA)
        if outside is not None and use is not None:
            text, now = self._text(outside), self._clock.now()
            shown = new_condition(OUTSIDE_QUOTA, "True", "PodsOutsideQuota", text, now, metadata.generation)
            conditions = with_conditions(status.conditions, shown)
        value = None if use is None else as_annotation(use)
        body = {"metadata": {"annotations": {ANNOTATION: value}}}
        return (
            *status_patch(WORKLOADS, workload, replace(status, conditions=conditions)),
            Patch(WORKLOADS, metadata.key, metadata.resource_version, body),
        )


def _root(workload: Workload) -> Key:
    """Return the root of the pods of a workload: its owner, or its name if it has none or if pods own it."""
    metadata = workload.metadata
    owner = metadata.controller or next(iter(metadata.owner_references), None)
    if owner is None or metadata.annotations.get(IS_GROUP_WORKLOAD) == "true":
        return metadata.key
    return Key(metadata.namespace, owner.uid)


def _ties(pod: Pod) -> tuple[object, ...]:
    metadata = pod.metadata
    return metadata.uid, metadata.owner_references, metadata.labels, metadata.annotations
