"""The reasons for which pods of an admitted workload wait, with numbers.

The numbers of pods without a node come from the placement core if the model has the nodes, otherwise from the
scheduler's message.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from quorate.api.core.started_pod import FailedCreation, StartedPod, Waiting
from quorate.api.explanation import ExplainedState, Explanation, ObjectName, PodCounts, Reason
from quorate.api.kueue import GROUP, Workload
from quorate.api.meta import Key, ObjectMeta, Uid, find_condition, true_condition
from quorate.api.names.kueue import POD_SET, WORKLOAD_ANNOTATION
from quorate.api.names.volcano import GROUP_NAME
from quorate.queueing.conditions import ADMITTED
from quorate.queueing.explanation.reasons import code_of, nodes_with_room, selector_text
from quorate.queueing.inadmissible_reasons import NodesLackRoom
from quorate.queueing.limits import MAX_CONTAINER_MESSAGE
from quorate.queueing.nodes.pod_templates import Template
from quorate.queueing.pending.effective_requests import held_counts
from quorate.queueing.state import State
from quorate.queueing.topology.placing import PodSetToPlace, lack_of_room
from quorate.queueing.typed_reasons import reason_of
from quorate.quota.amount import PODS

_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"


class _Wait(NamedTuple):
    """Why one pod does not run."""

    code: str
    text: str  # after the number of pods
    enough: str
    needs_change: bool = False


_STARTING: Final = {"", "ContainerCreating", "PodInitializing"}  # why containers wait before they start
_NOT_CREATED = _Wait("PodsNotCreated", "not created yet", "the controller of the job must create its pods")
_FAILED = _Wait("PodsFailed", "failed", "the controller of the job must replace them; look at their logs")
_ENDED = ("Succeeded", "Failed")
_UNSCHEDULABLE: Final = "PodsUnschedulable"
_GATED: Final = "PodsGated"
_ADMITTED_STATES: Final = ("Admitted", "Running", "RunningInPart", "Stuck", "Finished")
_INVALID: Final = " is invalid: "  # in a message of the API server: the same pod is refused for ever


def failed_creation(metadata: ObjectMeta, failures: Mapping[Uid, FailedCreation]) -> FailedCreation | None:
    """Return the last one of the owners of a workload or of a pod group; ``failures``: by owner."""
    return next((failures[owner.uid] for owner in metadata.owner_references if owner.uid in failures), None)


class PodsFound(msgspec.Struct, frozen=True):
    """The pods of an admitted workload: how many run, and why the others do not."""

    counts: PodCounts
    reasons: tuple[Reason, ...] = ()

    @property
    def all_run(self) -> bool:
        return not self.reasons

    @property
    def text(self) -> str:
        """Return a clause such as ``2 of 3 pods run: 1 not created yet``."""
        waits = "; ".join(f"{reason.needed} {reason.text}" for reason in self.reasons if not reason.pod_set)
        return f"{self.counts.running} of {self.counts.admitted} pods run{f': {waits}' if waits else ''}"


def pods_found(
    state: State, workload: Workload, pods: Iterable[StartedPod], failure: FailedCreation | None = None
) -> PodsFound:
    """Return the findings about the pods of an admitted workload; ``pods`` may contain other pods, too.

    ``failure``: the last failed creation of its job, which may be older than the pods.

    A pod that succeeded counts as running as long as its job needs no replacement: some jobs report such pods
    as reclaimable, others do not.  A failed pod counts only if nothing replaced it.
    """
    created = [pod for pod in pods if is_pod_of(pod, workload)]
    own = [pod for pod in created if pod.metadata.deletion_timestamp is None]
    expected = expected_pods(workload)
    waiting = [pod for pod in own if _is_waiting(pod)]
    running = sum(map(_is_running, own))
    reclaimed = sum(reclaimable.count for reclaimable in workload.status.reclaimable_pods)
    ended = max(0, sum(pod.status.phase == "Succeeded" for pod in own) - reclaimed)
    counts = PodCounts(
        requested=sum(pod_set.count for pod_set in workload.spec.pod_sets),
        admitted=expected,
        created=len(own),
        running=min(expected, running + min(ended, max(0, expected - running - len(waiting)))),
    )
    missing = max(0, expected - running - ended - len(waiting))
    failed = min(missing, sum(pod.status.phase == "Failed" for pod in own))  # others were replaced
    reasons = _waits(waiting)
    if failed:
        reasons.append(_reason(_FAILED, failed, None))
    if missing > failed:
        admitted = true_condition(workload.status.conditions, ADMITTED)
        since = admitted.last_transition_time if admitted is not None else None
        reasons.append(_not_created(missing - failed, _if_last(failure, since, created)))
    without_node = [pod for pod in waiting if not pod.spec.node_name and not pod.spec.scheduling_gates]
    return PodsFound(counts, (*reasons, *_placement(state, workload, without_node)))


def _waits(pods: Iterable[StartedPod], *, quotes_scheduler: bool = True) -> list[Reason]:
    """Return why pods do not run, one reason for each cause, with the number of pods."""
    by_wait: defaultdict[_Wait, list[StartedPod]] = defaultdict(list)
    for pod in pods:
        by_wait[_wait_of(pod, quotes_scheduler=quotes_scheduler)].append(pod)
    return [_reason_of_pods(wait, waiting) for wait, waiting in sorted(by_wait.items())]


def _if_last(
    failure: FailedCreation | None, since: datetime | None, pods: Iterable[StartedPod]
) -> FailedCreation | None:
    """Return ``failure`` if no pod was created later, and it is not older than ``since``; else None.

    Most failures have times of whole seconds.
    """
    if failure is None or failure.at is None:
        return failure
    moments = (since, *(pod.metadata.creation_timestamp for pod in pods))
    at = failure.at
    is_last = all(at >= moment.replace(microsecond=0) for moment in moments if moment is not None)
    return failure if is_last else None


def _not_created(count: int, failure: FailedCreation | None) -> Reason:
    """Return the reason of pods that do not exist: what the API server answered last, if it refused one."""
    if failure is None:
        return _reason(_NOT_CREATED, count, None)
    message = failure.message[:MAX_CONTAINER_MESSAGE]
    wait = _Wait(
        _NOT_CREATED.code, f"not created: {message}", "the API server must accept them: change what it names",
        needs_change=_INVALID in message,
    )  # fmt: skip
    return _reason(wait, count, failure.at)


def with_members(
    of_group: Explanation, pods: Iterable[StartedPod], failure: FailedCreation | None = None
) -> Explanation:
    """Return the explanation of a pod group with what its pods wait for; ``pods`` may contain others.

    The numbers in the conditions of the pods may be older than the numbers of the group, so they are left
    out: pods without a node need what the group needs.  ``failure``: the last failed creation of its job.
    """
    key = Key(of_group.object.namespace, of_group.object.name)
    created = [pod for pod in pods if Key(pod.metadata.namespace, pod.pod_group) == key]
    members = [pod for pod in created if pod.metadata.deletion_timestamp is None]
    waits = _waits(filter(_is_waiting, members), quotes_scheduler=not of_group.reasons)
    if of_group.reasons:
        waits = [replace(reason, enough="") if reason.code == _UNSCHEDULABLE else reason for reason in waits]
    running = sum(map(_is_running, members))
    counts = replace(of_group.pods or PodCounts(), created=len(members), running=running)
    failure = _if_last(failure, of_group.since, created)
    if failure is not None and (missing := counts.admitted - len(members)) > 0:
        waits.append(_not_created(missing, failure))
    state, message = of_group.state, of_group.message
    if waits:
        message = f"{message}; {', '.join(f'{reason.needed} {reason.text}' for reason in waits)}"
        state = ("RunningInPart" if running else "Admitted") if state == "Running" else state
    enough = tuple(dict.fromkeys((*of_group.enough, *(reason.enough for reason in waits if reason.enough))))
    reasons = (*of_group.reasons, *waits)
    if state not in ("Finished", "NeverFits") and any(wait.needs_change for wait in waits):
        state = "Stuck"
    return replace(
        of_group, state=state, message=message, pods=counts, reasons=reasons, enough=enough,
        code=code_of(reasons),
    )  # fmt: skip


def explain_pod_without_group(pod: StartedPod) -> Explanation:
    """Return the explanation of a pod that names a pod group which does not exist, or may not be read."""
    metadata, phase = pod.metadata, pod.status.phase
    name = ObjectName(kind="Pod", name=metadata.name, namespace=metadata.namespace)
    text = f"its pod group {pod.pod_group} does not exist, or may not be read"
    if not _is_waiting(pod):
        state: ExplainedState = "Running" if phase == "Running" else "Finished"
        return Explanation(object=name, state=state, message=f"its phase is {phase}; {text}")
    wait = _wait_of(pod)
    reason = replace(_reason_of_pods(wait, [pod]), object=name)
    if not pod.spec.node_name:
        remedy = "" if pod.spec.scheduling_group is not None else f", or remove the annotation {GROUP_NAME}"
        reason = Reason(code="PodGroupNotFound", text=text, enough=f"create the pod group{remedy}")
    return Explanation(
        object=name, state="Admitted" if pod.spec.node_name else "Held", message=f"it is {wait.text}; {text}",
        since=metadata.creation_timestamp, code=reason.code, reasons=(reason,), enough=(reason.enough,),
    )  # fmt: skip


def explain_pod(pod: StartedPod, of_workload: Explanation) -> Explanation:
    """Return the explanation of one pod of a workload: its own wait first, then that of its workload."""
    metadata, phase = pod.metadata, pod.status.phase
    name = ObjectName(kind="Pod", name=metadata.name, namespace=metadata.namespace)
    about = replace(of_workload, object=name, pods=None, code="")
    if not _is_waiting(pod):
        state: ExplainedState = "Running" if phase == "Running" else "Finished"
        return replace(about, state=state, message=f"its phase is {phase}", reasons=(), enough=())
    wait = _wait_of(pod)
    reason = replace(_reason_of_pods(wait, [pod]), object=name)
    message = f"it is {wait.text}; its workload {of_workload.object.name}: {of_workload.message}"
    state = of_workload.state
    if state in ("Running", "RunningInPart", "Stuck"):
        is_stuck = wait.needs_change or (state == "Stuck" and wait.code == _UNSCHEDULABLE)
        state = "Stuck" if is_stuck else "Admitted"
    enough = tuple(dict.fromkeys((wait.enough, *of_workload.enough)))
    if state not in _ADMITTED_STATES and _has_own_gates_only(pod):
        reason, enough = replace(reason, enough=""), of_workload.enough  # the admission removes them
    reasons = (reason, *(own_reason for own_reason in of_workload.reasons if own_reason.code != reason.code))
    code = code_of(reasons)
    return replace(about, state=state, message=message, code=code, reasons=reasons, enough=enough)


def _has_own_gates_only(pod: StartedPod) -> bool:
    gates = pod.spec.scheduling_gates
    return bool(gates) and all(gate.name.startswith(f"{GROUP}/") for gate in gates)


def expected_pods(workload: Workload) -> int:
    """Return the number of pods that the workload should have now, without reclaimable pods."""
    return sum(held_counts(workload).values())


def is_pod_of(pod: StartedPod, workload: Workload) -> bool:
    """Return True for a pod of the workload: by annotation, or by the job, which may be the pod itself.

    A pod of an elastic job may have the annotation of an earlier slice.
    """
    metadata = pod.metadata
    if metadata.namespace != workload.metadata.namespace:
        return False
    if metadata.annotations.get(WORKLOAD_ANNOTATION) == workload.metadata.name:
        return True
    uids = _owner_uids(pod)
    return any(owner.uid in uids for owner in workload.metadata.owner_references)


def _owner_uids(pod: StartedPod) -> set[Uid]:
    """Return the owners that the workload of the pod may have: the pod itself, and its controller."""
    job = pod.metadata.controller
    return {pod.metadata.uid} if job is None else {pod.metadata.uid, job.uid}


class PodIndex:
    """Pods of one namespace, by the name in their workload annotation and by the uids of possible owners.

    It finds the pods of many workloads without a pass over all pods for each workload.
    """

    def __init__(self, pods: Iterable[StartedPod]) -> None:
        self._by_annotation: defaultdict[str, list[StartedPod]] = defaultdict(list)
        self._by_owner: defaultdict[Uid, list[StartedPod]] = defaultdict(list)
        for pod in pods:
            self._by_annotation[pod.metadata.annotations.get(WORKLOAD_ANNOTATION, "")].append(pod)
            for uid in _owner_uids(pod):
                self._by_owner[uid].append(pod)

    def of(self, workload: Workload) -> list[StartedPod]:
        """Return the pods for which ``is_pod_of`` is true, and perhaps others, in no order."""
        named = self._by_annotation.get(workload.metadata.name, ())
        owners = workload.metadata.owner_references
        pods = [*named, *(pod for owner in owners for pod in self._by_owner.get(owner.uid, ()))]
        return list({pod.metadata.name: pod for pod in pods}.values())


def selector_of(workload: Workload) -> str:
    """Return the label selector with which to list the pods of an admitted workload.

    The fewer pods of other jobs it selects, the less a question costs in a large namespace.
    """
    owners = workload.metadata.owner_references
    for owner in owners:
        if (owner.api_version, owner.kind) == ("batch/v1", "Job"):
            return f"{_CONTROLLER_UID}={owner.uid}"
    return "" if any(owner.kind == "Pod" for owner in owners) else POD_SET


def wait_text(pod: StartedPod) -> str:
    """Return why a pod does not run; empty if it does, or has ended."""
    return _wait_of(pod).text if _is_waiting(pod) else ""


def has_ended(pod: StartedPod) -> bool:
    """Return True for a pod that failed or is being deleted: another one must take its place."""
    return pod.status.phase == "Failed" or pod.metadata.deletion_timestamp is not None


def _is_running(pod: StartedPod) -> bool:
    return pod.status.phase == "Running" and not _is_waiting(pod)


def _is_waiting(pod: StartedPod) -> bool:
    """Return True if the pod has not ended and has not started, or a container waits, as after a crash."""
    phase = pod.status.phase
    return phase not in _ENDED and (phase != "Running" or bool(_waiting_containers(pod)))


def _wait_of(pod: StartedPod, *, quotes_scheduler: bool = True) -> _Wait:
    if pod.spec.scheduling_gates:
        gates = sorted(gate.name for gate in pod.spec.scheduling_gates)
        what, enough = "the gate", "the controller of the gate must remove it"
        if len(gates) > 1:
            what, enough = "the gates", "the controllers of the gates must remove them"
        return _Wait(_GATED, f"with {what} {', '.join(gates)}", enough)
    if not pod.spec.node_name:
        scheduled = find_condition(pod.status.conditions, "PodScheduled")
        # The scheduler has not looked at a pod since its gates were removed: the message is of before.
        is_current = scheduled is not None and scheduled.reason != "SchedulingGated"
        message = scheduled.message if scheduled is not None and is_current and quotes_scheduler else ""
        detail = f" ({message})" if message else ""
        return _Wait(_UNSCHEDULABLE, f"without a node{detail}", "a node must have room for the pod")
    errors = sorted({waiting.reason for waiting in _waiting_containers(pod)})
    if not errors:
        return _Wait("PodsStarting", "starting on a node", "its containers must start")
    enough = "its containers must start: change what keeps them from it"
    if any("Image" in reason for reason in errors):
        enough = "its images must be pulled: check their names and the pull secrets"
    what = "restarting" if pod.status.phase == "Running" else "starting on a node"
    return _Wait("ContainersWaiting", f"{what} ({', '.join(errors)})", enough, needs_change=True)


def _since(pods: Sequence[StartedPod]) -> datetime | None:
    """Return since when the longest of the waits lasts: the last change of the condition, or the creation."""
    moments = []
    for pod in pods:
        scheduled = find_condition(pod.status.conditions, "PodScheduled")
        changed = scheduled.last_transition_time if scheduled is not None else None
        moments.append(changed or pod.metadata.creation_timestamp)
    return min((moment for moment in moments if moment is not None), default=None)


def _reason_of_pods(wait: _Wait, pods: Sequence[StartedPod]) -> Reason:
    """Return the reason with the first pod and the message of its containers, if these must be changed."""
    reason = _reason(wait, len(pods), _since(pods))
    if not wait.needs_change:
        return reason
    first = min(pods, key=lambda pod: pod.metadata.name)
    name = first.metadata.name
    messages = [waiting.message for waiting in _waiting_containers(first) if waiting.message]
    text = f"{wait.text}, pod {name}: {messages[0][:MAX_CONTAINER_MESSAGE]}" if messages else wait.text
    return replace(
        reason, text=text, object=ObjectName(kind="Pod", name=name, namespace=first.metadata.namespace)
    )


def _waiting_containers(pod: StartedPod) -> list[Waiting]:
    """Return the states of the containers that wait for another reason than their start."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waiting = (status.state.waiting for status in statuses)
    return [state for state in waiting if state is not None and state.reason not in _STARTING]


