"""Reading configuration files; findings have the format in which editors find locations."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from quorate.api.configuration import GROUP, LoadedConfiguration, load_configuration
from quorate.api.decoding.strict import InvalidConfiguration
from quorate.api.findings import Finding
from quorate.api.scheduler_configuration import (
    DEFAULT_FILE,
    LoadedSchedulerConfiguration,
    load_scheduler_configuration,
)

T = TypeVar("T")

DEFAULT_TEXT: Final = f"apiVersion: {GROUP}/v1beta2\nkind: Configuration\n"
_DEFAULTS: Final = Path("defaults")  # in place of a file, which has no finding
_MAX_BYTES: Final = 1 << 20


class InvalidFiles(Exception):
    """Files that cannot be used, with all findings about them."""

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
    """Yield ``file:line: finding``, the format in which editors find locations."""
    for finding in findings:
        yield f"{path}:{finding.line or 1}: {Finding(finding.path, finding.value, finding.rule)}"


def read_configuration(path: Path | None) -> LoadedConfiguration:
    """Return the controllers' configuration; the defaults if ``path`` is None.  Raises ``InvalidFiles``."""
    return read_configuration_text(path)[1]


def read_configuration_text(path: Path | None) -> tuple[str, LoadedConfiguration]:
    """Return the text of the controllers' configuration as well; for ``path`` None a text of defaults."""
    text = DEFAULT_TEXT if path is None else read_text(path)
    return text, configuration_in(path or _DEFAULTS, text, load_configuration)


def read_scheduler_configuration(path: Path | None) -> LoadedSchedulerConfiguration:
    """Return the scheduler's configuration; the defaults if ``path`` is None.  Raises ``InvalidFiles``."""
    return read_scheduler_configuration_text(path)[1]


def read_scheduler_configuration_text(path: Path | None) -> tuple[str, LoadedSchedulerConfiguration]:
    """Return the text of the scheduler's configuration as well; of the defaults if ``path`` is None."""
    text = DEFAULT_FILE if path is None else read_text(path)
    return text, configuration_in(path or _DEFAULTS, text, load_scheduler_configuration)


def configuration_in(path: Path, text: str, load: Callable[[str], T]) -> T:
    """Return what ``load`` makes of ``text``, the content of ``path``.  Raises ``InvalidFiles``."""
    try:
        return load(text)
    except InvalidConfiguration as error:
        raise InvalidFiles(compiler_lines(path, error.findings)) from error


def read_text(path: Path) -> str:
    """Return the text of a file.  Raises ``InvalidFiles``, also above 1 MiB, the limit of a ConfigMap."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise InvalidFiles(
                [f"{path}: is larger than 1 MiB, the limit of a ConfigMap (is it the right file?)"]
            )
        return content.decode()
    except OSError as error:
        raise InvalidFiles([f"{path}: {(error.strerror or '').lower()}"]) from error
    except UnicodeDecodeError as error:
        raise InvalidFiles([f"{path}:1: byte {error.start} is not UTF-8 (save the file as UTF-8)"]) from error
