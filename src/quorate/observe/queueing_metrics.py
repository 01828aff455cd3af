"""``/metrics`` of the controllers; gauges are computed from the model at each scrape, so none is stale."""

import math
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from aiohttp import web
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from quorate.api.configuration.process import Metrics
from quorate.api.kueue import ACTIVE
from quorate.api.meta import find_condition, is_true
from quorate.api.quantity import NANOS
from quorate.api.quorate import ACTIVE as RESERVATION_ACTIVE
from quorate.api.quorate import CONFLICTING, ENDED, SCHEDULED, Reservation
from quorate.kube.log import logger
from quorate.observe.estimates import Estimates
from quorate.observe.exposition import metrics_application
from quorate.observe.families import BY_NAME, FAMILIES, ROLE
from quorate.observe.replica import Replica
from quorate.observe.view import Labels, View, is_shown, local_queue_labels
from quorate.queueing.cluster_queue import ClusterQueueState, LocalQueueState
from quorate.queueing.pending.entry import Entry
from quorate.queueing.pending.shape import Shape
from quorate.queueing.state import State
from quorate.queueing.window_usage import WindowUsages
from quorate.quota.amount import Amount, FlavorResource, Unlimited, Usage, as_quantity
from quorate.quota.fair_sharing import dominant_share
from quorate.quota.tree import Node
from quorate.version import VERSION

_BUILD = {
    "git_version": f"v{VERSION}",
    "compiler": platform.python_implementation(),
    "platform": f"{platform.system().lower()}/{platform.machine()}",
}  # the labels for the Go version and the commit are empty
_INT64_MAX: Final = 2**63 - 1
_STATUSES: Final = ("True", "False", "Unknown")  # of a condition


def metrics(replica: Replica) -> web.Application:
    registry = replica.recorder.registry
    registry.register(_Gauges(replica))
    return metrics_application(registry)


class _Gauges(Collector):
    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def collect(self) -> Iterator[GaugeMetricFamily]:
        recorder = self._replica.recorder
        families = {
            family.name: GaugeMetricFamily(family.name, family.help, labels=recorder.labels_of(family))
            for family in FAMILIES
            if family.kind == "gauge"
        }
        build = BY_NAME["kueue_build_info"]
        families[build.name].add_metric([_BUILD.get(label, "") for label in build.labels], 1.0)
        role = self._replica.role
        families["quorate_audit_differences"].add_metric([role], recorder.differences)
        for queue, cluster, status in self._replica.worker_clusters():
            for value in _STATUSES:
                of_cluster = [queue, cluster, value, role]
                families["multikueue_cluster_status"].add_metric(of_cluster, float(value == status))
        if (view := self._replica.view) is not None:
            estimated = _estimates(self._replica.estimates, view.state)
            for reading in chain(estimated, readings(view, recorder.preemption_skips)):
                family = BY_NAME.get(f"kueue_{reading.name}") or BY_NAME[f"quorate_{reading.name}"]
                custom = recorder.custom.of(family.sources, reading.labels)
                labels = {**custom, **reading.labels, ROLE: role}
                values = [labels[label] for label in recorder.labels_of(family)]
                families[family.name].add_metric(values, reading.value)
        yield from families.values()


class Reading(NamedTuple):
    """One value of a gauge; ``name`` is without prefix, ``labels`` without the role of the replica.

    ``labels`` contains only those custom labels that do not follow from the other labels.
    """

    name: str
    labels: Mapping[str, str]
    value: float


def _estimates(estimates: Estimates, state: State) -> Iterator[Reading]:
    """Yield the age and the cost of the estimates of starts, and what they say of each cluster queue."""
    if estimates.computed_at is None:
        return
    yield Reading("estimates_timestamp_seconds", {}, estimates.computed_at)
    yield Reading("estimates_processor_seconds", {}, estimates.processor_s)
    for wait in estimates.median_waits(state):
        labels = {"cluster_queue": wait.cluster_queue, "percentile": wait.percentile}
        yield Reading("pending_start_seconds", labels, wait.seconds)


