"""The reference page of all commands, generated from the command line interface."""

import re
from collections.abc import Iterator
from typing import Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from quorate.cli import CONNECTIONS, app
from quorate.cli.lazy_commands import LazyCommand

_HEAD: Final = """\
# Commands

This page is generated from the command line interface (`make reference`); `--help` after any command
prints the same text. With Quorate as a kubectl plugin, each command is also available as `kubectl quorate
COMMAND`.

An external error, such as a server that does not respond or a file that does not exist, prints one
message on standard error. The exit code is then 2, unless a command documents another one below.
"""
_BRACES: Final = re.compile(r"[{](.*?)[}]([.]{3})?")  # around required arguments, which is the usual case
_INNER: Final = r"\1"
_TYPE: Final = re.compile(r" <(list\[)?(path|str)\]?>$")  # repeats the name of the argument


def page() -> str:
    """Return the page as Markdown."""
    sections = (line for path, command in commands() for line in _section(("quorate", *path), command))
    return "\n".join([_HEAD, _of_connections(), *sections])


def _of_connections() -> str:
    """Return the options of ``quorate`` itself that concern the cluster."""
    root = typer.main.get_command(app)
    context = typer.Context(root, info_name="quorate")
    options = [option for option in root.params if getattr(option, "rich_help_panel", None) == CONNECTIONS]
    rows = [row for option in options if (row := _row(option, context)) is not None]
    text = "All commands on a cluster take these options, in any place:\n\n"
    return text + "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def commands() -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    """Yield every command with the words that name it, such as ``("queue", "list")``."""
    return _commands(typer.main.get_command(app), ())


def _commands(command: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    if isinstance(command, LazyCommand):
        command = command.load()
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from _commands(inner, (*path, name))
        return
    assert isinstance(command, TyperCommand), f"{path} is not a typer command"
    yield path, command


def _section(path: tuple[str, ...], command: TyperCommand) -> Iterator[str]:
    context = typer.Context(command, info_name=" ".join(path))
    yield f"## {' '.join(path)}\n"
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    yield f"    {_BRACES.sub(_INNER, usage)}\n"
    yield f"{_help(command.help or '')}\n"
    rows = [row for parameter in command.params if (row := _row(parameter, context)) is not None]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _help(text: str) -> str:
    """Return the help text without terminal markup, with the example as a code block."""
    plain = _plain(text).strip()
    description, example, command = plain.partition("Example: ")
    listed = re.sub(r"^(\d+) (.*)$", r"- \1: \2", description.strip(), flags=re.MULTILINE)
    listed = listed.replace("Exit code:\n", "Exit code:\n\n")
    return f"{listed}\n\n    {command.strip()}" if example else listed


def _plain(text: str) -> str:
    return re.sub(r"\[/?b\]", "", text).replace("\b", "")


def _row(parameter: object, context: typer.Context) -> str | None:
    assert isinstance(parameter, TyperArgument | TyperOption), f"{parameter} is not a typer parameter"
    record = parameter.get_help_record(context)
    if record is None:
        return None
    record = _TYPE.sub("", record[0]), record[1]
    syntax, text = (_plain(text).replace("|", "\\|").replace("\n", " ") for text in record)
    return f"| `{syntax}` | {text} |"
