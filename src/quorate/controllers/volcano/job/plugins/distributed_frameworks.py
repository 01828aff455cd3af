"""Plugins for frameworks: ``mpi``, ``pytorch``, ``ray``, ``tensorflow``, ``hcclrank``."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from quorate.api.names.volcano import JOB_NAME, JOB_NAMESPACE, TASK_SPEC
from quorate.api.volcano.job import Job, TaskSpec
from quorate.api.volcano.plugin_arguments import flags
from quorate.controllers.volcano.job.plugins.interface import (
    OwnedObject,
    host_of,
    hosts_of,
    is_on,
    port,
    task_named,
)
from quorate.controllers.volcano.job.pod_manifest import PodManifest, label_name
from quorate.kube.resources import SERVICES, Json

MPI_PORT: Final = 22
PYTORCH_PORT: Final = 23456
TENSORFLOW_PORT: Final = 2222
RAY_PORTS: Final = {"gcs": 6379, "dashboard": 8265, "client-server": 10001}
_RAY_FLAGS: Final = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}
_WAIT_CONTAINER: Final = "wait-for-master"
_WAIT_FLAGS: Final = {
    "wait-master-enabled": "false", "wait-master-timeout": "300", "wait-master-image": "busybox:1.36.1",
}  # fmt: skip
# Some images have no nc, others no shell with /dev/tcp.
_WAIT_SCRIPT: Final = """\
end=$(($(date +%s) + {timeout_s}))
until nc -z {host} {port} || true > /dev/tcp/{host}/{port}; do
  [ "$(date +%s)" -lt "$end" ] || {{ echo "{host}:{port} did not answer within {timeout_s} s"; exit 1; }}
  sleep 2
