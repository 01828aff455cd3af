"""The Node object of this machine, what the machine has, and what the workers of all its pods share."""

import asyncio
import contextlib
import os
import platform
import random
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core import NodeStatus
from quorate.api.meta import Condition, Key, at_epoch, micro_time, with_condition
from quorate.api.quantity import Quantity
from quorate.api.syntax import is_dns_subdomain
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists, NotFound, RequestFailed
from quorate.kube.log import logger
from quorate.kube.resources import LEASES, NAMESPACES, NODES
from quorate.local.controllers.controller import EventRecorder
from quorate.local.nodes.fleet import HEALTHY, LEASE_NAMESPACE, NOT_READY, replacing
from quorate.local.runtime.containers.cgroups import Cgroups
from quorate.local.runtime.containers.sandbox import Tools
from quorate.local.runtime.network.types import PodNetwork
from quorate.local.runtime.objects import ApiObjects

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


HEARTBEAT_S: Final = 10.0
REGISTRATION_POLL_S: Final = 0.1
LEASE_S: Final = 40
DEFAULT_NAME: Final = "local"


def default_node_name() -> str:
    """Return the host's name as the name of its node, or ``local`` if it is not a name of the API."""
    name = socket.gethostname().lower()
    return name if is_dns_subdomain(name) else DEFAULT_NAME


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """The node as its kubelet reports it."""

    name: str
    address: str
    capacity: Mapping[str, str]
    isolation: str  # the tools that run containers
    remarks: Sequence[Condition]  # what is different from other kubelets


async def register(client: Client, clock: Clock, node: NodeDescription) -> None:
    """Create or update the Node object and report it ready."""
    key = Key("", node.name)
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
    }
    try:
        stored = await client.create(NODES, {"metadata": {"name": node.name, "labels": labels}})
    except AlreadyExists:
        stored = await client.patch(NODES, key, {"metadata": {"labels": labels}})
    status = node_status(node, stored.status, clock.now())
    stored = await client.patch(NODES, key, {"status": status}, subresource="status")
    if any(taint.key == NOT_READY for taint in stored.spec.taints):
        left = [taint for taint in stored.spec.taints if taint.key != NOT_READY]
        await client.patch(NODES, key, {"spec": {"taints": left or None}})


def node_status(node: NodeDescription, stored: NodeStatus, now: float) -> dict[str, Any]:
    """Return a patch of the stored status; a condition with the stored status keeps its transition time."""
    moment = at_epoch(float(int(now)))
    conditions = stored.conditions
    healthy = [Condition(type=t, status=s, reason=r, message=_message(t, m)) for t, s, r, m in HEALTHY]  # type: ignore[arg-type]
    for condition in (*node.remarks, *healthy):
        conditions = with_condition(conditions, replace(condition, last_transition_time=moment))
    return {
        "capacity": replacing(stored.capacity, node.capacity),
        "allocatable": replacing(stored.allocatable, node.capacity),
        "addresses": [
            {"type": "InternalIP", "address": node.address},
            {"type": "Hostname", "address": node.name},
        ],
        "conditions": [{**codec.to_builtins(c), "lastHeartbeatTime": moment} for c in conditions],
        "nodeInfo": node_info(node.isolation),
    }


def _message(type_: str, message: str) -> str:
    return "kubelet is posting ready status" if type_ == "Ready" else message


async def heartbeat(client: Client, clock: Clock, node: NodeDescription) -> None:
    """Renew the node's lease until cancelled; report the node again after the lease has expired."""
    steady = clock.steady
    renewed = steady.now()
    while True:
        try:
            if steady.now() - renewed > LEASE_S:  # by now the node may be marked as unknown
                await register(client, clock, node)
            await _renew(client, clock, node.name)
            renewed = steady.now()
        except RequestFailed as error:
            logger(__name__).warning("lease of the node not renewed", problem=str(error))
        await steady.sleep_until(steady.now() + HEARTBEAT_S)


async def wait_registered(client: Client, clock: Clock, name: str, registered: asyncio.Event) -> None:
    """Set ``registered`` once a kubelet that starts from now on has registered the node.

    An earlier kubelet may have created the Node object; each kubelet renews the lease after it registered.
    """
    steady, since = clock.steady, micro_time(clock.now())
    while not registered.is_set():
        await steady.sleep_until(steady.now() + REGISTRATION_POLL_S)
        with contextlib.suppress(RequestFailed):
            lease = await client.get(LEASES, Key(LEASE_NAMESPACE, name))
            if lease.spec.renew_time >= since:
                registered.set()


async def _renew(client: Client, clock: Clock, name: str) -> None:
    spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_S, "renewTime": micro_time(clock.now())}
    try:
        await client.patch(LEASES, Key(LEASE_NAMESPACE, name), {"spec": spec}, kind=PatchKind.MERGE)
    except NotFound:
        node = await client.find(NODES, Key("", name))
        if node is None:
            return  # deleted, and the lease with it
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": LEASE_NAMESPACE}})
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
        metadata = {"name": name, "ownerReferences": [owner]}
        await client.create(LEASES, {"metadata": metadata, "spec": spec}, LEASE_NAMESPACE)


@dataclass(slots=True)
class NodeServices:
    name: str
    client: Client
    clock: Clock
    rng: random.Random
    state: Path
    network: PodNetwork
    tools: Tools
    images: Mapping[str, Path]  # root directories, by image
    objects: ApiObjects
    recorder: EventRecorder
    allocatable: Mapping[str, Quantity]
    home: str
    cgroups: Cgroups
    devices: DevicePool
    is_root: bool  # containers can run as other users
    is_stopping: bool = field(default=False)  # the cluster is stopped: all containers end
    stop_grace_s: float = field(default=5.0)  # the longest that containers get then

    def image_root(self, image: str) -> Path:
        """Return the root directory of an image: the host's, unless a directory was given for it."""
        without_tag = image.rpartition(":")[0] or image
        return self.images.get(image) or self.images.get(without_tag) or Path("/")
