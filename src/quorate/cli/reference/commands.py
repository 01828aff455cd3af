"""The page of all commands, made from the command line itself."""

import re
from collections.abc import Iterator
from typing import Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from quorate.cli import app
from quorate.cli.lazy_commands import LazyCommand

_HEAD: Final = """\
# Commands

Made from the command line itself (`make reference`); `--help` after any command says the same. As a plugin of
kubectl each is `kubectl quorate COMMAND`.

What the outside world does wrong, such as a server that does not answer or a file that is not there, is one
message on standard error and the exit code 2, unless a command says otherwise below.
"""
_BRACES: Final = re.compile(r"[{](.*?)[}]([.]{3})?")  # around what must be there, which is the usual case
_INNER: Final = r"\1"
_TYPE: Final = re.compile(r" <(list\[)?(path|str)\]?>$")  # says nothing that the name does not


def page() -> str:
    """The page, in Markdown."""
    return "\n".join([_HEAD, *_commands(typer.main.get_command(app), ("quorate",))])


def _commands(command: object, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(command, LazyCommand):
        command = command.load()
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from _commands(inner, (*path, name))
        return
    assert isinstance(command, TyperCommand), f"{path} is made by something else than typer"
    context = typer.Context(command, info_name=" ".join(path))
    yield f"## {' '.join(path)}\n"
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    yield f"    {_BRACES.sub(_INNER, usage)}\n"
    yield f"{_help(command.help or '')}\n"
    rows = [row for parameter in command.params if (row := _row(parameter, context)) is not None]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _help(text: str) -> str:
    """The help as it is written, without the marks for a terminal; an example as code."""
    plain = _plain(text).strip()
    told, example, command = plain.partition("Example: ")
    listed = re.sub(r"^(\d+) (.*)$", r"- \1: \2", told.strip(), flags=re.MULTILINE)
    listed = listed.replace("Exit code:\n", "Exit code:\n\n")
    return f"{listed}\n\n    {command.strip()}" if example else listed


def _plain(text: str) -> str:
    return re.sub(r"\[/?b\]", "", text).replace("\b", "")


def _row(parameter: object, context: typer.Context) -> str | None:
    assert isinstance(parameter, TyperArgument | TyperOption), f"{parameter} is made by something else"
    record = parameter.get_help_record(context)
    if record is None:
        return None
    record = _TYPE.sub("", record[0]), record[1]
    written, told = (_plain(each).replace("|", "\\|").replace("\n", " ") for each in record)
    return f"| `{written}` | {told} |"