done 2> /dev/null
"""
_TENSORFLOW_ROLES: Final = ("ps", "worker", "chief", "evaluator")
RANK_ANNOTATION: Final = "hccl/rankIndex"  # read by the device plugin of the node
_RANK_VARIABLE: Final = "RANK"


class MpiPlugin:
    """Lists the hosts of the workers for the master, and opens the SSH port of all pods."""

    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        given = flags(arguments, {"master": "master", "worker": "worker", "port": str(MPI_PORT)})
        self._master = given["master"]
        self._port = port(given["port"], MPI_PORT)
        workers = task_named(job, given["worker"])
        self._hosts = "" if workers is None else ",".join(hosts_of(job, workers))

    def on_pod_create(self, pod: PodManifest, task: TaskSpec, index: int) -> None:
        for container in pod.containers(init=True):
            pod.open_port(container, "mpijob-port", self._port)
        if task.name == self._master:
            pod.add_env([{"name": "MPI_HOST", "value": self._hosts}], init=True)

    def owned_objects(self) -> Iterable[OwnedObject]:
        return ()


class PytorchPlugin:
    """Sets the variables from which torch.distributed reads master and rank.

    With ``--wait-master-enabled`` an init container lets workers start only once the master listens.
    """

    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        names = {"master": "master", "worker": "worker", "port": str(PYTORCH_PORT)}
        given = flags(arguments, names | _WAIT_FLAGS)
        self._worker = given["worker"]
        self._roles = (given["master"], given["worker"])
        self._port = port(given["port"], PYTORCH_PORT)
        self._waits = is_on(given["wait-master-enabled"])
        self._wait_image, self._wait_s = given["wait-master-image"], given["wait-master-timeout"]
        size = sum(task.replicas for task in job.spec.tasks if task.name in self._roles)
        master = task_named(job, given["master"])
        # A single process has no master to connect to.
        self._variables = (
            {}
            if master is None
            else {
                "MASTER_ADDR": host_of(job, master, 0),
                "MASTER_PORT": str(self._port),
                "WORLD_SIZE": str(size),
            }
        )

    def on_pod_create(self, pod: PodManifest, task: TaskSpec, index: int) -> None:
        if not self._variables:
            return
        values = dict(self._variables)
        if task.name in self._roles:
            values["RANK"] = str(index + 1 if task.name == self._worker else 0)
        for container in pod.containers(init=False):
            pod.open_port(container, "pytorchjob-port", self._port)
        pod.add_env([{"name": name, "value": value} for name, value in values.items()], init=False)
        if self._waits and task.name == self._worker:
            host, timeout_s = values["MASTER_ADDR"], int(self._wait_s) if self._wait_s.isdecimal() else 300
            script = _WAIT_SCRIPT.format(host=host, port=self._port, timeout_s=timeout_s)
            container = {"name": _WAIT_CONTAINER, "image": self._wait_image, "command": ["sh", "-c", script]}
            pod.add_init_container(container)

    def owned_objects(self) -> Iterable[OwnedObject]:
        return ()


class RayPlugin:
    """Starts a Ray head with a service, and workers that join the head."""

    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        self._job = job
        defaults = {flag: str(RAY_PORTS[name]) for name, flag in _RAY_FLAGS.items()}
        names = {"head": "head", "headContainer": "head", "worker": "worker", "workerContainer": "worker"}
        self._given = flags(arguments, names | defaults)
        self._ports = {name: port(self._given[flag], RAY_PORTS[name]) for name, flag in _RAY_FLAGS.items()}

    def on_pod_create(self, pod: PodManifest, task: TaskSpec, index: int) -> None:
        given = self._given
        for container in pod.containers(init=False):
            if (task.name, container.get("name")) == (given["head"], given["headContainer"]):
                self._start_head(pod, container)
            elif (task.name, container.get("name")) == (given["worker"], given["workerContainer"]):
                self._start_worker(container)

    def _start_head(self, pod: PodManifest, container: Json) -> None:
        for name, number in self._ports.items():
            pod.open_port(container, name, number)
        gcs, dashboard, client = self._ports.values()
        start = (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={gcs} "
            f"--dashboard-port={dashboard} --ray-client-server-port={client}"
        )
        container["command"] = ["sh", "-c", start]

    def _start_worker(self, container: Json) -> None:
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
        spec = {"selector": selector, "ports": ports}
        yield OwnedObject(SERVICES, label_name(metadata.name, "head-svc"), {"spec": spec})


class TensorflowPlugin:
    """Sets ``TF_CONFIG``, which describes the cluster to each process."""

    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        given = flags(arguments, {**{role: role for role in _TENSORFLOW_ROLES}, "port": str(TENSORFLOW_PORT)})
        self._roles = {given[role]: role for role in _TENSORFLOW_ROLES}  # by task name
        self._port = port(given["port"], TENSORFLOW_PORT)
        self._is_single = sum(task.replicas for task in job.spec.tasks) == 1
        self._cluster = {
            self._roles[task.name]: [f"{host}:{self._port}" for host in hosts_of(job, task)]
            for task in job.spec.tasks
            if task.name in self._roles and task.replicas
        }

    def on_pod_create(self, pod: PodManifest, task: TaskSpec, index: int) -> None:
        if self._is_single:
            return  # a single process is not a cluster
        own = {"type": self._roles.get(task.name, task.name), "index": index}
        config = msgspec.json.encode({"cluster": self._cluster, "task": own}).decode()
        pod.add_env([{"name": "TF_CONFIG", "value": config}], init=False)

    def owned_objects(self) -> Iterable[OwnedObject]:
        return ()


class HcclRankPlugin:
    """Annotates each pod with its rank in Huawei's collective communication library (HCCL)."""

    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        given = flags(arguments, {"master": "master", "worker": "worker"})
        self._master, self._worker = given["master"], given["worker"]
        master = task_named(job, self._master)
        self._masters = 0 if master is None else master.replicas

    def on_pod_create(self, pod: PodManifest, task: TaskSpec, index: int) -> None:
        """Set the rank, from a ``RANK`` variable if there is one, unless the template has it."""
        annotations = pod.annotations
        if annotations.get(RANK_ANNOTATION):
            return
        rank = _rank_variable(pod)
        if not rank and task.name == self._master:
            rank = str(index)
        elif not rank and task.name == self._worker:
            rank = str(self._masters + index)
        if rank:
            annotations[RANK_ANNOTATION] = rank

    def owned_objects(self) -> Iterable[OwnedObject]:
        return ()


def _rank_variable(pod: PodManifest) -> str:
    """Return the value of the first ``RANK`` variable in a container; empty if there is none."""
    variables = (entry for container in pod.containers(init=False) for entry in container.get("env") or ())
    return next(
        (entry["value"] for entry in variables if entry["name"] == _RANK_VARIABLE and entry.get("value")), ""
    )
