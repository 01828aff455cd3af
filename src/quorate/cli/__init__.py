"""The ``quorate`` command: one module per command group, none of which decides anything."""

import asyncio
import sys

import typer

from quorate import __version__
from quorate.cli.controllers import controllers
from quorate.cli.crds import crds
from quorate.cli.demo import demo
from quorate.cli.deployment.command import manifests
from quorate.cli.failures import message_of
from quorate.cli.local import local
from quorate.cli.preflight.command import preflight
from quorate.cli.run.command import run
from quorate.cli.run.outcome import Exit
from quorate.cli.verbs.flavor import flavor
from quorate.cli.verbs.queue import queue
from quorate.cli.verbs.workload import workload
from quorate.cli.webhooks import webhooks

app = typer.Typer(
    name="quorate",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a fault of ours is shown as Python shows it
)
local.command()(run)
app.add_typer(local, name="local")
app.add_typer(queue, name="queue")
app.add_typer(workload, name="workload")
app.add_typer(flavor, name="flavor")
app.command()(demo)
app.command()(controllers)
app.command()(crds)
app.command()(manifests)
app.command()(preflight)
app.command()(webhooks)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quorate {__version__}")
        raise typer.Exit


@app.callback()
def quorate(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Decide which batch jobs may start, when, and where.

    [b]Start here:[/b] quorate demo
    """


def main() -> None:
    """Run the command line; what the outside world does wrong is one message and a non-zero exit code."""
    try:
        app()
    except asyncio.CancelledError:
        typer.echo("stopped", err=True)
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:
        message = message_of(error)
        if message is None:
            raise
        for line in message.splitlines():
            typer.echo(f"error: {line}", err=True)
        sys.exit(Exit.BAD_INPUT)
