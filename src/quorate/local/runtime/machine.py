"""What this machine has: processors, memory, storage, and devices."""

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

MAX_PODS: Final = "250"
NVIDIA: Final = "nvidia.com/gpu"
_MEMORY: Final = re.compile(r"MemTotal:\s+(\d+) kB")


def capacity(state: Path, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the resources of this machine as quantities; ``overrides`` replace or add some."""
    storage = os.statvfs(state)
    devices = nvidia_devices()
    measured = {
        "cpu": str(len(os.sched_getaffinity(0))),
        "memory": f"{_memory_kib()}Ki",
        "ephemeral-storage": f"{storage.f_blocks * storage.f_frsize // 1024}Ki",
        "pods": MAX_PODS,
        **({NVIDIA: str(len(devices))} if devices else {}),
    }
    return {**measured, **overrides}


def _memory_kib() -> int:
    match = _MEMORY.search(Path("/proc/meminfo").read_text())
    assert match is not None, "every kernel says how much memory there is"
    return int(match[1])


def nvidia_devices() -> tuple[int, ...]:
    """Return the indices of the NVIDIA devices of this machine."""
    names = Path("/dev").glob("nvidia[0-9]*")
    return tuple(sorted(int(name.name.removeprefix("nvidia")) for name in names if name.name[6:].isdecimal()))


class DevicePool:
    """The NVIDIA devices of a node; each belongs to at most one container."""

    def __init__(self, count: int) -> None:
        devices = nvidia_devices()
        self._free = list(devices if len(devices) >= count else range(count))[:count]
        self._taken: dict[tuple[str, str], tuple[int, ...]] = {}  # by pod uid and container

    def take(self, uid: str, container: str, count: int) -> tuple[int, ...] | None:
        """Return ``count`` devices for a container, or the devices that it already has.

        Return None if fewer than ``count`` devices are free.
        """
        if (uid, container) in self._taken:
            return self._taken[uid, container]
        if count > len(self._free):
            return None
        taken = tuple(self._free[:count])
        self.adopt(uid, container, taken)
        return taken

    def adopt(self, uid: str, container: str, devices: tuple[int, ...]) -> None:
        """Note the devices that a running container has."""
        self._taken[uid, container] = devices
        self._free = [device for device in self._free if device not in devices]

    def release(self, uid: str) -> None:
        """Take back the devices of a pod."""
        for owner in [owner for owner in self._taken if owner[0] == uid]:
            self._free = sorted({*self._free, *self._taken.pop(owner)})


def device_files(devices: tuple[int, ...]) -> tuple[Path, ...]:
    """Return the device files that a container with these devices needs."""
    if not devices:
        return ()
    common = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
    return tuple(Path("/dev") / name for name in (*(f"nvidia{index}" for index in devices), *common))


def device_variables(devices: tuple[int, ...]) -> dict[str, str]:
    """Return the variables that limit the programs of a container to its devices, or hide all devices."""
    indices = ",".join(map(str, devices))
    return {"NVIDIA_VISIBLE_DEVICES": indices or "void", "CUDA_VISIBLE_DEVICES": indices}


def node_info(isolation: str) -> dict[str, str]:
    """Return ``status.nodeInfo``; ``isolation`` names the tools that run containers."""
    return {
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
        "containerRuntimeVersion": f"quorate://{isolation}",
        "kernelVersion": platform.release(),
        "osImage": _os_name(),
        "operatingSystem": "linux",
        "architecture": architecture(),
        "machineID": _read("/etc/machine-id"),
        "systemUUID": _read("/etc/machine-id"),
        "bootID": _read("/proc/sys/kernel/random/boot_id"),
    }


def architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
