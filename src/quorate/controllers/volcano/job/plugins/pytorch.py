"""``pytorch``: what torch.distributed reads to find its master and its own rank."""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.api.volcano.job import Job, TaskSpec
from quorate.controllers.volcano.job.plugins.interface import (
    OwnedObject,
    add_env,
    containers,
    flags,
    host_of,
    open_port,
    port,
    task_named,
)
from quorate.kube.resources import Json

PORT: Final = 23456


class PytorchPlugin:
    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        self._job = job
        given = flags(arguments, {"master": "master", "worker": "worker", "port": str(PORT)})
        self._master, self._worker = given["master"], given["worker"]
        self._port = port(given["port"], PORT)

    def on_pod_create(self, pod: Json, task: TaskSpec, index: int) -> None:
        master = task_named(self._job, self._master)
        if master is None:
            return  # one process alone: it has nobody to find
        parts = (self._master, self._worker)
        size = sum(each.replicas for each in self._job.spec.tasks if each.name in parts)
        values = {
            "MASTER_ADDR": host_of(self._job, master, 0),
            "MASTER_PORT": str(self._port),
            "WORLD_SIZE": str(size),
        }
        if task.name in parts:
            values["RANK"] = str(index + 1 if task.name == self._worker else 0)
        for container in containers(pod, init=False):
            open_port(container, "pytorchjob-port", self._port)
            add_env(container, *({"name": name, "value": value} for name, value in values.items()))

    def owned_objects(self) -> Iterable[OwnedObject]:
        return ()
