"""The overview: cohorts and cluster queues as a tree, counts, and why workloads wait."""

from collections import Counter

from msgspec.structs import replace

from quorate.api.explanation import ExplainedState
from quorate.api.kueue import ACTIVE
from quorate.api.meta import at_epoch, find_condition, is_true
from quorate.api.volcano import PENDING
from quorate.dashboard.limits import FREQUENT_REASONS, MAX_DEPTH
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.quota_use import amount_of, quota_of_cohort
from quorate.dashboard.model.workload_index import ADMITTED_STATES, WITHOUT_QUOTA
from quorate.dashboard.queries import Viewer
from quorate.dashboard.schema import CohortNode, Counts, NodeTotals, Overview, WorkerCluster
from quorate.dashboard.views.queue_views import Reasons, reasons_by_cluster_queue, summary_of
from quorate.placement.resources import in_base_units
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.quota.tree import Node


def overview(data: ClusterData, viewer: Viewer, now: float) -> Overview:
    revision = (*data.revision, data.pod_group_revision, data.node_revision, data.pod_revision)
    latest = data.remembered(("overview", viewer), revision, lambda: _overview(data, viewer, now))
    return replace(latest, at=at_epoch(now))


def _overview(data: ClusterData, viewer: Viewer, now: float) -> Overview:
    reasons = Reasons()
    for of_queue in reasons_by_cluster_queue(data, viewer).values():
        reasons.update(of_queue)
    return Overview(
        at=at_epoch(now),
        counts=_counts(data, viewer),
        cohorts=_cohorts(data, viewer, now),
        reasons=reasons.most_frequent(FREQUENT_REASONS),
        pod_groups=_pod_groups(data, viewer),
        nodes=_nodes(data) if viewer.nodes else None,
        worker_clusters=_worker_clusters(data) if viewer.scope.cluster_queues else (),
    )


def _counts(data: ClusterData, viewer: Viewer) -> Counts:
    states: Counter[ExplainedState] = Counter()
    pending = reserving = 0
    for group, members in data.readable(viewer):
        state = data.state_of(group)
        states[state] += len(members)
        if state in WITHOUT_QUOTA and group.reserved_in:
            reserving += len(members)
        elif state in WITHOUT_QUOTA:
            pending += len(members)
    admitted = sum(states[state] for state in ADMITTED_STATES)
    return Counts(
        pending=pending, reserving=reserving, admitted=admitted, states=dict(sorted(states.items()))
    )


def _worker_clusters(data: ClusterData) -> tuple[WorkerCluster, ...]:
    if not data.worker_clusters:
        return ()
    placed: Counter[str] = Counter()
    nominated: Counter[str] = Counter()
    for group, members in data.workloads.groups.items():
        if group.reserved_in:
            for listed in members.values():
                status = listed.workload.status
                placed.update((status.cluster_name,))
                nominated.update(status.nominated_cluster_names)
    return tuple(
        WorkerCluster(
            name=name,
            connected=None if active is None else active.status == "True",
            since=None if active is None else active.last_transition_time,
            message="" if active is None else active.message,
            workloads=placed[name],
            nominated=nominated[name],
        )
        for name, cluster in sorted(data.worker_clusters.items())
        for active in (find_condition(cluster.status.conditions, ACTIVE),)
    )


def _pod_groups(data: ClusterData, viewer: Viewer) -> dict[str, int]:
    phases = Counter(
        group.status.phase or PENDING for key, group in data.pod_groups.items() if viewer.reads_pod_group(key)
    )
    return dict(sorted(phases.items()))


def _nodes(data: ClusterData) -> NodeTotals:
    nodes = data.topology.nodes.values()
    ready = [node for node in nodes if is_true(node.status.conditions, "Ready")]
    capacity: Counter[str] = Counter()
    for node in ready:
        capacity.update(in_base_units(node.status.allocatable))
    used = data.used
    return NodeTotals(
        nodes=len(nodes),
        ready=len(ready),
        capacity={resource: amount_of(resource, amount) for resource, amount in sorted(capacity.items())},
        used={resource: amount_of(resource, used.get(resource, 0)) for resource in sorted(capacity)},
    )


def _cohorts(data: ClusterData, viewer: Viewer, now: float) -> tuple[CohortNode, ...]:
    """Return the trees with cluster queues that the viewer may see, and "" for those without a cohort.

    With access to all cluster queues a cohort is shown even if it has none.
    """
    queues = data.cluster_queues(viewer)
    by_parent: dict[Node, list[ClusterQueueState]] = {}
    alone: list[ClusterQueueState] = []
    for queue in queues.values():
        if queue.node.parent is None:
            alone.append(queue)
        else:
            by_parent.setdefault(queue.node.parent, []).append(queue)
    shown: set[Node] = set()
    for cohort in by_parent:
        shown.update((cohort, *cohort.path()))
    if viewer.scope.cluster_queues:
        shown.update(data.ledger.cohorts.values())
    by_depth: dict[Node, list[Node]] = {}  # the cohorts listed in each
    roots: list[Node] = []
    for cohort in sorted(shown, key=lambda node: node.name):
        above = [node for node in cohort.path() if node in shown]
        if not above:
            roots.append(cohort)
        else:
            by_depth.setdefault(above[max(0, len(above) - MAX_DEPTH)], []).append(cohort)

    def tree_of(cohort: Node) -> CohortNode:
        return CohortNode(
            name=cohort.name,
            quota=quota_of_cohort(cohort, data.ledger),
            cluster_queues=tuple(summary_of(data, viewer, queue, now) for queue in by_parent.get(cohort, ())),
            cohorts=tuple(map(tree_of, by_depth.get(cohort, ()))),
        )

    trees = [tree_of(cohort) for cohort in roots]
    if alone:
        summaries = tuple(summary_of(data, viewer, queue, now) for queue in alone)
        trees.append(CohortNode(name="", quota=(), cluster_queues=summaries, cohorts=()))
    return tuple(trees)
