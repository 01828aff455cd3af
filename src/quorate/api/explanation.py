"""The explanation of one object: its true state, the reasons for it, and what would be enough.

The API group is our own.  Kueue owns ``visibility.kueue.x-k8s.io``: a resource of ours could collide there
with one of a later version, and Kueue's own server may serve that group beside Quorate.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Key, ObjectMeta, Struct, always_encoded
from quorate.api.native_groups import GROUP as NATIVE_GROUP

GROUP: Final = "visibility.quorate.dev"
VERSION: Final = "v1beta1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
SUBRESOURCE: Final = "explanation"
MAX_AHEAD: Final = (
    20  # workloads of a question: the right to each of their namespaces is asked of the API server
)
# Resources that can be listed.
ESTIMATES: Final = "estimates"
EXPLANATIONS: Final = "explanations"
NATIVE_POD_GROUP: Final = f"PodGroup.{NATIVE_GROUP}"  # the kind of Kubernetes' own groups in such a list
NO_WORKLOAD: Final = "NoWorkload"  # the code of a job that may be queued
FEWEST_RUNS: Final = 3  # simulated, of an estimate with quantiles

ExplainedState = Literal[
    "NotQueued",  # a job without a Workload
    "Queued",  # it waits for quota or for nodes
    "NeverFits",  # it waits, and starts only after a change of its spec, of the configuration or of the nodes
    "Held",  # something keeps it out of the queue, or from starting with the quota it has
    "Stuck",  # it has quota, and not all of its pods can run before something is changed
    "Admitted",  # it has quota, and none of its pods is known to run
    "RunningInPart",
    "Running",
    "Evicted",
    "Deactivated",
    "Finished",
    "Active",  # of queues
    "Inactive",
]


# States of workloads that wait for their turn: only these have a position and an estimated start in lists.
TAKES_TURNS: Final[frozenset[ExplainedState]] = frozenset({"Queued", "Evicted"})
# Instead of the time at which a workload in one of these states starts.
NO_START: Final[Mapping[str, str]] = {"NeverFits": "never", "Held": "held"}


class ObjectName(Struct):
    """An object; ``name`` is empty if the caller may not read the object."""

    kind: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        name = str(Key(self.namespace, self.name)) if self.name else "that you may not read"
        return f"{self.kind} {name}"


class Holder(Struct):
    """A workload or pod group that uses an amount of which the explained one has too little.

    Names are empty if the caller may not read them.
    """

    workload: str = ""
    cluster_queue: str = ""
    pod_group: str = ""
    amount: str = ""
    evicted: bool = False  # it is about to release it


class NodeFilter(Struct):
    """Nodes that a filter of the scheduler rejects, in kube-scheduler's words."""

    reason: str
    nodes: int


class PodsOnNodes(Struct):
    """Pods that need nodes at once, and why no node takes a further one."""

    requested: int = 0
    fitting: int = 0  # of these
    nodes: int = 0  # that were evaluated
    rejected: tuple[NodeFilter, ...] = ()  # a node may be rejected by several filters


class Reason(Struct):
    """One reason; amounts are quantities, and fields that do not apply are empty."""

    code: str
    text: str
    object: ObjectName | None = None  # that causes it, or that has to change
    pod_set: str = ""
    flavor: str = ""
    resource: str = ""
    needed: str = ""
    free: str = ""
    short_by: str = ""
    at_most: str = ""  # with everything else gone
    since: datetime | None = None
    evaluated_at: datetime | None = None  # when the numbers were computed; absent: they are those of now
    enough: str = ""  # what would remove this reason
    needs_change: bool = False  # neither time nor the end of other workloads removes it
    starts_at: datetime | None = None  # of the window of a Reservation
    until: datetime | None = None  # when it ends at the latest
    on_nodes: PodsOnNodes | None = None  # None: it is not about single nodes
    held_by: tuple[Holder, ...] = ()


