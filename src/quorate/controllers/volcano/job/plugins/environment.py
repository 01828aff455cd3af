"""``env``: each pod is told which replica of its task it is."""

from collections.abc import Iterable, Sequence

from quorate.api.volcano.job import Job, TaskSpec
from quorate.controllers.volcano.job.plugins.interface import OwnedObject, add_env, containers
from quorate.kube.resources import Json


class EnvPlugin:
    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        pass

    def on_pod_create(self, pod: Json, task: TaskSpec, index: int) -> None:
        for container in containers(pod, init=True):
            # The second is what it was called in the first releases of Volcano.
            for name in ("VC_TASK_INDEX", "VK_TASK_INDEX"):
                add_env(container, {"name": name, "value": str(index)})

    def owned_objects(self) -> Iterable[OwnedObject]:
        return ()