def readings(view: View, preemption_skips: Mapping[str, int]) -> Iterator[Reading]:
    """Yield all values; ``preemption_skips``: by cluster queue, preemptions skipped for another preemptor."""
    configuration = view.state.configuration
    rules = configuration.metrics
    for queue in view.ledger.cluster_queues.values():
        yield from _isolated(queue.name, _cluster_queue(queue, view))
        skips = preemption_skips.get(queue.name, 0)
        yield Reading("admission_cycle_preemption_skips", {"cluster_queue": queue.name}, skips)
        if rules.cluster_queue_resources:
            yield from _isolated(queue.name, _quota(queue))
    for key, local_queue in view.ledger.local_queues.items():
        if is_shown(local_queue, rules):
            yield from _isolated(key, _local_queue(local_queue, view))
    yield from _requested_by_pending(view.state)
    if configuration.gates.scheduling_equivalence_hashing:
        yield from _pending_shapes(view.state)
    if configuration.gates.unadmitted_workloads_observability:
        yield from _unadmitted(view, rules)
    for node in view.ledger.cohorts.values():
        yield from _isolated(node.name, _cohort(node, view))
    usages = WindowUsages(view.ledger)
    for reservation in view.reservations():
        yield from _isolated(reservation.metadata.name, _reservation(reservation, view, usages))


def _isolated(about: object, readings_of_one: Iterator[Reading]) -> Iterator[Reading]:
    """Yield the readings of one object, up to an exception: it must not hide the series of all others."""
    try:
        yield from readings_of_one
    except Exception as error:
        logger(__name__).fault("gauges of an object cannot be computed", error, about=about)


def _cluster_queue(queue: ClusterQueueState, view: View) -> Iterator[Reading]:
    of_queue = {"cluster_queue": queue.name}
    yield from _pending(queue, view)
    yield Reading("reserving_active_workloads", of_queue, queue.totals.reserving)
    yield from _admitted("admitted_active_workloads", of_queue, queue.totals.admitted, view)
    yield Reading("finished_workloads", of_queue, view.finished_in_cluster_queue[queue.name])
    current = _status(queue, view.state)
    for status in ("pending", "active", "terminating"):
        yield Reading("cluster_queue_status", of_queue | {"status": status}, float(status == current))
    yield Reading("planned_starts", of_queue, len(view.ledger.planned.get(queue.name, ())))
    yield Reading("cluster_queue_utilisation", of_queue, utilisation(queue))
    yield Reading("cluster_queue_info", of_queue | _tree_labels(queue.node, is_cohort=False), 1.0)


def utilisation(queue: ClusterQueueState) -> float:
    """Return the largest part of a nominal quota that reservations use; 0 without quota."""
    return max(
        (
            queue.totals.reserved_usage.get(pair, 0) / limits.nominal
            for pair, limits in queue.node.limits.items()
            if limits.nominal
        ),
        default=0.0,
    )


def _pending(queue: ClusterQueueState, view: View) -> Iterator[Reading]:
    """Yield the pending workloads by status; if workloads give labels, also by these and without zeros."""
    active = queue.pending.active_count if view.ledger.is_active(queue) else 0
    counts: Counter[tuple[str, Labels]] = Counter()
    if view.custom.names(("Workload",)):
        for entry in queue.pending.unordered():
            status = "active" if active and queue.pending.is_active(entry) else "inadmissible"
            values = view.custom.values_of("Workload", entry.workload.metadata)
            counts[status, tuple(values.items())] += 1
    else:
        counts.update({("active", ()): active, ("inadmissible", ()): len(queue.pending) - active})
    for (status, labels), count in counts.items():
        about = {"cluster_queue": queue.name, "status": status, **dict(labels)}
        yield Reading("pending_workloads", about, count)


def _admitted(name: str, of_queue: dict[str, str], total: int, view: View) -> Iterator[Reading]:
    """Yield the admitted workloads of a queue, by the custom labels of the workloads."""
    for values, count in view.admitted.get(tuple(of_queue.items()), {(): total}).items():
        yield Reading(name, of_queue | dict(values), count)


def _status(queue: ClusterQueueState, state: State) -> str:
    if any(reason.code == "Terminating" for reason in queue.inactive_reasons):
        return "terminating"
    return "active" if state.ledger.is_active(queue) else "pending"


