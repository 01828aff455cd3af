"""The ungater: gives pods of admitted workloads their domains and removes their topology gate.

Domains are chosen from the cache of pods, which may be older than the ungater's own writes.  What was sent is
therefore remembered until the watch delivers another version of the pod, and counts as its domain.  A write
with an unknown outcome is repeated as it was: whichever of the two is executed, the pod gets that domain.
After a restart the caches are listed again, so nothing has to be remembered.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from msgspec.structs import replace as replace_fields

from quorate.api.core.pod import Pod
from quorate.api.kueue import Admission, PodSetAssignment, Workload
from quorate.api.kueue.topology import HOSTNAME, TopologyAssignment, topology_assignment
from quorate.api.meta import Key, find_condition
from quorate.api.names.kueue import ELASTIC_JOB, POD_SET, TOPOLOGY_GATE
from quorate.api.names.topology import INDEX_OFFSET
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import WORKERS
from quorate.controllers.pods.constants import IS_GROUP
from quorate.controllers.topology.placed_pods import (
    GATED_PODS_OF,
    LARGE,
    PODS_OF,
    WORKLOADS_OF,
    can_be_ungated,
    has_places,
    pods_key,
    pods_key_of,
    stored_values,
)
from quorate.kube import errors
from quorate.kube.informer import Change
from quorate.kube.log import logger
from quorate.kube.resources import PLACEABLE_PODS, WORKLOADS
from quorate.kube.selection import Selection
from quorate.kube.writes import Patch, send, send_for_version, status_patch
from quorate.queueing.conditions import ADMITTED, transition_time
from quorate.queueing.topology.shrunk_places import shrunk_domains
from quorate.queueing.topology.ungating import PodPlace, choose_domains, pod_rank, pod_set_ranks

BATCH_S: Final = 0.1  # pods of one workload tend to be created together
CONCURRENT: Final = 100  # patches for one workload


@dataclass(frozen=True, slots=True)
class Ungating:
    """A gated pod and the node selectors that it gets: the values of its domain by level."""

    pod: Pod
    selectors: Mapping[str, str]

    @property
    def patch(self) -> Patch:
        metadata, spec = self.pod.metadata, self.pod.spec
        left = [{"name": gate.name} for gate in spec.scheduling_gates if gate.name != TOPOLOGY_GATE]
        body: dict[str, Any] = {"spec": {"nodeSelector": self.selectors, "schedulingGates": left or None}}
        return Patch(PLACEABLE_PODS, metadata.key, metadata.resource_version, body)


@dataclass(frozen=True, slots=True)
class Sent:
    """A patch that was sent for the version of the pod that the cache has."""

    version: str
    selectors: Mapping[str, str]
    is_uncertain: bool = True  # the pod may still have the version


class SentUngatings:
    """The patches of which the cache does not show the result yet."""

    def __init__(self) -> None:
        self._sent: dict[Key, Sent] = {}

    def pod_changed(self, key: Key, pod: Pod | None) -> None:
        """Forget a patch once the cache has a version of the pod other than the patched version."""
        sent = self._sent.get(key)
        if sent is not None and (pod is None or pod.metadata.resource_version != sent.version):
            del self._sent[key]

    def of(self, pods: Iterable[Pod]) -> dict[Key, Sent]:
        """Return the patches that were sent for the cached versions of these pods.

        A patch may be sent just after the cache has got another version: it is refused, and counts no more.
        """
        versions = {pod.metadata.key: pod.metadata.resource_version for pod in pods}
        return {
            key: sent
            for key, version in versions.items()
            if (sent := self._sent.get(key)) is not None and sent.version == version
        }

    def sending(self, ungating: Ungating) -> None:
        metadata = ungating.pod.metadata
        self._sent[metadata.key] = Sent(metadata.resource_version, ungating.selectors)

    def replaced(self, ungating: Ungating) -> None:
        """Record that the pod is no longer at the version that the patch replaces."""
        metadata = ungating.pod.metadata
        sent = self._sent.get(metadata.key)
        if sent is not None and sent.version == metadata.resource_version:
            self._sent[metadata.key] = replace(sent, is_uncertain=False)

    def refused(self, ungating: Ungating) -> None:
        """Record that the pod stays as it was."""
        self._sent.pop(ungating.pod.metadata.key, None)


def find_ungatings(
    workload: Workload, pods: Sequence[Pod], sent: Mapping[Key, Sent], blocked: frozenset[str] = frozenset()
) -> list[Ungating]:
    """Return what to send for an admitted workload; ``pods``: all of its pods, ordered by name.

    Pods stay gated if they belong to one of the ``blocked`` hosts, or to one that is recorded as unhealthy.
    """
    admission = workload.status.admission
    if admission is None:
        return []
    ungatings: list[Ungating] = []
    for assigned in admission.pod_set_assignments:
        if assigned.topology_assignment is not None and _has_levels(assigned.topology_assignment):
            members = [pod for pod in pods if pod.metadata.labels.get(POD_SET) == assigned.name]
            ungatings += _of_pod_set(workload, assigned, assigned.topology_assignment, members, sent, blocked)
    return ungatings


def _has_levels(assignment: TopologyAssignment) -> bool:
    """Return False for an assignment that another client wrote with too many or too few values."""
    levels = len(assignment.levels)
    return levels > 0 and all(len(part.values_per_level) == levels for part in assignment.slices)


def _of_pod_set(
    workload: Workload,
    assigned: PodSetAssignment,
    assignment: TopologyAssignment,
    pods: Sequence[Pod],
    sent: Mapping[Key, Sent],
    blocked: frozenset[str],
) -> list[Ungating]:
    # A deleted pod behind the gate will never run.
    counted = [
        pod for pod in pods if not pod.has_ended and not (pod.has_gate(TOPOLOGY_GATE) and pod.is_leaving)
    ]
    if not any(pod.has_gate(TOPOLOGY_GATE) for pod in counted):
        return []
    levels = assignment.levels
    ranks = pod_set_ranks(workload, assigned.name, counted[0].metadata.annotations.get(INDEX_OFFSET))
    places: list[PodPlace] = []
    again: list[Ungating] = []
    for pod in counted:
        selectors: Mapping[str, str] | None = None if pod.has_gate(TOPOLOGY_GATE) else pod.spec.node_selector
        before = sent.get(pod.metadata.key) if pod.has_gate(TOPOLOGY_GATE) else None
        if before is not None:
            selectors = {**pod.spec.node_selector, **before.selectors}
            if before.is_uncertain:
                again.append(Ungating(pod, before.selectors))
        values = None if selectors is None else tuple(selectors.get(level, "") for level in levels)
        rank = None if ranks is None else pod_rank(pod.metadata.labels, ranks)
        places.append(PodPlace(pod.metadata.name, rank, values))
    unhealthy: frozenset[str] = frozenset()
    if levels[-1] == HOSTNAME:
        unhealthy = blocked.union(node.name for node in workload.status.unhealthy_nodes)
    ended = Counter(
        tuple(pod.spec.node_selector.get(level, "") for level in levels)
        for pod in pods
        if pod.status.phase == "Succeeded"
    )
    chosen = choose_domains(assignment.domains(), places, unhealthy, ended)
    by_name = {pod.metadata.name: pod for pod in counted}
    return [
        *again,
        *(Ungating(by_name[name], dict(zip(levels, values, strict=True))) for name, values in chosen.items()),
    ]


class Ungater:
    """Watches workloads with places and their pods; see the module docstring."""

    def __init__(self, context: ControllerContext, pods: Selection[Pod]) -> None:
        self._context = context
        self._pods = pods
        self._workloads = context.informers.workloads
        self._sent = SentUngatings()
        self._blocked: dict[Key, frozenset[str]] = {}  # hosts, by workload; no value is empty
        gates = context.configuration.topology_gates
        self._by_host_prefix = gates is None or gates.host_prefix_slices
        self._log = logger(__name__)
        self.reconciler = context.reconciler("topology.ungater", self._reconcile, self._workloads, WORKERS)
        self._workloads.subscribe(self._workload_changed)

    async def watch_pods(self) -> None:
        """Follow the pods from now on; return once all that exist have been seen."""
        await self._pods.subscribe_in_slices(self._pod_changed)

    def set_blocked_hosts(self, workload: Key, hosts: frozenset[str]) -> None:
        """Keep the pods of these hosts gated: their nodes do not take pods now."""
        before = self._blocked.pop(workload, frozenset())
        if hosts:
            self._blocked[workload] = hosts
        if before - hosts:
            self.reconciler.enqueue(workload)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.new is None:
            self.reconciler.forget(change.key)
        elif has_places(change.new):
            self.reconciler.enqueue(change.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        self._sent.pod_changed(change.key, new)
        has_left = old is not None and not old.has_ended and (new is None or new.has_ended)
        if not has_left and (new is None or not can_be_ungated(new)):
            return
        pod = old if new is None else new
        assert pod is not None, "a change from nothing to nothing"
        for key in pods_key(pod.metadata):
            for workload in self._workloads.by_index(WORKLOADS_OF, key):
                self.reconciler.enqueue_in(workload.metadata.key, BATCH_S)

    async def _reconcile(self, key: Key) -> None:
        workload = self._workloads.get(key)
        if workload is None or not has_places(workload):
            return
        pods_of = pods_key_of(workload.metadata)
        gated = self._pods.by_index(GATED_PODS_OF, pods_of)
        if has_shrunk(workload) and await self._give_up_places(workload, gated):
            return  # the change reconciles it again
        if not gated:
            return
        pods, sent = self._pods.by_index(PODS_OF, pods_of), self._sent.of(gated)
        blocked = self._blocked.get(key, frozenset())
        if len(pods) + stored_values(workload) < LARGE:
            ungatings = find_ungatings(workload, pods, sent, blocked)
        else:
            ungatings = await asyncio.to_thread(find_ungatings, workload, pods, sent, blocked)
        for first in range(0, len(ungatings), CONCURRENT):
            if not self._is_placed_like(workload):
                return  # the change reconciles it again
            await self._send_all(workload, ungatings[first : first + CONCURRENT])

    async def _give_up_places(self, workload: Workload, gated: Sequence[Pod]) -> bool:
        """Take the places of pods that are gone from a workload that has shrunk; return False if none are.

        Pods of two slices cannot be told apart: then nothing is given up before the old one is finished.
        """
        pods_of = pods_key_of(workload.metadata)
        if len(self._workloads.by_index(WORKLOADS_OF, pods_of)) != 1:
            return False
        pods = self._pods.by_index(PODS_OF, pods_of)
        sent = {key: patch.selectors for key, patch in self._sent.of(gated).items()}
        find = partial(shrunk_admission, workload, pods, sent, by_host_prefix=self._by_host_prefix)
        is_large = len(pods) + stored_values(workload) >= LARGE
        admission = await asyncio.to_thread(find) if is_large else find()
        if admission is None:
            return False
        status = replace_fields(workload.status, admission=admission)
        await send(self._context.client, status_patch(WORKLOADS, workload, status))
        self._log.info("places given up", workload=workload.metadata.key)
        return True

    def _is_placed_like(self, workload: Workload) -> bool:
        now = self._workloads.get(workload.metadata.key)
        return (
            now is not None
            and has_places(now)
            and now.status.admission == workload.status.admission
            and now.status.unhealthy_nodes == workload.status.unhealthy_nodes
        )

    async def _send_all(self, workload: Workload, ungatings: Sequence[Ungating]) -> None:
        outcomes = await asyncio.gather(
            *(self._send(ungating) for ungating in ungatings), return_exceptions=True
        )
        ungated = outcomes.count(True)
        if ungated:
            self._log.info("pods ungated", workload=workload.metadata.key, pods=ungated)
            self._record(workload, ungated)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _send(self, ungating: Ungating) -> bool:
        """Return False if the pod cannot be ungated, or only after a change that reconciles it again."""
        self._sent.sending(ungating)
        try:
            await send_for_version(self._context.client, ungating.patch)
        except (errors.Conflict, errors.NotFound):
            self._sent.replaced(ungating)
            return False
        except errors.Invalid as refusal:
            # Such as a node selector of the pod for another domain of the same level.
            self._sent.refused(ungating)
            self._pods.reconcile_failed(ungating.pod.metadata.key, refusal)
            return False
        except errors.RequestFailed as failure:
            if not errors.may_have_succeeded(failure):
                self._sent.refused(ungating)
            raise
        self._sent.replaced(ungating)
        return True

    def _record(self, workload: Workload, count: int) -> None:
        admission, admitted = workload.status.admission, find_condition(workload.status.conditions, ADMITTED)
        assert admission is not None, "pods are ungated after the admission"
        assert admitted is not None, "pods are ungated after the admission"
        labels = {
            "name": TOPOLOGY_GATE,
            "cluster_queue": admission.cluster_queue,
            "is_group": str(IS_GROUP in workload.metadata.annotations).lower(),
        }
        seconds = max(0.0, self._context.clock.now() - transition_time(admitted))
        for _ in range(count):
            self._context.record("kueue_pod_scheduling_gate_removal_seconds", labels, seconds)


Selectors = Mapping[str, str]


def has_shrunk(workload: Workload) -> bool:
    """Return True if the workload was admitted with more pods than its job has now."""
    if workload.metadata.annotations.get(ELASTIC_JOB) != "true" or workload.status.admission is None:
        return False
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return any(
        assignment.topology_assignment is not None
        and assignment.count is not None
        and assignment.count > sizes.get(assignment.name, assignment.count)
        for assignment in workload.status.admission.pod_set_assignments
    )


def shrunk_admission(
    workload: Workload, pods: Sequence[Pod], sent: Mapping[Key, Selectors], *, by_host_prefix: bool
) -> Admission | None:
    """Return the admission with the places of the remaining pods; None if no place can be given up yet.

    ``pods`` are all pods of the workload. ``sent`` has the selectors of the pods that were just ungated, by
    pod.
    """
    admission = workload.status.admission
    if admission is None:
        return None
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    assignments = tuple(
        _shrunk(assignment, sizes[assignment.name], pods, sent, by_host_prefix=by_host_prefix)
        if assignment.name in sizes
        else assignment
        for assignment in admission.pod_set_assignments
    )
    if assignments == admission.pod_set_assignments:
        return None
    return replace_fields(admission, pod_set_assignments=assignments)


def _shrunk(
    assigned: PodSetAssignment,
    size: int,
    pods: Sequence[Pod],
    sent: Mapping[Key, Selectors],
    *,
    by_host_prefix: bool,
) -> PodSetAssignment:
    old = assigned.topology_assignment
    if old is None:
        return assigned
    present: list[tuple[str, ...]] = []
    for pod in pods:
        if pod.has_ended or pod.metadata.labels.get(POD_SET) != assigned.name:
            continue
        selectors = sent.get(pod.metadata.key) if pod.has_gate(TOPOLOGY_GATE) else pod.spec.node_selector
        if selectors is not None:
            present.append(tuple(selectors.get(level, "") for level in old.levels))
    domains = shrunk_domains(tuple(old.domains()), size, present)
    if domains is None:
        return assigned
    new = topology_assignment(old.levels, domains, by_host_prefix=by_host_prefix)
    return replace_fields(assigned, topology_assignment=new)
