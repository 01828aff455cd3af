"""Pods as explanations read them: what tells why a pod does not run."""

from datetime import datetime

from quorate.api.core import SchedulingGate
from quorate.api.core.scheduling import SchedulingGroup
from quorate.api.meta import Condition, ObjectMeta, Struct
from quorate.api.names.volcano import GROUP_NAME
from quorate.api.native_groups import PREFIX


class Waiting(Struct):
    reason: str = ""
    message: str = ""


class Running(Struct):
    pass


class ContainerState(Struct):
    waiting: Waiting | None = None
    running: Running | None = None


class ContainerStatus(Struct):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class StartedPodSpec(Struct):
    node_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None


class StartedPodStatus(Struct):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class StartedPod(Struct):
    metadata: ObjectMeta
    spec: StartedPodSpec = StartedPodSpec()
    status: StartedPodStatus = StartedPodStatus()

    @property
    def pod_group(self) -> str:
        """The name of its pod group, with ``PREFIX`` for one of Kubernetes; "" if it is in none."""
        native = self.spec.scheduling_group
        if native is not None and native.pod_group_name:
            return PREFIX + native.pod_group_name
        return self.metadata.annotations.get(GROUP_NAME, "")


class FailedCreation(Struct):
    """The last attempt of a controller to create a pod, which the API server refused."""

    message: str  # of the event FailedCreate
    at: datetime | None = None