def _tree_labels(node: Node, *, is_cohort: bool) -> dict[str, str]:
    """Return the cohort labels; a cohort without a parent is its own root, a cluster queue has none then."""
    parent, root = node.parent, node.root
    return {
        "parent_cohort": parent.name if parent is not None else "",
        "root_cohort": root.name if parent is not None or is_cohort else "",
    }


def _quota(queue: ClusterQueueState) -> Iterator[Reading]:
    node, cohort = queue.node, queue.spec.cohort_name
    of_queue = {"cohort": cohort, "cluster_queue": queue.name}
    for pair, limits in node.limits.items():
        labels = of_queue | _labels(pair)
        reserved = queue.totals.reserved_usage.get(pair, 0)
        used = queue.totals.admitted_usage.get(pair, 0)
        yield Reading("cluster_queue_resource_reservation", labels, _units(pair, reserved))
        yield Reading("cluster_queue_resource_usage", labels, _units(pair, used))
        yield Reading("cluster_queue_nominal_quota", labels, _units(pair, limits.nominal))
        yield Reading("cluster_queue_borrowing_limit", labels, _units(pair, limits.borrowing))
        yield Reading("cluster_queue_lending_limit", labels, _units(pair, limits.lending))
    yield Reading("cluster_queue_weighted_share", of_queue, _share(node))


def _local_queue(queue: LocalQueueState, view: View) -> Iterator[Reading]:
    assert queue.object is not None, "a local queue without object is not shown"
    key = queue.object.metadata.key
    of_queue = local_queue_labels(key)
    if queue.is_running:  # a stopped queue has no pending workloads
        active = sum(_is_active(entry, view.state) for entry in queue.entries.values())
        yield Reading("local_queue_pending_workloads", of_queue | {"status": "active"}, active)
        inadmissible = len(queue.entries) - active
        yield Reading("local_queue_pending_workloads", of_queue | {"status": "inadmissible"}, inadmissible)
    if queue.cluster_queue in view.ledger.cluster_queues:
        yield Reading("local_queue_reserving_active_workloads", of_queue, queue.totals.reserving)
        yield from _admitted("local_queue_admitted_active_workloads", of_queue, queue.totals.admitted, view)
    yield Reading("local_queue_finished_workloads", of_queue, view.finished_in_local_queue[key])
    condition = find_condition(queue.object.status.conditions, ACTIVE)
    status = condition.status if condition is not None else "Unknown"
    for value in _STATUSES:
        yield Reading("local_queue_status", of_queue | {"active": value}, float(value == status))
    yield from _amounts("local_queue_resource_reservation", of_queue, queue.totals.reserved_usage)
    yield from _amounts("local_queue_resource_usage", of_queue, queue.totals.admitted_usage)
    rules = view.state.configuration.admission_fair_sharing
    if rules is not None:
        consumed_usage = queue.consumed_usage.value(queue.weight, rules)
        labels = of_queue | {"cluster_queue": queue.cluster_queue}
        yield Reading("local_queue_admission_fair_sharing_usage", labels, consumed_usage)


def _requested_by_pending(state: State) -> Iterator[Reading]:
    """Yield what pending workloads request; of a resource of the queue also if none does.

    Sum by shape first: a hundred thousand pending workloads have few shapes.
    """
    counts = Counter((entry.cluster_queue, entry.shape) for entry in state.ledger.entries.values())
    sums = Counter(  # in nanos, by queue and resource
        {
            (queue.name, pair.resource): 0
            for queue in state.ledger.cluster_queues.values()
            for pair in queue.node.limits
        }
    )
    for (queue, shape), count in counts.items():
        for requested in shape.requests:
            for resource, quantity in requested.resources.items():
                sums[queue, resource] += quantity.nanos * count
    for (queue, resource), nanos in sums.items():
        if queue in state.ledger.cluster_queues:
            labels = {"cluster_queue": queue, "resource": resource}
            yield Reading("cluster_queue_resource_pending", labels, nanos / NANOS)


def _pending_shapes(state: State) -> Iterator[Reading]:
    counts: dict[tuple[str, bool], set[Shape]] = {}
    for entry in state.ledger.entries.values():
        counts.setdefault((entry.cluster_queue, _is_active(entry, state)), set()).add(entry.shape)
    for queue in state.ledger.cluster_queues:
        for status, active in (("active", True), ("inadmissible", False)):
            labels = {"cluster_queue": queue, "status": status}
            yield Reading("pending_scheduling_hashes", labels, len(counts.get((queue, active), ())))


