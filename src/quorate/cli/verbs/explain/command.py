"""``quorate explain``: the state of a workload, job, pod, pod group or queue, and what would let it start."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer

from quorate.api.explanation import NO_WORKLOAD, Explanation
from quorate.cli.configuration_options import Config
from quorate.cli.exit_codes import Exit
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_commands import in_namespace
from quorate.cli.verbs.explain.sections import explanation_sections
from quorate.cli.verbs.options import Workloads
from quorate.cli.verbs.printing import is_structured, print_sections, print_value, print_values
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.targets import named_targets
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
    output: o.Format = o.Output.TABLE,
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
    output: o.Format = o.Output.TABLE,
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
    targets = [target for name in names for target in await named_targets(connection, name)]
    explanations = [await answers.of(target) for target in targets]
    for origin in answers.origins:
        typer.echo(origin, err=True)
    if is_structured(output):
        print_values(explanations, output)
    else:
        for explanation in explanations:
            _print(explanation, output)
    if watch and (code := await follow(connection, config, names[0], explanations, output)):
        raise typer.Exit(code)


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
        current = [await answers.of(target) for target in await named_targets(connection, name)]
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
    if is_structured(output):
        print_value(explanation, output)
    else:
        print_sections(explanation_sections(explanation, WallClock().now()))
