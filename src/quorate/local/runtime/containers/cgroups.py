"""Limits of containers, where this process may write control groups of version 2 or 1."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.api.quantity import Quantity
from quorate.local.runtime.containers.processes import Attempt

ROOT: Final = Path("/sys/fs/cgroup")
PARENT: Final = "quorate"
PERIOD_US: Final = 100_000
CONTROLLERS: Final = ("memory", "cpu", "pids")
YOUNG_S: Final = 60.0
MAX_PIDS: Final = 32768


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Directories in which groups can be made: one of version 2, or one for each controller of version 1."""

    unified: Path | None
    controllers: Mapping[str, Path]

    @property
    def description(self) -> str:
        """Return one sentence for users: which limits are enforced."""
        if self.unified is not None:
            return "limits of memory and cpu are enforced by control groups of version 2"
        if self.controllers:
            return f"limits of {' and '.join(self.controllers)} are enforced by control groups of version 1"
        return "limits are not enforced: this process cannot write control groups"

    @property
    def limits_memory(self) -> bool:
        return self.unified is not None or "memory" in self.controllers

    @property
    def parents(self) -> Iterable[Path]:
        """The directories that hold the groups of the attempts: for version 1, one for each controller."""
        return self.controllers.values() if self.unified is None else (self.unified,)

    def create(self, attempt: Attempt, limits: Mapping[str, Quantity]) -> list[Path]:
        """Make the groups of an attempt; return the files to which its first process writes its id.

        Raises OSError.
        """
        memory, cpu = limits.get("memory"), limits.get("cpu")
        quota_us = None if cpu is None else max(1000, cpu.milli * PERIOD_US // 1000)
        if self.unified is not None:
            group = _make(self.unified, attempt)
            if memory is not None:
                (group / "memory.max").write_text(str(memory.units))
            if quota_us is not None:
                (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            (group / "pids.max").write_text(str(MAX_PIDS))
            return [group / "cgroup.procs"]
        files = []
        for name, parent in self.controllers.items():
            group = _make(parent, attempt)
            if name == "memory" and memory is not None:
                (group / "memory.limit_in_bytes").write_text(str(memory.units))
            if name == "cpu" and quota_us is not None:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(quota_us))
            files.append(group / "cgroup.procs")
        return files

    def killed_for_memory(self, attempt: Attempt) -> bool:
        """Return True if the kernel has killed a process of an attempt because of its memory limit."""
        if self.unified is not None:
            events = self.unified / _name(attempt) / "memory.events"
        elif "memory" in self.controllers:
            events = self.controllers["memory"] / _name(attempt) / "memory.oom_control"
        else:
            return False
        try:
            counts = dict(line.split() for line in events.read_text().splitlines())
        except OSError:
            return False
        return counts.get("oom_kill", "0") != "0"

    def remove(self, attempt: Attempt) -> None:
        """Remove the groups of an attempt that has ended."""
        for parent in self.parents:
            with suppress(OSError):  # removed, or a process is still ending
                (parent / _name(attempt)).rmdir()


def remove_unused(cgroups: Cgroups, now: float) -> None:
    """Remove groups without processes, which killed kubelets have left.

    A young group stays, because another kubelet may have just made it for a process that it starts.
    """
    for group in (group for parent in cgroups.parents for group in parent.iterdir()):
        with suppress(OSError):  # it has processes
            if group.is_dir() and now - group.stat().st_mtime > YOUNG_S:
                group.rmdir()


def find_cgroups() -> Cgroups:
    """Return the directories in which this process may make control groups; it may have none."""
    unified = ROOT / PARENT
    with suppress(OSError):  # not version 2, or not permitted
        available = (ROOT / "cgroup.controllers").read_text().split()
        if set(CONTROLLERS) <= set(available):
            unified.mkdir(exist_ok=True)
            enabled = " ".join(f"+{name}" for name in CONTROLLERS)
            (ROOT / "cgroup.subtree_control").write_text(enabled)
            (unified / "cgroup.subtree_control").write_text(enabled)
            return Cgroups(unified, {})
    controllers = {}
    for name in ("memory", "cpu"):
        parent = ROOT / name / PARENT
        with suppress(OSError):
            parent.mkdir(exist_ok=True)
            if os.access(parent / "cgroup.procs", os.W_OK):
                controllers[name] = parent
    return Cgroups(None, controllers)


def _name(attempt: Attempt) -> str:
    return f"{attempt.pod_uid}.{attempt.container}.{attempt.number}"


def _make(parent: Path, attempt: Attempt) -> Path:
    group = parent / _name(attempt)
    group.mkdir(exist_ok=True)
    return group
