"""Commands that are imported on first use, so that each command starts fast."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup

from quorate.quick_import import quick_import


class LazyCommand(TyperCommand):
    """A placeholder with the name and the summary of a command; ``load`` imports the command."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        """``target``: MODULE:NAME of a function, a ``Typer`` or a command; ``summary``: one line of help."""
        super().__init__(name, help=summary)
        self._target = target

    def load(self) -> TyperCommand | TyperGroup:
        module, _, name = self._target.partition(":")
        reads_authorities = module not in _WITH_OWN_CONTEXT
        target = getattr(quick_import(module, reads_authorities=reads_authorities), name)
        if isinstance(target, typer.Typer):
            loaded: Any = typer.main.get_group(target)
        elif isinstance(target, TyperCommand):
            loaded = target
        else:
            single = typer.Typer(rich_markup_mode="rich", add_completion=False)
            single.command()(target)
            loaded = typer.main.get_command(single)
        assert isinstance(loaded, TyperCommand | TyperGroup), f"{self._target} is no command"
        loaded.name = self.name
        return loaded


# Modules of processes that send every request with the TLS context of a kubeconfig, or of a service account.
_WITH_OWN_CONTEXT: Final = ("quorate.cli.controllers", "quorate.cli.scheduler", "quorate.cli.witness")


class LazyGroup(TyperGroup):
    deferred: ClassVar[Sequence[LazyCommand]] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in self.deferred:
            self.add_command(command)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that ``args`` begin with, imported; its name may have two words."""
        if " ".join(args[:2]) in self.commands:
            args = [" ".join(args[:2]), *args[2:]]
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest


def command_group(help_text: str, *commands: LazyCommand) -> typer.Typer:
    """Return a group of commands, to which ``commands`` belong that are imported on first use."""

    class Group(LazyGroup):
        deferred = commands

    return typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode="rich", help=help_text)