ChangeAction = Literal[
    "FreeQuota",  # workloads of the queue or of its cohorts must release the amount
    "RaiseQuota",  # nominalQuota of a cluster queue, capability of a queue, or hard of a quota, by amount
    "CoverResource",  # in the first resource group, with the amount as nominalQuota of each flavor
    "CreateFlavor",
    "AddToleration",
    "SelectFlavor",  # its labels as node selector of the pod set, and no other required node affinity
    "LowerRequests",  # of each pod, to the amount
    "RaisePriority",  # of the workload, to the amount
    "ResumeQueue",
    "SelectNamespace",  # by the namespaceSelector of the cluster queue
    "ProvideNodes",  # nodes that the pods can use, new ones or by the end of other pods
    "SetQueue",  # the local queue that the job names, to the object
    "CreateQueue",  # the local queue, for the cluster queue in ``value``
    "ReplaceQueue",  # delete the local queue, and create it for the cluster queue in ``value``
    "RaisePodGroups",  # maxPodGroups of the queue, to the amount
    "LowerMinMember",  # of the pod group, to the amount, with minResources in proportion
    "RaiseTier",  # highestTierAllowed of the pod group's networkTopology, to the amount
    "EndPods",  # those of evicted workloads
    "ReadyPods",  # those of all workloads with quota must be ready; a workload may end instead
    "Wait",  # until ``until``, or for its turn
]


class Nodes(Struct):
    """Nodes that must have room: ``count`` of them, with at least ``labels``, and ``free`` on each.

    Each has the labels ``levels`` of a topology, with any values.
    """

    count: int
    labels: Mapping[str, str] = {}
    free: Mapping[str, str] = {}  # quantities by resource
    levels: tuple[str, ...] = ()  # the highest first, without hosts and ``labels``
    same: tuple[str, ...] = ()  # the first levels, of which all have one value, that of no other node


class Change(Struct):
    """A step towards the start of a workload: something to change in one object, or to wait for.

    Fields that ``action`` does not use are empty.
    """

    action: ChangeAction
    text: str
    object: ObjectName | None = None  # None: the workload, or the job that it belongs to
    pod_set: str = ""
    flavor: str = ""
    resource: str = ""
    amount: str = ""  # a quantity
    value: str = ""  # a toleration as ``key=value:effect``, or the name of a cluster queue
    nodes: Nodes | None = None
    until: datetime | None = None


class Remedy(Struct):
    """Changes that together let the workload start, with ``pods`` pods: every one of them is needed.

    Other workloads that wait (``Explanation.rivals``) must leave it what the changes provide.
    """

    all_of: tuple[Change, ...]
    pods: int = always_encoded(int)

    @property
    def text(self) -> str:
        changes = sorted(self.all_of, key=lambda change: change.action == "FreeQuota")  # no imperative: last
        return " and ".join(change.text for change in changes)


def alternatives(ways: Sequence[str]) -> Sequence[str]:
    """Return one sentence for each way, of which any one is enough."""
    return ways if len(ways) == 1 else (f"either {ways[0]}", *(f"or {way}" for way in ways[1:]))


class PodCounts(Struct):
    """The pods of a workload that has quota."""

    requested: int = always_encoded(int)  # by the job
    admitted: int = always_encoded(int)  # fewer after a partial admission
    created: int | None = None  # None: the pods were not read
    running: int | None = None


Confidence = Literal["", "low", "medium", "high"]


class RaisedPriority(Struct):
    """The priority of a pending workload, which waiting has raised."""

    own: int = always_encoded(int)
    raised: int = always_encoded(int)  # by priority ageing
    since: datetime | None = None  # when the waiting began that counts
    text: str = ""  # both, and how long it waits


BoundOrigin = Literal["Declared", "Learned", "Default"]  # from where it is known how long workloads run


