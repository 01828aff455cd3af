"""An index of all workloads by the fields that lists select and counts sum up, updated at each change.

A workload belongs to one *group*: its local queue, the cluster queue of its reservation, its state, and the
code of the reason for which it waits.  A list looks at the groups that match, a count at their sizes; neither
looks at workloads that do not count.  State and reason come from the summaries that the controllers serve.
Without a summary, or if the workload has changed since, they come from its own status: the dashboard
evaluates nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from quorate.api.explanation import ExplanationSummary
from quorate.api.kueue import Workload
from quorate.api.meta import (
    Key,
    ObjectMeta,
    OwnerReference,
    at_epoch,
    epoch,
    find_condition,
    is_true,
    true_condition,
)
from quorate.dashboard.schema import WorkloadState
from quorate.inspect.workload_status import why_not_running
from quorate.kube.informer import Change
from quorate.queueing import conditions as c
from quorate.queueing.explanation.pods import expected_pods

NOT_EVALUATED: Final = "not evaluated yet"
WAITING_STATES: Final = frozenset({"Pending", "Evicted"})  # without quota, in the queue
WITHOUT_QUOTA: Final = frozenset({*WAITING_STATES, "NeverFits", "Held"})
ADMITTED_STATES: Final = frozenset({"Admitted", "Running", "Stuck"})
# By state in the status of a workload: what its summary may say instead.
_STATES: Final[Mapping[WorkloadState, Mapping[str, WorkloadState]]] = {
    "Pending": {"NeverFits": "NeverFits", "Held": "Held"},
    "Evicted": {"NeverFits": "NeverFits", "Held": "Held"},
    "Admitted": {"Stuck": "Stuck", "Running": "Running"},
}
_OF_PODS: Final = ("Admitted", "RunningInPart", "Stuck")  # with reasons that no status has


class Group(NamedTuple):
    local_queue: Key
    reserved_in: str  # the cluster queue of its reservation; empty: it has none
    state: WorkloadState
    code: str  # of the reason; empty: it does not wait


class Listed:
    """A workload with what lists show and sort by."""

    __slots__ = (
        "code",
        "created_s",
        "group",
        "key",
        "message",
        "order",
        "since",
        "state",
        "text",
        "workload",
    )

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels of the workload."""
        return self.workload.metadata.labels

    def __init__(
        self, workload: Workload, running_pods: int, summary: ExplanationSummary | None = None
    ) -> None:
        metadata, admission = workload.metadata, workload.status.admission
        self.workload = workload
        self.key = metadata.key
        self.state: WorkloadState
        stored, self.since = _state_of(workload, running_pods)
        self.state, self.code, self.message = stored, *_reason_of(workload)
        if summary is not None and summary.metadata.uid == metadata.uid:
            is_current = summary.metadata.resource_version == metadata.resource_version
            self.state = _STATES.get(stored, {}).get(summary.state, stored)
            if is_current and stored in ADMITTED_STATES and summary.state == "Stuck":
                self.state = "Stuck"  # its pods run in phases, and not their containers
            is_of_pods = stored == "Admitted" and summary.state in _OF_PODS
            if is_of_pods or is_current:
                self.code, self.message = summary.code, summary.message if summary.code else ""
        # Numbers and texts, because lists of all workloads are sorted by them.
        self.created_s = 0.0 if metadata.creation_timestamp is None else epoch(metadata.creation_timestamp)
        self.order = f"{metadata.namespace}\0{metadata.name}"
        local_queue = Key(metadata.namespace, workload.spec.queue_name)
        reserves = admission is not None and c.has_quota_reservation(workload)
        reserved_in = admission.cluster_queue if admission is not None and reserves else ""
        self.group = Group(local_queue, reserved_in, self.state, self.code)
        self.text = searched_text(metadata)

    @property
    def created(self) -> datetime:
        return at_epoch(self.created_s)


class WorkloadIndex:
    """All workloads, grouped by queue, state and reason."""

    def __init__(self) -> None:
        self.revision = 0  # incremented by every change
        self.revisions: Counter[Key] = Counter()  # the changes of the workloads of each local queue
        self.by_key: dict[Key, Listed] = {}
        self.groups: dict[Group, dict[Key, Listed]] = {}  # no group is empty
        self._by_uid: dict[str, Key] = {}
        self._summaries: Mapping[Key, ExplanationSummary] = {}
        self.pods = RunningPods(self._pods_changed)

    def on_change(self, change: Change[Workload]) -> None:
        """Follow the informer of workloads."""
        if change.new is None:
            self._remove(change.key)
        else:
            self.put(change.new)

    def get(self, key: Key) -> Listed | None:
        return self.by_key.get(key)

    def put(self, workload: Workload) -> None:
        key = workload.metadata.key
        listed = Listed(workload, self.pods.of(key), self._summaries.get(key))
        self._remove(listed.key)
        self.by_key[listed.key] = listed
        self._by_uid[workload.metadata.uid] = listed.key
        self.revisions[listed.group.local_queue] += 1
        self.groups.setdefault(listed.group, {})[listed.key] = listed

    def _remove(self, key: Key) -> None:
        self.revision += 1
        old = self.by_key.pop(key, None)
        if old is not None:
            self._by_uid.pop(old.workload.metadata.uid, None)
            self.revisions[old.group.local_queue] += 1
            members = self.groups[old.group]
            del members[key]
            if not members:
                del self.groups[old.group]

    def set_summaries(self, summaries: Mapping[Key, ExplanationSummary]) -> list[Key]:
        """Use ``summaries`` from now on; return the workloads with another summary than before."""
        before, self._summaries = self._summaries, summaries
        return [key for key in self.by_key if before.get(key) != summaries.get(key)]

    def refresh(self, key: Key) -> bool:
        """Show a workload with its latest summary; return True if it looks different."""
        old = self.by_key.get(key)
        if old is None:
            return False
        self.put(old.workload)
        new = self.by_key[key]
        return (old.state, old.code, old.message) != (new.state, new.code, new.message)

    def key_of_uid(self, uid: str) -> Key | None:
        """Return the workload with a uid; None if it does not exist."""
        return self._by_uid.get(uid)

    def _pods_changed(self, key: Key) -> None:
        old = self.by_key.get(key)
        if old is not None and old.state in ADMITTED_STATES:
            self.put(old.workload)

    def matching(self, matches: Callable[[Group], bool]) -> Iterator[tuple[Group, dict[Key, Listed]]]:
        return ((group, members) for group, members in self.groups.items() if matches(group))


