"""``quorate podgroup explain``: why pod groups are pending, by the rules of the scheduler."""

from typing import Annotated

import typer

from quorate.cli.configuration_options import SchedulerConf, SchedulerNames
from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs import printing as p
from quorate.cli.verbs.cluster_commands import in_namespace
from quorate.inspect.connection import Connection
from quorate.inspect.explain.pod_groups import PodGroupExplanation, explain_pod_groups, named_pod_groups
from quorate.inspect.gang_model import scheduler_settings
from quorate.inspect.listed_groups import native_pod_groups
from quorate.kube.clock import WallClock
from quorate.kube.resources import POD_GROUPS
from quorate.scheduler.feeds import load_model
from quorate.scheduler.scheduler import SCHEDULER_NAMES

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME|TYPE/NAME...",
        help="Names of pod groups or of their jobs: train, vcjob/train, job/train.",
        autocompletion=completion.pod_groups,
    ),
]


@in_namespace
async def explain(
    connection: Connection,
    names: Names,
    scheduler_conf: SchedulerConf = None,
    scheduler_name: SchedulerNames = None,
    output: o.ValueFormat = o.Output.TABLE,
) -> None:
    """Explain why a pod group is pending: each check, its position, and its next attempt.

    The command reads the whole cluster, evaluates it by the scheduler's rules, and writes nothing. It reads
    the configuration of an installed scheduler from the cluster, unless [b]--scheduler-conf[/b] is given, and
    prints which it used. If your scheduler has other names than the defaults, give [b]--scheduler-name[/b].
    A name may be that of a group of Volcano or of Kubernetes; of two with one name, both are explained.

    [b]Example:[/b] quorate podgroup explain vcjob/train
    """
    settings, origin = await scheduler_settings(connection.client, scheduler_conf)
    clock = WallClock()
    now = clock.now()
    client, namespace = connection.client, connection.namespace
    groups = (
        *(await client.list(POD_GROUPS, namespace)).items,
        *(await native_pod_groups(client, namespace) or ()),
    )
    chosen = [group for name in names for group in await named_pod_groups(connection, groups, name)]
    model = await load_model(
        connection.client,
        clock,
        scheduler_name or SCHEDULER_NAMES,
        disruption_budgets=settings.has_plugin("pdb"),
    )
    explanations = explain_pod_groups(model, chosen, settings, now)
    typer.echo(f"evaluated with {origin}", err=True)
    if p.is_structured(output):
        p.print_values(explanations, output)
        return
    for explanation in explanations:
        p.print_sections(explanation_sections(explanation))


def explanation_sections(explanation: PodGroupExplanation) -> tuple[p.Section, ...]:
    position = (
        "" if explanation.position is None else f"{explanation.position} of {explanation.waiting} waiting"
    )
    facts = p.Fields((
        ("Pod group", explanation.pod_group),
        ("Queue", explanation.queue),
        ("Phase", explanation.phase),
        ("Position", position),
        ("State", explanation.state),
        ("Requeued", _times(explanation.attempts) if explanation.attempts else ""),
        ("Not before", explanation.not_before),
    ))  # fmt: skip
    return (
        facts,
        p.TableSection(
            "Checks", ("CHECK", "RESULT"), tuple((check.name, check.says) for check in explanation.checks)
        ),
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
