"""The values that the dashboard's API returns, version 1.

Times are RFC 3339; names are camelCase in JSON.  Each value is what one caller may see: a tenant gets the
workloads of its own namespaces, and of shared queues the totals.  The OpenAPI document is made from these
types, and the page's TypeScript types from that document.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from quorate.api.explanation import ExplainedState, Explanation
from quorate.api.meta import Struct
from quorate.simulate.results.summary import Comparison


class Answer(Struct, omit_defaults=False):
    """A value with all of its fields encoded, so that a client needs no defaults."""


class Amount(Answer):
    """An amount of one resource, as a quantity and as a number of whole units: cores, bytes, devices."""

    quantity: str
    value: float


# --- The session of a user


class LoginMethods(Answer):
    """How a user without a session can log in."""

    token: bool
    oidc_issuer: str  # empty: OIDC is not configured
    one_time_link: bool  # the process prints a link that logs in once; only on loopback


class TokenLogin(Answer):
    token: str


class Session(Answer):
    user: str
    groups: tuple[str, ...]
    server: str  # the API server
    reads_all_workloads: bool
    namespaces: tuple[str, ...]  # in which it may list workloads, if not in all
    reads_cluster_queues: bool  # their objects; totals of the queues of its namespaces are always shown
    reads_nodes: bool
    expires_at: datetime
    csrf_token: str  # to be sent as X-CSRF-Token with every request that is not GET


# --- Quota


class QuotaUse(Answer):
    """The quota of one flavor and resource in a cluster queue or cohort, and its use.

    ``reserved`` is the usage of workloads with a quota reservation, ``admitted`` the usage of admitted
    workloads.
    """

    flavor: str
    resource: str
    nominal: Amount
    reserved: Amount
    admitted: Amount
    borrowed: Amount  # used above nominal
    lent: Amount  # of unused quota, what others borrow: in proportion where several could lend it
    borrowing_limit: Amount | None  # None: no limit
    lending_limit: Amount | None


class ReasonCount(Answer):
    """How many waiting workloads have a reason of one code; ``example`` is one of their messages."""

    code: str
    workloads: int
    example: str


class ClusterQueueSummary(Answer):
    name: str
    cohort: str  # empty: none
    active: bool
    inactive_reason: str
    stop_policy: str
    strategy: str
    pending: int
    reserving: int
    admitted: int
    quota: tuple[QuotaUse, ...]  # in the order of the spec
    weighted_share: float | None  # of fair sharing, in thousandths; None: fair sharing is off
    reasons: tuple[ReasonCount, ...]  # the three most frequent ones of what waits


class CohortNode(Answer):
    """A cohort, or at the root ("") all cluster queues without one."""

    name: str
    quota: tuple[QuotaUse, ...]  # of the subtree
    cluster_queues: tuple[ClusterQueueSummary, ...]
    cohorts: tuple["CohortNode", ...]


class Counts(Answer):
    """Workloads that the caller may read."""

    pending: int  # without quota, after an eviction too
    reserving: int  # with quota, not admitted yet or being evicted
    admitted: int  # running or not
    states: dict[ExplainedState, int]  # in each state that has any


class Overview(Answer):
    at: datetime
    counts: Counts
    cohorts: tuple[CohortNode, ...]
    reasons: tuple[ReasonCount, ...]  # the most frequent ones of all that waits, with quota or without
    pod_groups: dict[str, int]  # by phase
    nodes: "NodeTotals | None"  # None: the caller may not list nodes
    worker_clusters: "tuple[WorkerCluster, ...]"  # of MultiKueue; none if the caller may not list queues


class WorkerCluster(Answer):
    """A worker cluster of MultiKueue, and how many workloads are in it or wait for it."""

    name: str
    connected: bool | None  # None: not known yet
    since: datetime | None
    message: str
    workloads: int
    nominated: int


class NodeTotals(Answer):
    nodes: int
    ready: int
    capacity: dict[str, Amount]  # by resource
    used: dict[str, Amount]


class LocalQueueSummary(Answer):
    namespace: str
    name: str
    cluster_queue: str
    active: bool
    stop_policy: str
    pending: int
    reserving: int
    admitted: int


class ScheduledWorkload(Answer):
    """A workload that runs, or of which the start is planned, or a window of a Reservation.

    ``ends`` is None if no bound is known.  A Reservation has no namespace, and its purpose as ``cause``.
    """

    namespace: str
    name: str
    state: Literal["Running", "Planned", "Reserved"]
    starts: datetime
    ends: datetime | None
    origin: str  # of the bound, or of the planned start: Declared, Learned or Default; empty without a bound
    was: datetime | None  # the former planned start, if it was moved later
    cause: str  # why it was moved


class ClusterQueueDetail(Answer):
    summary: ClusterQueueSummary
    local_queues: tuple[LocalQueueSummary, ...]
    preemption: dict[str, str]  # the policies, by the name of their field
    admission_checks: tuple[str, ...]
    borrows_from: tuple[str, ...]  # cluster queues of the cohort with unused nominal quota that it uses
    lends_to: tuple[str, ...]  # cluster queues that borrow while this one has unused quota
    transitions: tuple["Transition", ...]  # the latest evictions and preemptions, newest first
    schedule: tuple[ScheduledWorkload, ...]  # if starts are planned in it: what the viewer may read, by start
    may_stop: bool  # whether the caller may stop or resume it


# --- Workloads


class WorkloadRow(Answer):
    namespace: str
    name: str
    uid: str
    job_kind: str  # of its owner; empty: none
    job_name: str
    local_queue: str
    cluster_queue: str
    state: ExplainedState
    priority: int
    pods: int  # that were asked for
    admitted_pods: int | None  # fewer after a partial admission; None: no quota
    created_at: datetime
    since: datetime  # when the state began
    position: (
        int | None
    )  # in the pending workloads of its cluster queue, from 0; None: it does not wait for its turn
    reason: str  # why it waits or its pods do not run, in one sentence; empty if they do
    code: str  # of that reason
    starts_p50: datetime | None  # from the forecast; None: unknown
    starts_p90: datetime | None


class WorkloadPage(Answer):
    total: int  # that match
    offset: int
    items: tuple[WorkloadRow, ...]
    forecast_at: datetime | None  # when the estimates were computed; None: not yet


class PodSetRow(Answer):
    name: str
    pods: int
    min_pods: int | None
    admitted_pods: int | None
    requests: dict[str, str]  # of one pod
    flavors: dict[str, str]  # by resource
    domains: tuple[str, ...]  # of its topology assignment, as "path: pods"


class PodRow(Answer):
    name: str
    pod_set: str
    phase: str
    node: str
    ready: bool
    reason: str  # why it does not run
    containers: tuple[str, ...]  # that have a status; those of its initialization last


class Milestone(Answer):
    """One step of the life of a workload or pod group, in order of time.

    ``step``: Created, Queued, QuotaReserved, CheckReady, Admitted, PodsCreated, PodsReady, Preempted,
    Evicted, Requeued, Deactivated, Resumed, Finished, or the phase of a pod group.
    """

    at: datetime
    step: str
    reason: str
    message: str


class EventRow(Answer):
    at: datetime
    type: str
    reason: str
    message: str
    count: int


class WorkloadDetail(Answer):
    row: WorkloadRow
    labels: Mapping[str, str]
    pod_sets: tuple[PodSetRow, ...]
    milestones: tuple[Milestone, ...]
    explanation: Explanation | None  # None: ``explanation_problem`` says why it cannot be had
    explanation_problem: str
    pods: tuple[PodRow, ...]
    events: tuple[EventRow, ...]  # newest first
    commands: tuple[str, ...]  # kubectl commands to look further
    may_stop: bool  # whether the caller may stop or resume it


# --- Gangs


class PodGroupRow(Answer):
    namespace: str
    name: str
    queue: str
    phase: str
    state: ExplainedState
    min_member: int
    running: int
    pending: int
    succeeded: int
    failed: int
    priority_class: str
    created_at: datetime
    reason: str  # why it waits
    code: str  # of that reason


class PodGroupPage(Answer):
    total: int
    offset: int
    items: tuple[PodGroupRow, ...]


class PodGroupDetail(Answer):
    row: PodGroupRow
    min_resources: dict[str, str]
    milestones: tuple[Milestone, ...]
    explanation: Explanation | None
    explanation_problem: str
    pods: tuple[PodRow, ...]
    events: tuple[EventRow, ...]
    commands: tuple[str, ...]


class GangQueueRow(Answer):
    """A queue of pod groups (Volcano's); amounts by resource."""

    name: str
    parent: str
    state: str
    weight: int
    allocated: dict[str, Amount]
    deserved: dict[str, Amount]
    capability: dict[str, Amount]
    pod_groups: dict[str, int]  # by phase


# --- Nodes


class DomainUse(Answer):
    """One domain of a topology, or a node: amounts by resource.

    ``used`` is used by pods with places, ``others`` by all other pods.
    """

    name: str
    level: str  # a node label, or "node"
    nodes: int
    ready: bool
    capacity: dict[str, Amount]
    used: dict[str, Amount]
    others: dict[str, Amount]
    free: dict[str, Amount]
    domains: tuple["DomainUse", ...]


class NodesView(Answer):
    """All nodes as one tree: the levels of a topology, or the nodes below one root if there is none."""

    topology: str  # empty: none
    topologies: tuple[str, ...]  # that exist
    levels: tuple[str, ...]
    resources: tuple[str, ...]  # of the nodes
    root: DomainUse
    excluded: tuple[str, ...]  # nodes that are cordoned, not ready or without a level
    largest_gangs: dict[str, int]  # by level: pods of the asked size that fit together in its best domain


class GangPlace(Answer):
    domain: str
    pods: int


class GangPlacement(Answer):
    """Where a gang of equal pods would go now; ``reason`` says why it fits nowhere."""

    fits: bool
    reason: str
    places: tuple[GangPlace, ...]


# --- History and changes


class Sample(Answer):
    """The mean of one interval; values by name, see ``Series.names``."""

    at: datetime
    values: tuple[float | None, ...]


class Series(Answer):
    """Samples of a cluster queue or of the overview.

    ``names`` of a cluster queue: pending, admitted, then "FLAVOR/RESOURCE used" and "FLAVOR/RESOURCE nominal"
    of each quota; of the overview: pending, admitted, "RESOURCE used share" of each resource, and "wait p50"
    and "wait p90" of the workloads admitted in the interval, in seconds.
    """

    interval_s: int
    names: tuple[str, ...]
    samples: tuple[Sample, ...]
    source: str  # where it is from: "history of this dashboard"


class Transition(Answer):
    """A recorded change of a workload; names are empty if the caller may not read them."""

    at: datetime
    namespace: str
    name: str
    step: str  # as in ``Milestone``
    reason: str
    message: str
    preemptor: str  # the workload that it was preempted for, as namespace/name
    cluster_queue: str


class SearchHit(Answer):
    kind: str  # ClusterQueue, LocalQueue, Workload, PodGroup, Node
    namespace: str
    name: str
    matched: str  # name, job, label or namespace: what matched, with its text


class SearchResult(Answer):
    hits: tuple[SearchHit, ...]
    more: bool


class ChangeNotice(Answer):
    """One event of the stream: what to read again.

    ``topics``: overview, clusterqueues, clusterqueues/NAME, workloads, workloads/NAMESPACE/NAME, podgroups,
    podgroups/NAMESPACE/NAME, nodes, forecast; "*" after notices were dropped: read everything again.
    """

    at: datetime
    topics: tuple[str, ...]


# --- Forecasts and what if


class StartEstimate(Answer):
    """When a waiting workload starts; None: not in that part of the runs, or too few runs to tell."""

    namespace: str
    name: str
    local_queue: str
    p50: datetime | None
    p90: datetime | None


class Forecast(Answer):
    """The latest forecast; ``at`` is when the cluster was read for it, None before the first one."""

    at: datetime | None
    plays: int  # simulated runs; fewer of a large cluster, each forecast has a limit of processor time
    horizon_s: float | None  # up to which it reached, with one run only; None: to the end
    took_s: float
    problem: str  # why there is none, or no newer one; empty: none
    starts: tuple[StartEstimate, ...]  # of the workloads that the caller may see, the first to start first


class WhatIfRequest(Answer):
    """Manifests to apply to a snapshot of the cluster, as YAML."""

    manifests: str
    run_duration: str = "1h"  # assumed of jobs of which nothing is known


class WhatIfAnswer(Answer):
    comparison: Comparison | None  # None: ``findings`` say what is wrong with the manifests
    findings: tuple[str, ...]
    took_s: float
    run_times: tuple[str, ...]  # where the run times are from


class PodLog(Answer):
    text: str  # the last lines


class Manifest(Answer):
    kind: str
    text: str  # YAML


class Problem(Answer):
    """Every answer with a status of 400 or above."""

    status: int
    reason: str  # in CamelCase, as in a Kubernetes Status
    message: str  # what was seen, which rule, and what would do
