"""The ``quorate`` command."""

import typer

from quorate import __version__

app = typer.Typer(name="quorate", no_args_is_help=True, add_completion=False, rich_markup_mode="rich")


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
    """Decide which batch jobs may start, when, and where."""


def main() -> None:
    app()
