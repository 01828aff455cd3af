"""The modules of a command are imported when the command is used."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from quorate.cli import app
from quorate.cli.lazy_commands import LazyCommand
from quorate.inspect.errors import KNOWN
from tests.cli.conftest import Quorate

CLIENT = ("aiohttp", "cryptography", "httptools", "uvloop", "quorate.kube")
CORES = (
    "quorate.queueing.scheduling.cycle",
    "quorate.queueing.state",
    "quorate.controllers",
    "quorate.local.server",
)
UNNEEDED_BY_LISTS = (
    "aiohttp", "cryptography", "numpy", "pydantic", "quorate.api.configuration", "quorate.gang",
    "quorate.placement", "rich", *CORES,
)  # fmt: skip


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        pytest.param("quorate.cli", (*CLIENT, "quorate.queueing", "quorate.local", *CORES), id="help"),
        *(
            pytest.param(f"quorate.cli.verbs.{verb}", UNNEEDED_BY_LISTS, id=verb)
            for verb in (
                "workload",
                "queue",
                "flavor",
                "status",
                "logs",
                "cancel",
                "podgroup",
                "vcjob",
                "vcqueue",
                "topology",
            )
        ),
        pytest.param(
            "quorate.cli.existing_local_cluster",
            ("quorate.queueing", "quorate.gang", *CORES),
            id="local status",
        ),
        pytest.param(
            "quorate.cli.verbs.explain.command",
            ("aiohttp", "cryptography", "numpy", "quorate.gang", "quorate.placement", "rich", *CORES),
            id="explain",
        ),
        pytest.param("quorate.cli.scheduler", ("quorate.queueing", *CORES), id="scheduler"),
        pytest.param("quorate.cli.controllers", ("numpy",), id="controllers"),
        pytest.param("quorate.processes.estimation.worker", ("aiohttp", "numpy"), id="estimates"),
    ],
)
def test_no_unneeded_module_is_imported(module: str, unneeded: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    imported = done.stdout.split()
    assert module in imported
    found = [
        name for name in imported if any(name == each or name.startswith(f"{each}.") for each in unneeded)
    ]
    assert found == []


def test_a_process_reads_no_certificate_authorities_of_the_machine_at_its_import() -> None:
    program = """
import os, ssl
from quorate.cli.lazy_commands import LazyCommand
ssl.SSLContext.load_default_certs = lambda *_: print(os.environ["SSL_CERT_FILE"])
LazyCommand("scheduler", "quorate.cli.scheduler:scheduler", "").load()
print(os.environ["SSL_CERT_FILE"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SSL_CERT_FILE": "/own/authorities"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [os.devnull, "/own/authorities"]


def test_a_failed_import_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(ModuleNotFoundError):
        LazyCommand("absent", "quorate.cli.verbs.absent:absent", "").load()
    assert "SSL_CERT_FILE" not in os.environ
    assert gc.isenabled()


def deferred(group: object) -> Iterator[LazyCommand]:
    if isinstance(group, TyperGroup):
        for command in group.commands.values():
            if isinstance(command, LazyCommand):
                yield command
                yield from deferred(command.load())


@pytest.mark.parametrize(
    "command", [*deferred(typer.main.get_command(app))], ids=lambda command: command.name
)
def test_the_summary_of_a_command_is_the_first_line_of_its_help(command: LazyCommand) -> None:
    loaded = command.load()
    assert isinstance(loaded, TyperCommand | TyperGroup)
    assert (loaded.name, (loaded.help or "").splitlines()[0]) == (command.name, command.help)


def test_a_misspelt_command_has_a_suggestion(quorate: Quorate) -> None:
    done = quorate("worklod", "list")
    assert done.code == 2
    assert "Did you mean 'workload'?" in done.err


@pytest.mark.parametrize("name", KNOWN)
def test_known_errors_exist(name: str) -> None:
    module, _, error = name.rpartition(".")
    assert issubclass(getattr(import_module(module), error), Exception)
