"""Every command has ``-o json``, except those with a reason."""

import pytest
from reference.commands import commands
from typer.core import TyperCommand

BY_NAME = {" ".join(path): command for path, command in commands()}
# They run until they are stopped, and write a log: in JSON with --log-format json.
PROCESSES = frozenset(("controllers", "dashboard", "scheduler", "witness"))
# They write files into the directory --output, and print the path of each in a line of its own.
WRITERS = frozenset(("crds", "examples copy", "manifests", "webhooks"))


def choices_of(command: TyperCommand, option: str) -> tuple[str, ...]:
    """Return the values that an option permits; none if the command has no such option, or it permits any."""
    for parameter in command.params:
        if option in parameter.opts:
            return tuple(map(str, getattr(parameter.type, "choices", ())))
    return ()


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - PROCESSES - WRITERS))
def test_a_command_has_json_output(name: str) -> None:
    assert "json" in choices_of(BY_NAME[name], "-o")


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_a_process_has_a_log_in_json(name: str) -> None:
    assert "json" in choices_of(BY_NAME[name], "--log-format")


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_command_that_writes_files_has_a_directory_as_output(name: str) -> None:
    assert any("--output" in parameter.opts for parameter in BY_NAME[name].params)
    assert choices_of(BY_NAME[name], "--output") == ()
