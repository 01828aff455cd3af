"""An index of all workloads by the fields that lists select and counts sum up, updated at each change.

A workload belongs to one *group*: its local queue, the cluster queue of its reservation, its state, and the
code of the reason for which it waits.  A list looks at the groups that match, a count at their sizes; neither
looks at workloads that do not count.  State and reason are those of the summary that the feed has read of the
workload.  Without a summary, or if the workload is in another state since, they are those of the explanation
of the stored workload.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple, TypeGuard

from quorate.api.configuration import default_configuration
from quorate.api.explanation import TAKES_TURNS, ExplainedState, ExplanationSummary, summary_of
from quorate.api.kueue import Workload
from quorate.api.meta import Key, ObjectMeta, OwnerReference, at_epoch, epoch
from quorate.kube.informer import Change
from quorate.queueing import conditions as c
from quorate.queueing.explanation.workload import explain_workload
from quorate.queueing.state import State

WITHOUT_QUOTA: Final = frozenset[ExplainedState]({*TAKES_TURNS, "NeverFits", "Held"})
ADMITTED_STATES: Final = frozenset[ExplainedState]({"Admitted", "RunningInPart", "Running", "Stuck"})
_NO_OBJECTS: Final = State(default_configuration())


class Group(NamedTuple):
    local_queue: Key
    reserved_in: str  # the cluster queue of its reservation; empty: it has none
    state: ExplainedState
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

    def __init__(self, workload: Workload, served: ExplanationSummary | None = None) -> None:
        metadata, admission = workload.metadata, workload.status.admission
        self.workload = workload
        self.key = metadata.key
        reserves = admission is not None and c.has_quota_reservation(workload)
        reserved_in = admission.cluster_queue if admission is not None and reserves else ""
        summary = _summary_of(workload, served, reserves=reserves)
        self.state = summary.state
        self.since = summary.since or metadata.creation_timestamp or at_epoch(0)
        self.code, self.message = summary.code, summary.message if summary.code else ""
        # Numbers and texts, because lists of all workloads are sorted by them.
        self.created_s = 0.0 if metadata.creation_timestamp is None else epoch(metadata.creation_timestamp)
        self.order = f"{metadata.namespace}\0{metadata.name}"
        local_queue = Key(metadata.namespace, workload.spec.queue_name)
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

    def on_change(self, change: Change[Workload]) -> None:
        """Follow the informer of workloads."""
        if change.new is None:
            self._remove(change.key)
        else:
            self.put(change.new)

    def put(self, workload: Workload) -> None:
        key = workload.metadata.key
        listed = Listed(workload, self._summaries.get(key))
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

    def summary_of(self, workload: Workload) -> ExplanationSummary | None:
        """Return the latest summary of this version of a workload; None without one."""
        summary = self._summaries.get(workload.metadata.key)
        return summary if is_of_version(summary, workload.metadata) else None

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

    def matching(self, matches: Callable[[Group], bool]) -> Iterator[tuple[Group, dict[Key, Listed]]]:
        return ((group, members) for group, members in self.groups.items() if matches(group))


def _summary_of(
    workload: Workload, served: ExplanationSummary | None, *, reserves: bool
) -> ExplanationSummary:
    """Return the summary that the controllers serve of a workload, else that of the stored workload.

    The served one may be of an earlier version as long as the workload neither got nor lost its quota since.
    """
    metadata = workload.metadata
    if is_of_version(served, metadata):
        return served
    if served is not None and served.metadata.uid != metadata.uid:
        served = None
    stored = summary_of(explain_workload(_NO_OBJECTS, workload, None), metadata)
    possible = ADMITTED_STATES if stored.state == "Admitted" else frozenset[ExplainedState]()
    if stored.state in WITHOUT_QUOTA and not reserves:
        possible = WITHOUT_QUOTA
    return served if served is not None and served.state in possible else stored


def is_of_version(summary: ExplanationSummary | None, metadata: ObjectMeta) -> TypeGuard[ExplanationSummary]:
    """Return True if ``summary`` is of this version of the object."""
    return summary is not None and (summary.metadata.uid, summary.metadata.resource_version) == (
        metadata.uid, metadata.resource_version,
    )  # fmt: skip


def owner_of(workload: Workload) -> OwnerReference | None:
    """Return the job of a workload; None: it has none."""
    owners = workload.metadata.owner_references
    return workload.metadata.job_owner or (owners[0] if owners else None)


def searched_text(metadata: ObjectMeta) -> str:
    """Return what a search without a field looks at, in lower case, one line for each part."""
    labels = [f"{key}={value}" for key, value in metadata.labels.items()]
    return "\n".join(
        (str(metadata.key), *(owner.name for owner in metadata.owner_references), *labels)
    ).lower()
