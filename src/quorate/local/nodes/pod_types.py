"""Pod fields that simulated nodes read and write."""

from datetime import datetime

import msgspec

from quorate.api import core
from quorate.api.meta import ObjectMeta, Struct
from quorate.kube.resources import Resource


class ContainerStateWaiting(Struct):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct):
    started_at: datetime | None = None


class ContainerStateTerminated(Struct, omit_defaults=False):
    exit_code: int = 0
    reason: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Struct):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, omit_defaults=False):
    name: str
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class Container(Struct):
    name: str
    image: str = ""
    restart_policy: str = ""  # "Always" on an init container makes it a sidecar


class PodSpec(Struct):
    node_name: str = ""
    restart_policy: str = "Always"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


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


class Pod(Struct):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


PODS = Resource("", "v1", "pods", "Pod", True, Pod)
