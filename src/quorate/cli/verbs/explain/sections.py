"""An explanation as text for a terminal."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from quorate.api.explanation import NO_START, TAKES_TURNS, Explanation, PodCounts, StartEstimate
from quorate.api.meta import Key, epoch
from quorate.cli.verbs.printing import Fields, ListSection, Section, TableSection
from quorate.inspect.formatting import format_duration, plural

_PENDING: Final = {"ClusterQueue": "Pending", "LocalQueue": "In its cluster queue"}


def explanation_sections(explanation: Explanation, now: float) -> tuple[Section, ...]:
    """Return the parts of the output; ``now`` in epoch seconds."""
    object_ = explanation.object
    facts = Fields((
        (object_.kind, str(Key(object_.namespace, object_.name))),
        ("Local queue", explanation.local_queue),
        ("Cluster queue", explanation.cluster_queue),
        (_PENDING.get(object_.kind, "Ahead of it"), _ahead(explanation)),
        ("Priority", "" if (priority := explanation.priority) is None else priority.text),
        ("State", explanation.state),
        ("Reason", explanation.message),
        ("Since", _moment(explanation.since)),
        ("Pods", _pods(explanation.pods)),
        ("Tried again", _moment(explanation.retry_at)),
        ("Planned", "" if (planned := explanation.planned_start) is None else planned.text),
        ("Clusters", "" if (dispatch := explanation.dispatch) is None else dispatch.text),
        ("Starts", _starts(explanation)),
        ("Estimated", _estimated(explanation.estimate, now)),
    ))  # fmt: skip
    numbers = tuple(
        (why.pod_set, why.flavor, why.resource, why.needed, why.free, why.short_by, why.at_most)
        for why in explanation.reasons
        if why.free
    )
    held = tuple(
        (holder.workload or holder.pod_group or "(not yours)", holder.cluster_queue, why.flavor, why.resource,
         holder.amount, "being evicted" if holder.evicted else "")
        for why in explanation.reasons
        for holder in why.held_by
    )  # fmt: skip
    users = "POD GROUP" if object_.kind == "PodGroup" else "WORKLOAD"
    causes = tuple(
        (reason.code, str(reason.object) if reason.object is not None else "", _moment(reason.since),
         _moment(reason.evaluated_at), reason.text)
        for reason in explanation.reasons
        if not reason.free
    )  # fmt: skip
    titles = ("POD SET", "FLAVOR", "RESOURCE", "NEEDS", "FREE", "SHORT BY", "AT MOST")
    return (
        facts,
        TableSection("Reasons", ("CODE", "OBJECT", "SINCE", "EVALUATED", "TEXT"), causes),
        _without_empty_columns("Numbers", titles, numbers),
        _without_empty_columns(
            "Quota used by", (users, "CLUSTERQUEUE", "FLAVOR", "RESOURCE", "AMOUNT", ""), held
        ),
        ListSection("Remedies", explanation.enough),
    )


def _without_empty_columns(
    title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> TableSection:
    used = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    return TableSection(
        title, tuple(columns[at] for at in used), tuple(tuple(row[at] for at in used) for row in rows)
    )


def _ahead(explanation: Explanation) -> str:
    if explanation.ahead is None or explanation.state not in {*TAKES_TURNS, "Active", "Inactive"}:
        return ""
    more = ", ..." if explanation.ahead > len(explanation.first_ahead) else ""
    names = f": {', '.join(explanation.first_ahead)}{more}" if explanation.first_ahead else ""
    return f"{explanation.ahead} pending{names}"


def _pods(counts: PodCounts | None) -> str:
    if counts is None:
        return ""
    numbers = {
        "requested": counts.requested, "admitted": counts.admitted,
        "created": counts.created, "running": counts.running,
    }  # fmt: skip
    return ", ".join(f"{number} {name}" for name, number in numbers.items() if number is not None)


def _starts(explanation: Explanation) -> str:
    estimate = explanation.estimate
    if explanation.state in NO_START:
        return NO_START[explanation.state]
    if estimate is None:
        return ""
    if estimate.p50 is None:
        return "in less than half of the simulated runs"
    if estimate.is_rough:
        return f"about {_moment(estimate.p50)}"
    p90 = _moment(estimate.p90) or "later than was simulated"
    return f"P50 {_moment(estimate.p50)}, P90 {p90}"


def _estimated(estimate: StartEstimate | None, now: float) -> str:
    """Return the age of the estimate, the number of runs, and how far it can be relied on."""
    if estimate is None:
        return ""
    confidence = f", {estimate.confidence} confidence" if estimate.confidence else ""
    age = format_duration(now - epoch(estimate.computed_at))
    return f"{age} ago, {plural(estimate.runs, 'run')}{confidence}, run times of {estimate.run_times}"


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"
