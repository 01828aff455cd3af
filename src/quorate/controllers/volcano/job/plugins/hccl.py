"""``hcclrank``: each pod is told its rank among those that talk by Huawei's collective communication."""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.api.volcano.job import Job, TaskSpec
from quorate.controllers.volcano.job.plugins.interface import OwnedObject, containers, flags, task_named
from quorate.kube.resources import Json

RANK: Final = "hccl/rankIndex"  # an annotation that the device plugin of the node reads
_ENV: Final = "RANK"


class HcclRankPlugin:
    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        given = flags(arguments, {"master": "master", "worker": "worker"})
        self._master, self._worker = given["master"], given["worker"]
        master = task_named(job, self._master)
        self._masters = 0 if master is None else master.replicas

    def on_pod_create(self, pod: Json, task: TaskSpec, index: int) -> None:
        """A rank that the template or another plugin has given stands."""
        annotations = pod["metadata"]["annotations"]
        if annotations.get(RANK):
            return
        rank = _rank_in(pod)
        if not rank and task.name == self._master:
            rank = str(index)
        elif not rank and task.name == self._worker:
            rank = str(self._masters + index)
        if rank:
            annotations[RANK] = rank

    def owned_objects(self) -> Iterable[OwnedObject]:
        return ()


def _rank_in(pod: Json) -> str:
    """As the variable of the containers says it; empty where none does."""
    variables = (each for container in containers(pod, init=False) for each in container.get("env", ()))
    return next((each["value"] for each in variables if each["name"] == _ENV and each.get("value")), "")
