"""Commands that are imported when they are used: who asks for one need not wait for all the others."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


class LazyCommand(TyperCommand):
    """What the list of commands shows of one; ``load`` has the command itself."""

    def __init__(self, name: str, place: str, says: str) -> None:
        """``place``: MODULE:NAME of a function or a ``Typer``; ``says``: the first line of its help."""
        super().__init__(name, help=says)
        self._place = place

    def load(self) -> TyperCommand | TyperGroup:
        module, _, name = self._place.partition(":")
        found = getattr(import_module(module), name)
        if isinstance(found, typer.Typer):
            loaded: Any = typer.main.get_group(found)
        else:
            alone = typer.Typer(rich_markup_mode="rich", add_completion=False)
            alone.command()(found)
            loaded = typer.main.get_command(alone)
        assert isinstance(loaded, TyperCommand | TyperGroup), f"{self._place} is no command"
        loaded.name = self.name
        return loaded


class LazyGroup(TyperGroup):
    deferred: ClassVar[Sequence[LazyCommand]] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in self.deferred:
            self.add_command(command)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Asked by whoever goes on to use the command that ``args`` begin with."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest
