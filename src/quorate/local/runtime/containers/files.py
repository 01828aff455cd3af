"""The directory of a pod below the state directory of the kubelet.

It holds the record and the logs of each container of the pod, and the volumes of the pod.
"""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from quorate.api.meta import Struct
from quorate.local.runtime.containers.processes import Attempt


class Termination(Struct, omit_defaults=False, kw_only=False):
    """How one attempt of a container ended: its exit code, and when it started and ended.

    Times are in seconds since the epoch.
    """

    exit_code: int
    reason: str
    message: str = ""
    started_at: float = 0.0
    finished_at: float = 0.0


class ContainerRecord(Struct, omit_defaults=False):
    """The latest attempt of a container, written before its process starts and when it ends."""

    attempt: int = 0  # 0 for the first start; the restart count
    started_at: float | None = None  # None: the process has not been started
    ended: Termination | None = None
    previous: Termination | None = None  # the end of the attempt before
    devices: tuple[int, ...] = ()  # indices of NVIDIA devices
    backoff_s: float = 0.0  # the delay between the end of this attempt and the next start
    is_reset: bool = False  # the pod begins anew, and this container has not been started since

    @property
    def is_running(self) -> bool:
        return self.started_at is not None and self.ended is None

    @property
    def has_succeeded(self) -> bool:
        return self.ended is not None and self.ended.exit_code == 0


RECORD: Final = "record.json"
TERMINATION_LOG_BYTES: Final = 4096
KEPT_LOGS: Final = 2  # of the latest attempts


@dataclass(frozen=True, slots=True)
class PodFiles:
    state: Path  # the kubelet's directory
    uid: str

    @property
    def directory(self) -> Path:
        return self.state / "pods" / self.uid

    @property
    def volumes(self) -> Path:
        return self.directory / "volumes"

    def attempt(self, container: str, number: int) -> Attempt:
        return Attempt(self.state, self.uid, container, number)

    def records(self) -> dict[str, ContainerRecord]:
        """Return the records of the pod's containers, by container; skip records that cannot be read."""
        records = {}
        for path in self.directory.glob(f"containers/*/{RECORD}"):
            with suppress(OSError, msgspec.MsgspecError):
                records[path.parent.name] = msgspec.json.decode(path.read_bytes(), type=ContainerRecord)
        return records

    def save(self, container: str, record: ContainerRecord) -> None:
        """Replace the record of a container atomically: a crash leaves the old record or the new record."""
        directory = self.directory / "containers" / container
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = directory / f".{RECORD}"
        partial.write_bytes(msgspec.json.encode(record))
        partial.replace(directory / RECORD)

    def prepare(self, attempt: Attempt) -> tuple[Path, Path]:
        """Make the files of an attempt; return its termination log and its directory for overlays."""
        layers = attempt.directory / "layers"
        layers.mkdir(mode=0o755, parents=True, exist_ok=True)
        termination_log = attempt.directory / "termination-log"
        termination_log.write_bytes(b"")
        termination_log.chmod(0o666)
        for name in (f"{attempt.number - KEPT_LOGS}.log", f"{attempt.number - 1}.status.json"):
            (attempt.directory / name).unlink(missing_ok=True)
        return termination_log, layers

    def termination_message(self, container: str) -> str:
        path = self.directory / "containers" / container / "termination-log"
        try:
            with path.open("rb") as file:
                return file.read(TERMINATION_LOG_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def log(self, container: str, number: int) -> Path | None:
        path = self.attempt(container, number).log
        return path if number >= 0 and path.exists() else None

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def pods_with_files(state: Path) -> list[str]:
    """Return the uids of the pods that have a directory."""
    try:
        return sorted(os.listdir(state / "pods"))
    except FileNotFoundError:
        return []
