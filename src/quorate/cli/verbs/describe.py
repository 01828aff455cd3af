"""Queues and workloads in words: facts by name, and tables of what there are several of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import typer
from rich.console import Console

from quorate.api.core import Resources
from quorate.api.kueue import ClusterQueue, FlavorUsage, LocalQueue, ResourceGroup, Workload
from quorate.api.meta import Condition, LabelSelector
from quorate.cli.run.formatting import format_resources
from quorate.cli.verbs.columns import is_active, status_of, why_inactive
from quorate.cli.verbs.printing import age, broken, print_rows


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what is so; those with nothing to say are left out."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """Several of one sort; not shown when there is none."""

    heading: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences; not shown when there is none."""

    heading: str
    sentences: tuple[str, ...]


Section = Facts | Listed | Lines


def print_sections(sections: Sequence[Section]) -> None:
    for section in sections:
        match section:
            case Facts(rows):
                told = [(name, text) for name, text in rows if text]
                width = max(len(name) for name, _ in told) + 3
                for name, text in told:
                    _say(f"{name + ':':<{width}}{text}", width)
            case Listed(heading, titles, rows) if rows:
                typer.echo(f"\n{heading}:")
                print_rows(titles, rows, indent=2)
            case Lines(heading, sentences) if sentences:
                typer.echo(f"\n{heading}:")
                for sentence in sentences:
                    _say(f"- {sentence}", 2)
            case Listed() | Lines():
                pass
            case _:
                assert_never(section)
    typer.echo()


def _say(text: str, start: int) -> None:
    for line in broken(Console(), text, start):
        typer.echo(line)


def cluster_queue_in_words(
    queue: ClusterQueue, local_queues: Sequence[LocalQueue], now: float
) -> tuple[Section, ...]:
    spec, status = queue.spec, queue.status
    preemption = spec.preemption
    facts = Facts((
        ("Name", queue.metadata.name),
        ("Cohort", spec.cohort_name or "none"),
        ("Active", _active(queue)),
        ("Stop policy", spec.stop_policy),
        ("Strategy", spec.queueing_strategy),
        ("Namespaces", _namespaces(spec.namespace_selector)),
        ("Preemption", f"within the queue {preemption.within_cluster_queue}, "
                       f"reclaim in the cohort {preemption.reclaim_within_cohort}, "
                       f"borrow in the cohort {preemption.borrow_within_cohort.policy}"),
        ("Checks", ", ".join(rule.name for rule in spec.admission_checks_strategy.admission_checks)),
        ("Workloads", f"{status.pending_workloads} pending, {status.reserving_workloads} with quota, "
                      f"{status.admitted_workloads} admitted"),
        ("Age", age(queue.metadata.creation_timestamp, now)),
    ))  # fmt: skip
    own = [each for each in local_queues if each.spec.cluster_queue == queue.metadata.name]
    lines = tuple(
        (each.metadata.namespace, each.metadata.name, str(each.status.pending_workloads),
         str(each.status.admitted_workloads))
        for each in own
    )  # fmt: skip
    return (
        facts,
        _quota(spec.resource_groups, status.flavors_reservation, status.flavors_usage),
        Listed("Local queues", ("NAMESPACE", "NAME", "PENDING", "ADMITTED"), lines),
    )


def local_queue_in_words(queue: LocalQueue, now: float) -> tuple[Section, ...]:
    status = queue.status
    facts = Facts((
        ("Name", queue.metadata.name),
        ("Namespace", queue.metadata.namespace),
        ("Cluster queue", queue.spec.cluster_queue),
        ("Active", _active(queue)),
        ("Stop policy", queue.spec.stop_policy),
        ("Workloads", f"{status.pending_workloads} pending, {status.reserving_workloads} with quota, "
                      f"{status.admitted_workloads} admitted"),
        ("Age", age(queue.metadata.creation_timestamp, now)),
    ))  # fmt: skip
    admitted = _totals(status.flavors_usage)
    rows = tuple(
        (flavor.name, each.name, str(each.total), admitted.get((flavor.name, each.name), "0"))
        for flavor in status.flavors_reservation
        for each in flavor.resources
    )
    return facts, Listed("Use", ("FLAVOR", "RESOURCE", "RESERVED", "ADMITTED"), rows)