class PlannedStart(Struct):
    """When a pending workload starts at the latest, and what is kept for it; see planned starts."""

    at: datetime | None = None  # None: not known
    origin: BoundOrigin = "Declared"  # of the least certain bound that it rests on
    needs: tuple[str, ...] = ()  # amounts, each of what its cluster queue can get at most
    ends_before: int = always_encoded(int)  # workloads with quota that end by then
    was: datetime | None = None  # the former time, if it was moved later
    cause: str = ""  # why it was moved, a code such as NodeLost
    text: str = ""  # all of it in one sentence


class Dispatch(Struct):
    """The worker clusters of a workload that MultiKueue dispatches."""

    cluster: str = ""  # that admitted it; empty: none yet
    nominated: tuple[str, ...] = ()  # that have a copy of it
    choice: str = ""  # why these were nominated, with the numbers of each
    since: datetime | None = None  # when they were
    text: str = ""  # all of it in one sentence


class StartEstimate(Struct):
    """When a waiting workload starts; a quantile is absent if it starts in fewer of the runs.

    With fewer runs than ``FEWEST_RUNS`` there are no quantiles: ``p50`` is then the median of these runs.
    """

    computed_at: datetime  # the moment of the cluster that was played
    p50: datetime | None = None  # half of the runs start it by then
    p90: datetime | None = None  # nine of ten runs do
    runs: int = always_encoded(int)  # simulated
    run_times: str = ""  # where the run times of its kind of work are from
    samples: int = 0  # finished workloads of its kind or queue that these run times are of
    confidence: Confidence = ""

    @property
    def is_rough(self) -> bool:
        """Return True if too few runs were simulated for quantiles."""
        return self.runs < FEWEST_RUNS


class NamedEstimate(Struct):
    metadata: ObjectMeta  # namespace and name of the Workload
    estimate: StartEstimate


class StartEstimateList(Struct):
    """The estimates of the workloads of a namespace, or of all, by key."""

    items: tuple[NamedEstimate, ...] = ()
    api_version: str = msgspec.field(default_factory=lambda: API_VERSION)
    kind: str = msgspec.field(default_factory=lambda: "StartEstimateList")


class StartQuestion(Struct):
    """When a workload would start that may not exist yet."""

    workload: Workload
    # Submitted just before it; those that exist by now are left out.
    ahead: Annotated[tuple[Workload, ...], msgspec.Meta(max_length=MAX_AHEAD)] = ()


class StartAnswer(Struct):
    """When a workload would start that may not exist yet, in seconds from now."""

    starts: Literal["Within", "Later", "Never", "Unknown"]  # Later: after the time that is simulated
    p50_seconds: float | None = None  # of Within: half of the runs start it in that time
    p90_seconds: float | None = None  # nine of ten runs do; absent if fewer start it
    spare: float | None = None  # if it starts now: how many more such workloads the quota holds then
    reason: str = ""  # of Never and Unknown
    api_version: str = msgspec.field(default_factory=lambda: API_VERSION)
    kind: str = msgspec.field(default_factory=lambda: "StartAnswer")


class ExplanationSummary(Struct):
    """The parts of an explanation that lists show; ``metadata`` names the explained version."""

    metadata: ObjectMeta
    state: ExplainedState
    message: str
    code: str = ""
    since: datetime | None = None
    enough: tuple[str, ...] = ()
    priority: RaisedPriority | None = None  # None: waiting has not raised it
    planned_start: PlannedStart | None = None  # None: its start is not planned
    dispatch: Dispatch | None = None  # None: it runs in this cluster, if it does
    pods: PodCounts | None = None  # None: it has no quota


class ListMeta(Struct):
    continue_: str = msgspec.field(name="continue", default="")


class ExplanationSummaryList(Struct):
    """A page of summaries, sorted by namespace and name; ``continue`` is empty on the last page."""

    items: tuple[ExplanationSummary, ...] = ()
    metadata: ListMeta = ListMeta()
    api_version: str = msgspec.field(default_factory=lambda: API_VERSION)
    kind: str = msgspec.field(default_factory=lambda: "ExplanationSummaryList")


