"""``quorate explain``: the state of a workload, job, pod, pod group or queue, and what would let it start."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from quorate.api.explanation import (
    NO_START,
    NO_WORKLOAD,
    TAKES_TURNS,
    Explanation,
    PodCounts,
    Reason,
    StartEstimate,
)
from quorate.api.meta import Key, epoch
from quorate.api.quantity import parse_quantity
from quorate.cli.configuration_options import Config
from quorate.cli.exit_codes import Exit
from quorate.cli.verbs import options as o
from quorate.cli.verbs import printing as p
from quorate.cli.verbs.cluster_commands import in_namespace
from quorate.cli.verbs.options import Workloads
from quorate.cli.verbs.waiting import until_answered
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.targets import named_targets
from quorate.inspect.formatting import format_duration, format_quantity, plural
from quorate.kube.clock import WallClock

POLL_S: Final = 2.0  # between two questions to the controllers
RELOAD_S: Final = 10.0  # between two loads of the whole cluster
_STARTED: Final = ("Running", "RunningInPart", "Finished")
_NOT_BY_ITSELF: Final = ("Deactivated", "NeverFits", "Stuck")

Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        "-w",
        help="Print each change until it starts, or cannot by itself; of a queue until Ctrl-C.",
    ),
]


@in_namespace
async def explain(
    connection: Connection,
    names: Workloads,
    config: Config = None,
    watch: Watch = False,
    output: o.ValueFormat = o.Output.TABLE,
) -> None:
    """Explain the state of a workload, job, pod, pod group or queue, and what would let it start.

    The controllers answer, with their model and their Configuration. Where they do not serve explanations,
    or with [b]--config[/b], the command reads the whole cluster and evaluates it by their rules. Without the
    permission for that it shows what the status of the workload says. It prints which of them it did.

    [b]Example:[/b] quorate explain job/train
    """
    await _explain(connection, names, config, watch, output)


@in_namespace
async def explain_workloads(
    connection: Connection,
    names: Workloads,
    config: Config = None,
    watch: Watch = False,
    output: o.ValueFormat = o.Output.TABLE,
) -> None:
    """Explain why a workload is pending, with numbers, and what would let it start.

    The same as [b]quorate explain[/b].

    [b]Example:[/b] quorate workload explain job/train
    """
    await _explain(connection, names, config, watch, output)


async def _explain(
    connection: Connection, names: list[str], config: Path | None, watch: bool, output: o.Output
) -> None:
    if watch and len(names) != 1:
        raise UsageError("--watch follows one object (name one)")
    answers = Answers(connection, config)
    explanations = await _explanations(connection, answers, names)
    for origin in answers.origins:
        typer.echo(origin, err=True)
    if p.is_structured(output):
        p.print_values(explanations, output)
    else:
        for explanation in explanations:
            _print(explanation, output)
    if watch and (code := await follow(connection, config, names[0], explanations, output)):
        raise typer.Exit(code)


async def _explanations(connection: Connection, answers: Answers, names: list[str]) -> list[Explanation]:
    targets = [target for name in names for target in await named_targets(connection, name)]
    return [await answers.of(target) for target in targets]


async def follow(
    connection: Connection, config: Path | None, name: str, last: list[Explanation], output: o.Output
) -> Exit:
    """Print each change of the explanations until all have started, or one cannot start by itself.

    Queues do not start: they are followed until this is cancelled.
    """
    pause_s = POLL_S
    while not all(explanation.state in _STARTED for explanation in last):
        if any(map(_is_stuck, last)):
            return Exit.NO_PROGRESS
        await asyncio.sleep(pause_s)
        answers = Answers(connection, config)
        current = await until_answered(partial(_explanations, connection, answers, [name]))
        for explanation in current:
            if not any(_says_the_same(explanation, before) for before in last):
                _print(explanation, output)
        pause_s, last = (RELOAD_S if answers.has_model else POLL_S), current
    return Exit.COMPLETED


def _is_stuck(explanation: Explanation) -> bool:
    """Return True if nothing changes by itself."""
    is_new = any(reason.code == NO_WORKLOAD for reason in explanation.reasons)
    return explanation.state in _NOT_BY_ITSELF or (explanation.state == "NotQueued" and not is_new)


def _says_the_same(one: Explanation, other: Explanation) -> bool:
    return (one.object, one.state, one.message, one.ahead) == (
        other.object, other.state, other.message, other.ahead,
    )  # fmt: skip


def _print(explanation: Explanation, output: o.Output) -> None:
    if p.is_structured(output):
        p.print_value(explanation, output)
    else:
        p.print_sections(explanation_sections(explanation, WallClock().now()))


_PENDING: Final = {"ClusterQueue": "Pending", "LocalQueue": "In its cluster queue"}


def explanation_sections(explanation: Explanation, now: float) -> tuple[p.Section, ...]:
    """Return the parts of the output; ``now`` in epoch seconds."""
    object_ = explanation.object
    facts = p.Fields((
        (object_.kind, str(Key(object_.namespace, object_.name))),
        ("Local queue", "" if object_.kind == "LocalQueue" else explanation.local_queue),
        ("Cluster queue", "" if object_.kind == "ClusterQueue" else explanation.cluster_queue),
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
        (why.pod_set, why.flavor, why.resource, why.needed, _amount(why, why.free), why.short_by,
         _amount(why, why.at_most))
        for why in explanation.reasons
        if why.free
    )  # fmt: skip
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
        p.TableSection("Reasons", ("CODE", "OBJECT", "SINCE", "EVALUATED", "TEXT"), causes),
        _without_empty_columns("Numbers", titles, numbers),
        _without_empty_columns(
            "Quota used by", (users, "CLUSTERQUEUE", "FLAVOR", "RESOURCE", "AMOUNT", ""), held
        ),
        p.ListSection("Remedies", explanation.enough),
    )


def _amount(why: Reason, amount: str) -> str:
    """Return the amount; of a queue, to which none is compared, rounded down in a larger unit."""
    is_long = amount.isdigit() and not why.needed
    return format_quantity(parse_quantity(amount)) if is_long else amount


def _without_empty_columns(
    title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> p.TableSection:
    used = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    return p.TableSection(
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
