"""``mpi``: the master knows the hosts of its workers, all of which can be logged in to."""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.api.volcano.job import Job, TaskSpec
from quorate.controllers.volcano.job.plugins.interface import (
    OwnedObject,
    add_env,
    containers,
    flags,
    hosts_of,
    open_port,
    port,
    task_named,
)
from quorate.kube.resources import Json

PORT: Final = 22


class MpiPlugin:
    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        given = flags(arguments, {"master": "master", "worker": "worker", "port": str(PORT)})
        self._master = given["master"]
        self._port = port(given["port"], PORT)
        workers = task_named(job, given["worker"])
        self._hosts = "" if workers is None else ",".join(hosts_of(job, workers))

    def on_pod_create(self, pod: Json, task: TaskSpec, index: int) -> None:
        for container in containers(pod, init=True):
            open_port(container, "mpijob-port", self._port)
            if task.name == self._master:
                add_env(container, {"name": "MPI_HOST", "value": self._hosts})

    def owned_objects(self) -> Iterable[OwnedObject]:
        return ()