def workload_in_words(workload: Workload, cluster_queue: str, now: float) -> tuple[Section, ...]:
    spec, status = workload.spec, workload.status
    owners = ", ".join(f"{each.kind} {each.name}" for each in workload.metadata.owner_references)
    facts = Facts((
        ("Name", workload.metadata.name),
        ("Namespace", workload.metadata.namespace),
        ("Job", owners or "none"),
        ("Local queue", spec.queue_name),
        ("Cluster queue", cluster_queue),
        ("Priority", _priority(workload)),
        ("Status", status_of(workload).upper() + ("" if spec.active else ", stopped")),
        ("Evictions", ", ".join(_evictions(workload))),
        ("Age", age(workload.metadata.creation_timestamp, now)),
    ))  # fmt: skip
    return (
        facts,
        _pod_sets(workload),
        Listed(
            "Admission checks",
            ("NAME", "STATE", "MESSAGE"),
            tuple((each.name, each.state, each.message) for each in status.admission_checks),
        ),
        Listed(
            "Conditions",
            ("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"),
            tuple(_condition(each, now) for each in status.conditions),
        ),
    )


def _pod_sets(workload: Workload) -> Listed:
    assigned = workload.status.admission.pod_set_assignments if workload.status.admission else ()
    by_name = {each.name: each for each in assigned}
    asked = {each.name: each.resources for each in workload.status.resource_requests}
    rows = []
    for pod_set in workload.spec.pod_sets:
        given = by_name.get(pod_set.name)
        least = f" (at least {pod_set.min_count})" if isinstance(pod_set.min_count, int) else ""
        resources: Resources = given.resource_usage if given is not None else asked.get(pod_set.name, {})
        flavors = given.flavors if given is not None else {}
        rows.append((
            pod_set.name,
            f"{pod_set.count}{least}",
            "" if given is None else str(given.count if given.count is not None else pod_set.count),
            format_resources(resources) if resources else "",
            ", ".join(f"{resource}: {flavor}" for resource, flavor in sorted(flavors.items())),
        ))  # fmt: skip
    return Listed("Pod sets", ("NAME", "PODS", "ADMITTED", "REQUESTS", "FLAVORS"), tuple(rows))


def _priority(workload: Workload) -> str:
    class_ = workload.spec.priority_class_ref
    return f"{workload.spec.priority or 0}" + (f" ({class_.name})" if class_ is not None else "")


def _evictions(workload: Workload) -> list[str]:
    stats = workload.status.scheduling_stats
    return [f"{each.count} x {each.reason}" for each in stats.evictions] if stats is not None else []


def _condition(condition: Condition, now: float) -> tuple[str, ...]:
    since = age(condition.last_transition_time, now)
    return condition.type, condition.status, condition.reason, since, condition.message


def _active(queue: ClusterQueue | LocalQueue) -> str:
    return "yes" if is_active(queue) else f"no: {why_inactive(queue)}"


def _namespaces(selector: LabelSelector | None) -> str:
    if selector is None:
        return "none: there is no namespaceSelector ({} would mean all)"
    labels = [f"{name}={value}" for name, value in sorted(selector.match_labels.items())]
    labels += [
        f"{each.key} {each.operator} {','.join(each.values)}".rstrip() for each in selector.match_expressions
    ]
    return f"with {', '.join(labels)}" if labels else "all"


def _quota(
    groups: Sequence[ResourceGroup], reserved: Sequence[FlavorUsage], admitted: Sequence[FlavorUsage]
) -> Listed:
    held, used, borrowed = _totals(reserved), _totals(admitted), _borrowed(reserved)
    rows = []
    for group in groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                pair = flavor.name, quota.name
                rows.append((
                    *pair,
                    str(quota.nominal_quota),
                    "any" if quota.borrowing_limit is None else str(quota.borrowing_limit),
                    "all" if quota.lending_limit is None else str(quota.lending_limit),
                    held.get(pair, "0"),
                    used.get(pair, "0"),
                    borrowed.get(pair, "0"),
                ))  # fmt: skip
    titles = ("FLAVOR", "RESOURCE", "NOMINAL", "BORROWS", "LENDS", "RESERVED", "ADMITTED", "BORROWED")
    return Listed("Quota", titles, tuple(rows))


def _totals(usages: Sequence[FlavorUsage]) -> dict[tuple[str, str], str]:
    return {(flavor.name, each.name): str(each.total) for flavor in usages for each in flavor.resources}


def _borrowed(usages: Sequence[FlavorUsage]) -> dict[tuple[str, str], str]:
    return {
        (flavor.name, each.name): str(each.borrowed)
        for flavor in usages
        for each in flavor.resources
        if each.borrowed
    }
