"""``svc``: the pods of a job find each other by name, know how many of each task there are, and are not
reached by anybody else, as far as the cluster's network enforces policies.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.api.volcano.job import JOB_NAME, JOB_NAMESPACE, Job, TaskSpec
from quorate.controllers.volcano.job.plugins.interface import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    SERVICES,
    OwnedObject,
    add_env,
    add_volume,
    containers,
    flags,
    hosts_of,
    is_on,
    name_host,
    pod_name,
)
from quorate.kube.resources import Json

MOUNT_PATH: Final = "/etc/volcano"
_NOT_READY: Final = "publish-not-ready-addresses"
_NO_POLICY: Final = "disable-network-policy"


class SvcPlugin:
    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        self._job = job
        self._map_name = f"{job.metadata.name}-svc"
        given = flags(arguments, {_NOT_READY: "false", _NO_POLICY: "false"})
        self._not_ready, self._open = is_on(given[_NOT_READY]), is_on(given[_NO_POLICY])

    def on_pod_create(self, pod: Json, task: TaskSpec, index: int) -> None:
        job = self._job
        name_host(pod, job, pod_name(job, task, index))
        names = [name for each in job.spec.tasks for name in _variables(each)]
        variables = [
            {"name": name, "valueFrom": {"configMapKeyRef": {"name": self._map_name, "key": name}}}
            for name in names
        ]
        for container in containers(pod, init=True):
            add_env(container, *variables)
        volume = {"name": self._map_name, "configMap": {"name": self._map_name}}
        add_volume(pod, volume, {"name": self._map_name, "mountPath": MOUNT_PATH}, init=True)

    def owned_objects(self) -> Iterable[OwnedObject]:
        metadata = self._job.metadata
        selector = {JOB_NAME: metadata.name, JOB_NAMESPACE: metadata.namespace}
        spec: Json = {"clusterIP": "None", "selector": selector}
        if self._not_ready:
            spec["publishNotReadyAddresses"] = True
        yield OwnedObject(CONFIG_MAPS, self._map_name, {"data": self._hosts()}, tracks_job=True)
        yield OwnedObject(SERVICES, metadata.name, {"spec": spec})
        if not self._open:
            own = {"matchLabels": selector}
            closed = {
                "podSelector": own,
                "ingress": [{"from": [{"podSelector": own}]}],
                "policyTypes": ["Ingress"],
            }
            yield OwnedObject(NETWORK_POLICIES, metadata.name, {"spec": closed})

    def _hosts(self) -> dict[str, str]:
        data: dict[str, str] = {}
        for task in self._job.spec.tasks:
            hosts = hosts_of(self._job, task)
            of_hosts, of_number = _variables(task)
            data[f"{_identifier(task)}.host"] = "\n".join(hosts)
            data[of_hosts] = ",".join(hosts)
            data[of_number] = str(len(hosts))
        return data


def _variables(task: TaskSpec) -> tuple[str, str]:
    """The variables with the hosts of a task and with their number."""
    name = _identifier(task).upper()
    return f"VC_{name}_HOSTS", f"VC_{name}_NUM"


def _identifier(task: TaskSpec) -> str:
    return task.name.replace("-", "_")
