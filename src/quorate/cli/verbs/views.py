"""Queues and workloads as rows of lists (columns named as in kueuectl) and as descriptions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from quorate.api.core import Resources
from quorate.api.explanation import NO_START, TAKES_TURNS, ExplanationSummary, StartEstimate
from quorate.api.kueue import ACTIVE, ClusterQueue, FlavorUsage, LocalQueue, ResourceGroup, Workload
from quorate.api.meta import (
    Key,
    LabelSelector,
    OwnerReference,
    epoch,
    find_condition,
    is_true,
    true_condition,
)
from quorate.api.quantity import Quantity
from quorate.cli.verbs.printing import Column, Fields, Section, TableSection, age, conditions_section
from quorate.inspect.explain.summaries import Summaries
from quorate.inspect.formatting import amount_cells, amount_columns, format_duration
from quorate.inspect.status.capacity import quota_of, usage_of
from quorate.inspect.workload_lists import Status, status_of
from quorate.queueing import conditions as c

_LONGEST_JOB_TYPE: Final = 30
_NOTHING: Final = Quantity(0)
_FlavorResource = tuple[str, str]


def is_active(queue: ClusterQueue | LocalQueue) -> bool:
    return is_true(queue.status.conditions, ACTIVE)


def reason_of_active(queue: ClusterQueue | LocalQueue) -> str:
    """Return the reason of the condition ``Active``; empty without one."""
    active = find_condition(queue.status.conditions, ACTIVE)
    return "" if active is None else active.reason


def why_inactive(queue: ClusterQueue | LocalQueue) -> str:
    active = find_condition(queue.status.conditions, ACTIVE)
    if active is None:
        return "not evaluated yet"
    if isinstance(queue, LocalQueue) and active.status != "True" and queue.spec.stop_policy == "None":
        name = queue.spec.cluster_queue  # the condition does not say what is wrong with it
        is_absent = active.reason == "ClusterQueueDoesNotExist"
        problem = "doesn't exist" if is_absent else f"is inactive (quorate explain cq/{name})"
        return f"ClusterQueue {name} {problem}"
    return "" if active.status == "True" else active.message


def cluster_queue_columns(queues: Sequence[ClusterQueue], now: float) -> Sequence[Column[ClusterQueue]]:
    """Return the columns; those after the age are what is used of the nominal quota, over all flavors."""
    used = [usage_of(queue.status.flavors_reservation) for queue in queues]
    titles, amounts = amount_columns(used, [quota_of(queue) for queue in queues])
    cells = {queue.metadata.name: row for queue, row in zip(queues, amounts, strict=True)}

    def used_of_quota(number: int) -> Callable[[ClusterQueue], str]:
        return lambda queue: cells[queue.metadata.name][number]

    return (
        Column("NAME", lambda queue: queue.metadata.name),
        Column("COHORT", lambda queue: queue.spec.cohort_name),
        Column("PENDING WORKLOADS", lambda queue: str(queue.status.pending_workloads)),
        Column("ADMITTED WORKLOADS", lambda queue: str(queue.status.admitted_workloads)),
        Column("ACTIVE", lambda queue: str(is_active(queue)).lower()),
        Column("AGE", lambda queue: age(queue.metadata.creation_timestamp, now)),
        *(Column(title, used_of_quota(number)) for number, title in enumerate(titles)),
        Column("STRATEGY", lambda queue: queue.spec.queueing_strategy, wide=True),
        Column("STOP POLICY", lambda queue: queue.spec.stop_policy, wide=True),
        Column("REASON", reason_of_active, wide=True),
        Column("WHY INACTIVE", why_inactive, wide=True),
    )


def local_queue_columns(now: float, *, namespaces: bool) -> Sequence[Column[LocalQueue]]:
    columns: tuple[Column[LocalQueue], ...] = (
        Column("NAME", lambda queue: queue.metadata.name),
        Column("CLUSTERQUEUE", lambda queue: queue.spec.cluster_queue),
        Column("PENDING WORKLOADS", lambda queue: str(queue.status.pending_workloads)),
        Column("ADMITTED WORKLOADS", lambda queue: str(queue.status.admitted_workloads)),
        Column("ACTIVE", lambda queue: str(is_active(queue)).lower()),
        Column("AGE", lambda queue: age(queue.metadata.creation_timestamp, now)),
        Column("STOP POLICY", lambda queue: queue.spec.stop_policy, wide=True),
        Column("REASON", reason_of_active, wide=True),
        Column("WHY INACTIVE", why_inactive, wide=True),
    )
    if not namespaces:
        return columns
    return (Column("NAMESPACE", lambda queue: queue.metadata.namespace), *columns)


def workload_columns(
    now: float,
    cluster_queues: Mapping[Key, str],
    states: Summaries,
    positions: Mapping[Key, int],
    estimates: Mapping[Key, StartEstimate],
    *,
    namespaces: bool,
) -> Sequence[Column[Workload]]:
    """Return the columns; ``cluster_queues`` by local queue, ``positions`` from 0 in each local queue.

    Only a workload that waits for its turn has a position and a time at which it starts.
    """

    def position(workload: Workload) -> str:
        place = positions.get(workload.metadata.key)
        waits = states.of_workload(workload).state in TAKES_TURNS
        return str(place) if place is not None and waits else ""

    def priority(workload: Workload) -> str:
        raised = states.of_workload(workload).priority
        own = workload.spec.priority or 0
        return str(own) if raised is None else f"{own} ({raised.raised} by waiting)"

    def planned(workload: Workload) -> str:
        start = states.of_workload(workload).planned_start
        if start is None or start.at is None:
            return ""
        return f"in {format_duration(start.at.timestamp() - now)}"

    def starts(workload: Workload) -> str:
        if status_of(workload) is not Status.PENDING:
            return ""
        estimate = estimates.get(workload.metadata.key)
        return NO_START.get(states.of_workload(workload).state) or starts_in(estimate, now)

    columns: tuple[Column[Workload], ...] = (
        Column("NAME", lambda workload: workload.metadata.name),
        Column("JOB TYPE", _of_owners(_job_type)),
        Column("JOB NAME", _of_owners(lambda owner: owner.name)),
        Column("LOCALQUEUE", lambda workload: workload.spec.queue_name),
        Column("CLUSTERQUEUE", lambda workload: cluster_queue_of(workload, cluster_queues)),
        Column("STATUS", lambda workload: status_of(workload).upper()),
        Column("POSITION IN QUEUE", position),
        Column("STARTS IN P50-P90", starts),
        Column("EXEC TIME", lambda workload: _execution_time(workload, now)),
        Column("AGE", lambda workload: age(workload.metadata.creation_timestamp, now)),
        Column("STATE", lambda workload: states.of_workload(workload).state),
        Column("REASON", lambda workload: states.of_workload(workload).code),
        Column("PRIORITY", priority, wide=True),
        Column("PLANNED START", planned, wide=True),
        Column("WHY", lambda workload: states.of_workload(workload).message, wide=True),
    )
    if not namespaces:
        return columns
    return (Column("NAMESPACE", lambda workload: workload.metadata.namespace), *columns)


def starts_in(estimate: StartEstimate | None, now: float) -> str:
    """Return the time until the start in half and in nine of ten simulated runs; empty without an estimate.

    ``later`` stands for a start after the time that is simulated.  With too few runs it is one rough time.
    """
    if estimate is None:
        return ""
    if estimate.p50 is None:
        return "later"
    if estimate.is_rough:
        return f"about {format_duration(epoch(estimate.p50) - now)}"
    p50, p90 = (
        "later" if moment is None else format_duration(epoch(moment) - now)
        for moment in (estimate.p50, estimate.p90)
    )
    return f"{p50}-{p90}"


def cluster_queue_of(workload: Workload, cluster_queues: Mapping[Key, str]) -> str:
    if workload.status.admission is not None:
        return workload.status.admission.cluster_queue
    return cluster_queues.get(Key(workload.metadata.namespace, workload.spec.queue_name), "")


def _of_owners(text: Callable[[OwnerReference], str]) -> Callable[[Workload], str]:
    return lambda workload: ", ".join(map(text, workload.metadata.owner_references))


def _job_type(owner: OwnerReference) -> str:
    group, _, _ = owner.api_version.rpartition("/")
    name = f"{owner.kind.lower()}.{group}" if group else owner.kind.lower()
    return name if len(name) <= _LONGEST_JOB_TYPE else f"{name[: _LONGEST_JOB_TYPE - 3]}..."


def _execution_time(workload: Workload, now: float) -> str:
    """Return the time from admission to the end or now; empty before admission."""
    admitted = true_condition(workload.status.conditions, c.ADMITTED)
    if admitted is None:
        return ""
    finished = true_condition(workload.status.conditions, c.FINISHED)
    ended = now if finished is None else c.transition_time(finished)
    return format_duration(ended - c.transition_time(admitted))


def describe_cluster_queue(
    queue: ClusterQueue, local_queues: Sequence[LocalQueue], now: float
) -> tuple[Section, ...]:
    spec, status = queue.spec, queue.status
    preemption = spec.preemption
    facts = Fields((
        ("Name", queue.metadata.name),
        ("Cohort", spec.cohort_name or "none"),
        ("Active", _active(queue)),
        ("Stop policy", spec.stop_policy),
        ("Strategy", spec.queueing_strategy),
        ("Namespaces", _namespaces(spec.namespace_selector)),
        ("Preemption", f"withinClusterQueue {preemption.within_cluster_queue}, "
                       f"reclaimWithinCohort {preemption.reclaim_within_cohort}, "
                       f"borrowWithinCohort {preemption.borrow_within_cohort.policy}"),
        ("Checks", ", ".join(rule.name for rule in spec.admission_checks_strategy.admission_checks)),
        ("Workloads", f"{status.pending_workloads} pending, {status.reserving_workloads} with quota, "
                      f"{status.admitted_workloads} admitted"),
        ("Age", age(queue.metadata.creation_timestamp, now)),
    ))  # fmt: skip
    own_queues = [
        local_queue for local_queue in local_queues if local_queue.spec.cluster_queue == queue.metadata.name
    ]
    lines = tuple(
        (own_queue.metadata.namespace, own_queue.metadata.name, str(own_queue.status.pending_workloads),
         str(own_queue.status.admitted_workloads))
        for own_queue in own_queues
    )  # fmt: skip
    return (
        facts,
        _quota(spec.resource_groups, status.flavors_reservation, status.flavors_usage),
        TableSection("Local queues", ("NAMESPACE", "NAME", "PENDING", "ADMITTED"), lines),
    )


def describe_local_queue(queue: LocalQueue, now: float) -> tuple[Section, ...]:
    status = queue.status
    facts = Fields((
        ("Name", queue.metadata.name),
        ("Namespace", queue.metadata.namespace),
        ("Cluster queue", queue.spec.cluster_queue),
        ("Active", _active(queue)),
        ("Stop policy", queue.spec.stop_policy),
        ("Workloads", f"{status.pending_workloads} pending, {status.reserving_workloads} with quota, "
                      f"{status.admitted_workloads} admitted"),
        ("Age", age(queue.metadata.creation_timestamp, now)),
    ))  # fmt: skip
    reserved, admitted = _totals(status.flavors_reservation), _totals(status.flavors_usage)
    amounts = {pair: (total, admitted.get(pair, _NOTHING)) for pair, total in reserved.items()}
    return facts, TableSection("Use", ("FLAVOR", "RESOURCE", "RESERVED", "ADMITTED"), _amount_rows(amounts))


def _amount_rows(amounts: Mapping[_FlavorResource, Sequence[Quantity | None]]) -> tuple[tuple[str, ...], ...]:
    """Return a row for each flavor and resource; the amounts of a resource are in the same unit."""
    cells = amount_cells([(resource, row) for (_, resource), row in amounts.items()])
    return tuple((*pair, *row) for pair, row in zip(amounts, cells, strict=True))


def describe_workload(
    workload: Workload, explained: ExplanationSummary, cluster_queue: str, now: float
) -> tuple[Section, ...]:
    spec, status = workload.spec, workload.status
    owners = ", ".join(f"{owner.kind} {owner.name}" for owner in workload.metadata.owner_references)
    facts = Fields((
        ("Name", workload.metadata.name),
        ("Namespace", workload.metadata.namespace),
        ("Job", owners or "none"),
        ("Local queue", spec.queue_name),
        ("Cluster queue", cluster_queue),
        ("Priority", _priority(workload)),
        ("Status", status_of(workload).upper() + ("" if spec.active else ", stopped")),
        ("State", explained.state + (f" ({explained.code})" if explained.code else "")),
        ("Reason", explained.message),
        ("Evictions", ", ".join(_evictions(workload))),
        ("Age", age(workload.metadata.creation_timestamp, now)),
    ))  # fmt: skip
    return (
        facts,
        _pod_sets(workload),
        TableSection(
            "Admission checks",
            ("NAME", "STATE", "MESSAGE"),
            tuple((check.name, check.state, check.message) for check in status.admission_checks),
        ),
        conditions_section(status.conditions, now),
    )


def _pod_sets(workload: Workload) -> TableSection:
    assigned = workload.status.admission.pod_set_assignments if workload.status.admission else ()
    by_name = {assignment.name: assignment for assignment in assigned}
    requested = {request.name: request.resources for request in workload.status.resource_requests}
    rows: list[list[str]] = []
    used: list[Resources] = []
    for pod_set in workload.spec.pod_sets:
        assignment = by_name.get(pod_set.name)
        least = f" (at least {pod_set.min_count})" if isinstance(pod_set.min_count, int) else ""
        resources: Resources = (
            assignment.resource_usage if assignment is not None else requested.get(pod_set.name, {})
        )
        flavors = assignment.flavors if assignment is not None else {}
        admitted = ""
        if assignment is not None:
            admitted = str(pod_set.count if assignment.count is None else assignment.count)
        used.append(resources)
        flavor_names = ", ".join(f"{resource}: {flavor}" for resource, flavor in sorted(flavors.items()))
        rows.append([pod_set.name, f"{pod_set.count}{least}", admitted, flavor_names])
    titles, amounts = amount_columns(used, [None] * len(used))
    table = tuple((*row[:3], *cells, row[3]) for row, cells in zip(rows, amounts, strict=True))
    return TableSection("Pod sets", ("NAME", "PODS", "ADMITTED", *titles, "FLAVORS"), table)


def _priority(workload: Workload) -> str:
    class_ = workload.spec.priority_class_ref
    return f"{workload.spec.priority or 0}" + (f" ({class_.name})" if class_ is not None else "")


def _evictions(workload: Workload) -> list[str]:
    stats = workload.status.scheduling_stats
    return (
        [f"{eviction.count} x {eviction.reason}" for eviction in stats.evictions] if stats is not None else []
    )


def _active(queue: ClusterQueue | LocalQueue) -> str:
    return "yes" if is_active(queue) else f"no: {why_inactive(queue)}"


def _namespaces(selector: LabelSelector | None) -> str:
    if selector is None:
        return "none, because namespaceSelector is not set ({} selects all)"
    labels = [f"{name}={value}" for name, value in sorted(selector.match_labels.items())]
    labels += [
        f"{expression.key} {expression.operator} {','.join(expression.values)}".rstrip()
        for expression in selector.match_expressions
    ]
    return f"with {', '.join(labels)}" if labels else "all"


def _quota(
    groups: Sequence[ResourceGroup], reserved: Sequence[FlavorUsage], admitted: Sequence[FlavorUsage]
) -> TableSection:
    held, used, borrowed = _totals(reserved), _totals(admitted), _borrowed(reserved)
    amounts: dict[_FlavorResource, tuple[Quantity | None, ...]] = {}
    for group in groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                pair = flavor.name, quota.name
                amounts[pair] = (
                    quota.nominal_quota, quota.borrowing_limit, quota.lending_limit,
                    *(totals.get(pair, _NOTHING) for totals in (held, used, borrowed)),
                )  # fmt: skip
    rows = tuple(
        (flavor, resource, nominal, borrows or "any", lends or "all", *totals)
        for flavor, resource, nominal, borrows, lends, *totals in _amount_rows(amounts)
    )
    titles = ("FLAVOR", "RESOURCE", "NOMINAL", "BORROWS", "LENDS", "RESERVED", "ADMITTED", "BORROWED")
    return TableSection("Quota", titles, rows)


def _totals(usages: Sequence[FlavorUsage]) -> dict[_FlavorResource, Quantity]:
    return {
        (flavor.name, resource.name): resource.total for flavor in usages for resource in flavor.resources
    }


def _borrowed(usages: Sequence[FlavorUsage]) -> dict[_FlavorResource, Quantity]:
    return {
        (flavor.name, resource.name): resource.borrowed
        for flavor in usages
        for resource in flavor.resources
        if resource.borrowed
    }
