"""``ray``: a head that can be reached, and workers that join it."""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.api.volcano.annotations import TASK_SPEC
from quorate.api.volcano.job import JOB_NAME, JOB_NAMESPACE, Job, TaskSpec
from quorate.controllers.volcano.job.plugins.interface import (
    SERVICES,
    OwnedObject,
    containers,
    flags,
    host_of,
    open_port,
    port,
    task_named,
)
from quorate.kube.resources import Json

PORTS: Final = {"gcs": 6379, "dashboard": 8265, "client-server": 10001}
_FLAGS: Final = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}


class RayPlugin:
    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        self._job = job
        defaults = {flag: str(PORTS[name]) for name, flag in _FLAGS.items()}
        names = {"head": "head", "headContainer": "head", "worker": "worker", "workerContainer": "worker"}
        self._given = flags(arguments, names | defaults)
        self._ports = {name: port(self._given[flag], PORTS[name]) for name, flag in _FLAGS.items()}

    def on_pod_create(self, pod: Json, task: TaskSpec, index: int) -> None:
        given = self._given
        for container in containers(pod, init=False):
            if (task.name, container.get("name")) == (given["head"], given["headContainer"]):
                self._lead(container)
            elif (task.name, container.get("name")) == (given["worker"], given["workerContainer"]):
                self._join(container)

    def _lead(self, container: Json) -> None:
        for name, number in self._ports.items():
            open_port(container, name, number)
        gcs, dashboard, client = self._ports.values()
        start = (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={gcs} "
            f"--dashboard-port={dashboard} --ray-client-server-port={client}"
        )
        container["command"] = ["sh", "-c", start]

    def _join(self, container: Json) -> None:
        head = task_named(self._job, self._given["head"])
        if head is not None:
            address = f"{host_of(self._job, head, 0)}:{self._ports['gcs']}"
            container["command"] = ["sh", "-c", f"ray start --block --address={address}"]

    def owned_objects(self) -> Iterable[OwnedObject]:
        metadata = self._job.metadata
        selector = {
            JOB_NAME: metadata.name, JOB_NAMESPACE: metadata.namespace, TASK_SPEC: self._given["head"],
        }  # fmt: skip
        ports = [
            {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}
            for name, number in self._ports.items()
        ]
        yield OwnedObject(
            SERVICES, f"{metadata.name}-head-svc", {"spec": {"selector": selector, "ports": ports}}
        )
