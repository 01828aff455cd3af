"""Questions to the user on the terminal."""

import typer

from quorate.cli.exit_codes import Exit


def confirm(question: str, *, err: bool) -> None:
    """Return if the user says yes.  Ask on standard error with ``err``.

    Raises ``typer.Abort`` for no, and ``typer.Exit`` with the code of an interruption at Ctrl-C.
    """
    try:
        typer.confirm(question, abort=True, err=err)
    except typer.Abort as refusal:
        if isinstance(refusal.__context__, KeyboardInterrupt):
            typer.echo(err=True)
            raise typer.Exit(Exit.INTERRUPTED) from None
        raise