class RunningPods:
    """How many pods of each workload run, by the annotation with which its controllers mark them."""

    def __init__(self, changed: Callable[[Key], object]) -> None:
        self._changed = changed  # called with a workload of which another number of pods runs
        self._of: dict[Key, int] = {}  # no zeros
        self._workload_of: dict[Key, Key] = {}  # by running pod

    def of(self, workload: Key) -> int:
        return self._of.get(workload, 0)

    def put(self, pod: Key, workload: Key | None) -> None:
        """Set the workload of which ``pod`` is a running pod; None: it does not run."""
        old = self._workload_of.get(pod)
        if old == workload:
            return
        if old is not None:
            del self._workload_of[pod]
            self._add(old, -1)
        if workload is not None:
            self._workload_of[pod] = workload
            self._add(workload, 1)

    def _add(self, workload: Key, more: int) -> None:
        number = self._of.get(workload, 0) + more
        if number:
            self._of[workload] = number
        else:
            del self._of[workload]
        self._changed(workload)


def owner_of(workload: Workload) -> OwnerReference | None:
    """Return the job of a workload; None: it has none."""
    owners = workload.metadata.owner_references
    return workload.metadata.controller or (owners[0] if owners else None)


def _state_of(workload: Workload, running_pods: int) -> tuple[WorkloadState, datetime]:
    """Return the state and when it began."""
    conditions = workload.status.conditions

    def since(type_: str) -> datetime:
        condition = find_condition(conditions, type_)
        if condition is None or condition.last_transition_time is None:
            return workload.metadata.creation_timestamp or at_epoch(0)
        return condition.last_transition_time

    if c.is_finished(workload):
        return "Finished", since(c.FINISHED)
    if not workload.spec.active:
        return "Inactive", since(c.EVICTED)
    if c.is_evicted(workload):
        return "Evicted", since(c.EVICTED)
    if c.is_admitted(workload):
        if is_true(conditions, c.PODS_READY):
            return "Running", since(c.PODS_READY)
        expected = expected_pods(workload)
        state: WorkloadState = "Running" if 0 < expected <= running_pods else "Admitted"
        return state, since(c.ADMITTED)
    if c.has_quota_reservation(workload):
        return "QuotaReserved", since(c.QUOTA_RESERVED)
    return "Pending", at_epoch(c.queued_since(workload))


def _reason_of(workload: Workload) -> tuple[str, str]:
    """Return why the workload does not run, or that its pods use more than its quota: a code, and a sentence.

    Both are empty if it runs within its quota.
    """
    text = why_not_running(workload)
    conditions = workload.status.conditions
    outside = true_condition(conditions, c.OUTSIDE_QUOTA)
    if outside is not None:
        return outside.reason, outside.message
    if c.is_finished(workload) or (c.is_admitted(workload) and not c.is_evicted(workload)):
        return "", ""
    if not workload.spec.active:
        evicted = find_condition(conditions, c.EVICTED)
        return (evicted.reason if evicted is not None and evicted.reason else c.DEACTIVATED), text
    waiting = true_condition(conditions, c.WAITING)
    if waiting is not None:
        return waiting.reason, waiting.message
    evicted = true_condition(conditions, c.EVICTED)
    if evicted is not None:
        return evicted.reason or c.EVICTED, evicted.message
    if c.has_quota_reservation(workload):
        awaits_checks = any(check.state != "Ready" for check in workload.status.admission_checks)
        return (c.ADMISSION_CHECK if awaits_checks else c.PENDING_TOPOLOGY) if text else "", text
    reserved = find_condition(conditions, c.QUOTA_RESERVED)
    if reserved is None or not text:
        return c.PENDING_EVALUATION, NOT_EVALUATED
    return reserved.reason or c.PENDING_EVALUATION, text


def searched_text(metadata: ObjectMeta) -> str:
    """Return what a search without a field looks at, in lower case, one line for each part."""
    labels = [f"{key}={value}" for key, value in metadata.labels.items()]
    return "\n".join(
        (str(metadata.key), *(owner.name for owner in metadata.owner_references), *labels)
    ).lower()
