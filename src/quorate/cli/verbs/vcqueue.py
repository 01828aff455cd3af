"""``quorate vcqueue``: the commands of ``vcctl queue`` for Volcano's queues."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from quorate.api.meta import Key
from quorate.api.volcano import OPEN, Queue
from quorate.cli.lazy_commands import command_group
from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_commands import on_cluster
from quorate.cli.verbs.listing import list_objects, print_whole
from quorate.cli.verbs.printing import Column, age, is_structured, print_objects
from quorate.cli.verbs.writing import (
    Results,
    create_object,
    delete_object,
    one_name,
    patch_spec,
    send_command,
)
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.kube.clock import WallClock
from quorate.kube.resources import QUEUES

COMMAND_NAMESPACE: Final = "default"  # of Commands to queues, which have no namespace; as in vcctl

vcqueue = command_group("Queues of pod groups, as with vcctl queue: list, get, create, operate, delete.")


class State(StrEnum):
    OPEN = "Open"
    CLOSED = "Closed"


class Action(StrEnum):
    OPEN = "open"
    CLOSE = "close"
    UPDATE = "update"


_COMMANDS: Final = {Action.OPEN: ("OpenQueue", "opened"), Action.CLOSE: ("CloseQueue", "closed")}

Name = Annotated[
    str, typer.Argument(metavar="[NAME]", help="The queue.", autocompletion=completion.volcano_queues)
]
NameOption = Annotated[
    str,
    typer.Option(
        "--name",
        "-n",
        metavar="NAME",
        help="The same, as in vcctl.",
        autocompletion=completion.volcano_queues,
    ),
]


@vcqueue.command("list")
@on_cluster
async def list_(connection: Connection, output: o.Format = o.Output.TABLE) -> None:
    """List queues with the numbers of their pod groups by phase.

    [b]Example:[/b] quorate vcqueue list
    """
    now = WallClock().now()
    queues = await list_objects(connection, QUEUES, output)
    print_objects(_columns(now), sorted(queues, key=lambda queue: queue.metadata.name), output)


@vcqueue.command()
@on_cluster
async def get(
    connection: Connection, name: Name = "", name_option: NameOption = "", output: o.Format = o.Output.TABLE
) -> None:
    """Show one queue.

    [b]Example:[/b] quorate vcqueue get research
    """
    wanted = one_name(name, name_option, "-n")
    now = WallClock().now()
    key = Key("", wanted)
    if is_structured(output):
        await print_whole(connection, [(QUEUES, key)], output)
    else:
        print_objects(_columns(now), [await connection.client.get(QUEUES, key)], output)


def _columns(now: float) -> tuple[Column[Queue], ...]:
    return (
        Column("NAME", lambda queue: queue.metadata.name),
        Column("WEIGHT", lambda queue: str(queue.spec.weight)),
        Column("STATE", lambda queue: queue.status.state or OPEN),
        Column("PARENT", lambda queue: queue.parent),
        Column("INQUEUE", lambda queue: str(queue.status.inqueue)),
        Column("PENDING", lambda queue: str(queue.status.pending)),
        Column("RUNNING", lambda queue: str(queue.status.running)),
        Column("UNKNOWN", lambda queue: str(queue.status.unknown)),
        Column("COMPLETED", lambda queue: str(queue.status.completed)),
        Column("AGE", lambda queue: age(queue.metadata.creation_timestamp, now), wide=True),
    )


@vcqueue.command()
@on_cluster
async def create(
    connection: Connection,
    name: Name = "",
    name_option: NameOption = "",
    weight: Annotated[
        int, typer.Option("--weight", "-w", min=1, help="The weight of its share of the cluster.")
    ] = 1,
    state: Annotated[
        State,
        typer.Option("--state", "-S", help="[b]Closed[/b]: it admits no pod groups until it is opened."),
    ] = State.OPEN,
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
) -> None:
    """Create a queue.

    [b]Example:[/b] quorate vcqueue create research --weight 2
    """
    wanted = one_name(name, name_option, "-n")
    with Results(output, dry_run) as results:
        await create_object(connection, QUEUES, wanted, {"weight": weight}, results)
        if state is State.CLOSED and dry_run is o.DryRun.NONE:
            await _send(connection, Key("", wanted), Action.CLOSE, results)


@vcqueue.command()
@on_cluster
async def operate(
    connection: Connection,
    action: Annotated[Action, typer.Option("--action", "-a", help="[b]update[/b] changes the weight.")],
    name: Name = "",
    name_option: NameOption = "",
    weight: Annotated[int, typer.Option("--weight", "-w", min=0, help="For [b]update[/b].")] = 0,
    output: o.Format = o.Output.TABLE,
) -> None:
    """Open or close a queue, or change its weight.

    A closed queue admits no new pod groups; it is Closing until its present pod groups are completed. The
    controllers execute [b]open[/b] and [b]close[/b], which the command requests with a Command in namespace
    default.

    [b]Example:[/b] quorate vcqueue operate research --action close
    """
    wanted = one_name(name, name_option, "-n")
    if (action is Action.UPDATE) != bool(weight):
        raise UsageError("--weight is for --action update, which needs one of at least 1")
    key = Key("", wanted)
    with Results(output) as results:
        if action is Action.UPDATE:
            await patch_spec(connection, QUEUES, key, {"weight": weight}, "updated", results)
        else:
            await _send(connection, key, action, results)


async def _send(connection: Connection, key: Key, action: Action, results: Results) -> None:
    command, done = _COMMANDS[action]
    await send_command(connection, QUEUES, key, COMMAND_NAMESPACE, command, done, results)


@vcqueue.command()
@on_cluster
async def delete(
    connection: Connection, name: Name = "", name_option: NameOption = "", output: o.Format = o.Output.TABLE
) -> None:
    """Delete a queue.

    [b]Example:[/b] quorate vcqueue delete research
    """
    wanted = one_name(name, name_option, "-n")
    with Results(output) as results:
        await delete_object(connection, QUEUES, Key("", wanted), results)