class Explanation(Struct):
    object: ObjectName
    state: ExplainedState
    message: str  # one sentence
    code: str = ""  # of the reason that decides the state; empty if it runs, has finished or admits
    api_version: str = msgspec.field(default_factory=lambda: API_VERSION)  # a factory: it is always encoded
    kind: str = msgspec.field(default_factory=lambda: "Explanation")
    since: datetime | None = None  # when the state began
    local_queue: str = ""
    cluster_queue: str = ""
    ahead: int | None = None  # pending workloads ahead of it in its cluster queue; None: it is not pending
    first_ahead: tuple[str, ...] = ()  # of those that the caller may read
    priority: RaisedPriority | None = None  # None: waiting has not raised it
    planned_start: PlannedStart | None = None  # None: its start is not planned
    dispatch: Dispatch | None = None  # None: it runs in this cluster, if it does
    pods: PodCounts | None = None
    reasons: tuple[Reason, ...] = ()
    can_never_fit: bool = False  # only a change of its spec or of the configuration can help
    enough: tuple[str, ...] = ()  # what would let it start, one sentence each
    remedies: tuple[Remedy, ...] = ()  # any one of them lets it start; none if that is not computed
    rivals: int = (
        0  # pending workloads of its cluster queue and cohorts, or that take nodes: they may start first
    )
    retry_at: datetime | None = None  # when an evicted one is tried again
    estimate: StartEstimate | None = None  # None: it is not pending, or there is none yet

    def __post_init__(self) -> None:
        assert self.message, f"{self.object} without a message"


def state_text(explanation: Explanation | ExplanationSummary) -> str:
    """Return the state, the code and the message in one line."""
    code = f" ({explanation.code})" if explanation.code else ""
    return f"{explanation.state}{code}: {explanation.message}"


def summary_of(explanation: Explanation, metadata: ObjectMeta) -> ExplanationSummary:
    """Return the summary of the explanation of the object with ``metadata``."""
    return ExplanationSummary(
        metadata=ObjectMeta(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        ),
        state=explanation.state,
        message=explanation.message,
        code=explanation.code,
        since=explanation.since,
        enough=explanation.enough,
        priority=explanation.priority,
        planned_start=explanation.planned_start,
        dispatch=explanation.dispatch,
        pods=explanation.pods,
    )


# What has an explanation: resource, whether it is namespaced, and its own group.  ``jobs`` are those of any
# kind without a Workload; query parameters tell the group, resource, kind and local queue of one, and whether
# it is suspended.
EXPLAINED: Final = (
    ("clusterqueues", False, "kueue.x-k8s.io"),
    ("localqueues", True, "kueue.x-k8s.io"),
    ("workloads", True, "kueue.x-k8s.io"),
    ("podgroups", True, "scheduling.volcano.sh"),
    ("jobs", True, ""),
)


def path_of(plural: str, key: Key) -> str:
    """Return the path of the explanation of an object."""
    where = f"/namespaces/{key.namespace}" if key.namespace else ""
    return f"/apis/{API_VERSION}{where}/{plural}/{key.name}/{SUBRESOURCE}"


def estimates_path(namespace: str) -> str:
    """Return the path of the estimates of a namespace; of all if it is empty."""
    return list_path(ESTIMATES, namespace)


def explanations_path(namespace: str) -> str:
    """Return the path of the summaries of a namespace; of all if it is empty.

    They are of workloads, and with the query parameter ``kind=PodGroup`` of Volcano's pod groups, with
    ``NATIVE_POD_GROUP`` of Kubernetes' own.  ``limit`` and ``continue`` select a page, as in lists.
    """
    return list_path(EXPLANATIONS, namespace)


def list_path(plural: str, namespace: str) -> str:
    """Return the path of the list of a resource of a namespace; of all if it is empty."""
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{API_VERSION}{where}/{plural}"
