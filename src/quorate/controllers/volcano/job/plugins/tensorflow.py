"""``tensorflow``: the cluster as ``TF_CONFIG`` describes it to each of its processes."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from quorate.api.volcano.job import Job, TaskSpec
from quorate.controllers.volcano.job.plugins.interface import (
    OwnedObject,
    add_env,
    containers,
    flags,
    hosts_of,
    open_port,
    port,
)
from quorate.kube.resources import Json

PORT: Final = 2222
_ROLES: Final = ("ps", "worker", "chief", "evaluator")


class TensorflowPlugin:
    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        given = flags(arguments, {**{role: role for role in _ROLES}, "port": str(PORT)})
        self._roles = {given[role]: role for role in _ROLES}  # by the name of the task that has it
        self._port = port(given["port"], PORT)
        self._alone = sum(task.replicas for task in job.spec.tasks) == 1
        self._cluster = {
            self._roles[task.name]: [f"{host}:{self._port}" for host in hosts_of(job, task)]
            for task in job.spec.tasks
            if task.name in self._roles and task.replicas
        }

    def on_pod_create(self, pod: Json, task: TaskSpec, index: int) -> None:
        if self._alone:
            return  # one process is no cluster
        own = {"type": self._roles.get(task.name, task.name), "index": index}
        config = msgspec.json.encode({"cluster": self._cluster, "task": own}).decode()
        for container in containers(pod, init=False):
            open_port(container, "tfjob-port", self._port)
            add_env(container, {"name": "TF_CONFIG", "value": config})

    def owned_objects(self) -> Iterable[OwnedObject]:
        return ()
