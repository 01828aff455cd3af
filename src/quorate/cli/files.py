"""Files given on the command line, and what is wrong with them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from quorate.api.configuration import LoadedConfiguration, default_configuration, load_configuration
from quorate.api.decoding.strict import InvalidConfiguration
from quorate.api.findings import Finding
from quorate.api.scheduler_configuration import (
    LoadedSchedulerConfiguration,
    default_scheduler_configuration,
    load_scheduler_configuration,
)

Config = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The Configuration of the queueing controllers.")
]
SchedulerConf = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Volcano's scheduler configuration (actions, tiers of plugins); without one, the defaults.",
    ),
]


def _scheduler_name(written: str) -> str:
    if not written:
        raise typer.BadParameter(
            "'' names no scheduler (write the schedulerName of the pods, or leave it out)"
        )
    return written


SchedulerNames = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler-name",
        metavar="NAME",
        parser=_scheduler_name,
        help="The schedulerName of pods to place; may be given several times. Default: quorate, volcano.",
        show_default=False,
    ),
]


_LARGEST: Final = 1 << 20


class InvalidFiles(Exception):
    """Files that cannot be used, with everything that was found wrong in them."""

    def __init__(self, findings: Iterable[str]) -> None:
        self.findings = tuple(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        return "\n".join(self.findings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InvalidFiles) and self.findings == other.findings

    def __hash__(self) -> int:
        return hash(self.findings)


def compiler_lines(path: Path, findings: Iterable[Finding]) -> Iterator[str]:
    """Findings as compilers print them, so that editors can jump there."""
    for finding in findings:
        yield f"{path}:{finding.line or 1}: {Finding(finding.path, finding.value, finding.rule)}"


def read_configuration(path: Path | None) -> LoadedConfiguration:
    """The controllers' configuration; the defaults without a file.  Raises ``InvalidFiles``."""
    if path is None:
        return LoadedConfiguration(default_configuration(), ())
    return configuration_in(path, read_text(path))


def read_scheduler_configuration(path: Path | None) -> LoadedSchedulerConfiguration:
    """The gang scheduler's configuration; the defaults without a file.  Raises ``InvalidFiles``."""
    if path is None:
        return LoadedSchedulerConfiguration(default_scheduler_configuration(), ())
    return scheduler_configuration_in(path, read_text(path))


def scheduler_configuration_in(path: Path, text: str) -> LoadedSchedulerConfiguration:
    """What the ``text`` of the file says.  Raises ``InvalidFiles``."""
    try:
        return load_scheduler_configuration(text)
    except InvalidConfiguration as error:
        raise InvalidFiles(compiler_lines(path, error.findings)) from error


def read_text(path: Path) -> str:
    """Raises ``InvalidFiles``, also for more than a ConfigMap can hold, without reading all of it."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise InvalidFiles(
                [f"{path}: holds more than 1 MiB, as no configuration does (is it the right file?)"]
            )
        return content.decode()
    except OSError as error:
        raise InvalidFiles([f"{path}: {(error.strerror or '').lower()}"]) from error
    except UnicodeDecodeError as error:
        raise InvalidFiles([f"{path}:1: byte {error.start} is not UTF-8 (save the file as UTF-8)"]) from error


def configuration_in(path: Path, text: str) -> LoadedConfiguration:
    """What the ``text`` of the file says.  Raises ``InvalidFiles``."""
    try:
        return load_configuration(text)
    except InvalidConfiguration as error:
        raise InvalidFiles(compiler_lines(path, error.findings)) from error
