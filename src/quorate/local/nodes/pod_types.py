"""Pod statuses with all fields that a kubelet writes; they extend those of ``api.core``."""

from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType

from quorate.api import core
from quorate.api.meta import Struct
from quorate.kube.resources import Resource


class ContainerStateWaiting(Struct):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct):
    started_at: datetime | None = None


class ContainerStateTerminated(core.ContainerStateTerminated, omit_defaults=False):
    reason: str = ""
    message: str | UnsetType = UNSET  # written by the process runtime only
    started_at: datetime | None = None


class ContainerState(core.ContainerState):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(core.ContainerStatus, omit_defaults=False):
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    ready: bool = False
    started: bool = False
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    # Reported once a pod is resized.
    allocated_resources: core.Resources | UnsetType = UNSET
    resources: core.ResourceRequirements | UnsetType = UNSET


class PodIP(Struct):
    ip: str


class PodStatus(core.PodStatus):
    # Not "Pending" as in core: defaults are not encoded. In a diff of two statuses a decoded "Pending", which
    # is another string object than the default, would then count as removed.
    phase: str = ""
    message: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    host_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="hostIPs")
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()


class ContainerPort(core.ContainerPort):
    name: str = ""


class Container(core.Container):
    ports: tuple[ContainerPort, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class PodSpec(core.PodSpec):
    hostname: str = ""
    subdomain: str = ""
    containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[core.Container, ...] = ()


class Pod(core.Pod):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


PODS = Resource("", "v1", "pods", "Pod", True, Pod)