def _reason(wait: _Wait, count: int, since: datetime | None) -> Reason:
    return Reason(
        code=wait.code, text=wait.text, resource=PODS, needed=str(count), since=since, enough=wait.enough,
        needs_change=wait.needs_change,
    )  # fmt: skip


def _placement(state: State, workload: Workload, pods: Sequence[StartedPod]) -> Iterator[Reason]:
    """Yield what nodes lack for pods without one, where the model has the nodes."""
    topology, admission = state.ledger.topology, workload.status.admission
    if admission is None or not pods or not (topology.has_nodes and topology.nodes):
        return
    shape = state.ledger.shapes.shape_of(workload)
    flavors = {
        assignment.name: frozenset(assignment.flavors.values())
        for assignment in admission.pod_set_assignments
    }
    expected = held_counts(workload)
    for pod_set, pod_set_shape in zip(workload.spec.pod_sets, shape.pod_sets, strict=True):
        waiting = [pod for pod in pods if pod.metadata.labels.get(POD_SET, pod_set.name) == pod_set.name]
        names = flavors.get(pod_set.name, frozenset())
        if not waiting or not names or pod_set_shape.topology.is_explicit:
            continue
        template = Template(workload.metadata.namespace, pod_set.template)
        to_place = PodSetToPlace(pod_set_shape, len(waiting), names, on_hosts=True, template=template)
        if (lack := lack_of_room(topology, to_place)) is not None:
            selector = selector_text(pod_set_shape)
            yield _lack_reason(lack, expected.get(pod_set.name, len(waiting)), selector)


def _lack_reason(lack: NodesLackRoom, pods: int, selector: str) -> Reason:
    """Return what nodes lack for some of the ``pods`` that the pod set should have."""
    never = replace(lack, requested=pods).never_fits
    base = replace(reason_of(lack), object=ObjectName(kind="PodSet", name=lack.pod_set), needs_change=never)
    if not lack.resource:
        return replace(
            base, enough=f"a node that accepts the pods of {lack.pod_set}{selector} must have room for them"
        )
    if lack.needed > lack.at_most:
        text = f"{base.text}, so that no node of the cluster can ever hold it"
        enough = f"{nodes_with_room(lack, lack.requested - lack.fitting)} would do"
        return replace(base, text=text, enough=enough)
    if never and lack.fitting_at_most is not None:
        text = f"{base.text}; {lack.fitting_at_most} of {pods} pods can ever have a node"
        enough = f"{nodes_with_room(lack, pods - lack.fitting_at_most)} would do"
        return replace(base, text=text, enough=enough)
    return replace(base, enough=f"{base.short_by} more {lack.resource} must become free on one node")