def _unadmitted(view: View, rules: Metrics) -> Iterator[Reading]:
    by_cluster_queue: Counter[tuple[str, str, str]] = Counter()
    for (local, reserved_in, reason, cause), count in view.unadmitted.items():
        queue = view.ledger.local_queues.get(local)
        name = reserved_in or (queue.cluster_queue if queue is not None else "")
        reasons = {"reason": reason, "underlying_cause": cause}
        if name in view.ledger.cluster_queues:
            by_cluster_queue[name, reason, cause] += count
        if queue is not None and is_shown(queue, rules):
            labels = local_queue_labels(local) | {"cluster_queue": name} | reasons
            yield Reading("local_queue_unadmitted_workloads", labels, count)
    for (name, reason, cause), count in by_cluster_queue.items():
        labels = {"cluster_queue": name, "reason": reason, "underlying_cause": cause}
        yield Reading("unadmitted_workloads", labels, count)


def _is_active(entry: Entry, state: State) -> bool:
    """Return True if the entry is active in a cluster queue that is active."""
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    return queue is not None and state.ledger.is_active(queue) and queue.pending.is_active(entry)


def _cohort(node: Node, view: View) -> Iterator[Reading]:
    of_cohort = {"cohort": node.name}
    yield Reading("cohort_info", of_cohort | _tree_labels(node, is_cohort=True), 1.0)
    queues = list(view.ledger.queues_below(node))
    if node.name not in view.deleted_cohorts:
        yield Reading("cohort_weighted_share", of_cohort, _share(node))
        yield from _amounts("cohort_subtree_quota", of_cohort, node.subtree_quota)
        reserved: dict[FlavorResource, int] = {}
        for queue in queues:
            for pair, amount in queue.totals.reserved_usage.items():
                reserved[pair] = reserved.get(pair, 0) + amount
        yield from _amounts("cohort_subtree_resource_reservations", of_cohort, reserved)
    admitted: Counter[tuple[tuple[str, str], ...]] = Counter()
    for queue in queues:
        values = view.custom.of(("ClusterQueue",), {"cluster_queue": queue.name})
        admitted[tuple(values.items())] += queue.totals.admitted
    for custom, count in (admitted or {(): 0}).items():
        yield Reading("cohort_subtree_admitted_active_workloads", of_cohort | dict(custom), count)


def _reservation(reservation: Reservation, view: View, usages: WindowUsages) -> Iterator[Reading]:
    of_reservation = {"reservation": reservation.metadata.name}
    for condition in (SCHEDULED, RESERVATION_ACTIVE, CONFLICTING, ENDED):
        labels = of_reservation | {"condition": condition}
        yield Reading("reservation_condition", labels, is_true(reservation.status.conditions, condition))
    window = view.ledger.windows.get(reservation.metadata.name)
    if window is None:
        return
    for pair, usage in usages.of(window).items():
        labels = of_reservation | _labels(pair)
        yield Reading("reservation_amount", labels, _units(pair, usage.reserved))
        yield Reading("reservation_used", labels, _units(pair, usage.used))
        yield Reading("reservation_backfilled", labels, _units(pair, usage.backfilled))


def _amounts(name: str, labels: dict[str, str], amounts: Usage) -> Iterable[Reading]:
    for pair, amount in amounts.items():
        yield Reading(name, labels | _labels(pair), _units(pair, amount))


def _labels(pair: FlavorResource) -> dict[str, str]:
    return {"flavor": pair.flavor, "resource": pair.resource}


def _units(pair: FlavorResource, amount: Amount) -> float:
    """Return ``amount`` in cores, bytes or whole units; infinite beyond the int64 of Kueue's amounts."""
    if isinstance(amount, Unlimited) or amount >= _INT64_MAX:
        return math.inf
    return as_quantity(pair.resource, amount).nanos / NANOS


def _share(node: Node) -> float:
    share = dominant_share(node)
    return math.nan if share.infinite else float(share.thousandths)
