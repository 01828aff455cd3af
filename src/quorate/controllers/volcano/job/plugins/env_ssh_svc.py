"""General plugins: ``env`` (replica index), ``ssh`` (login), ``svc`` (pod names)."""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.api.names.volcano import JOB_NAME, JOB_NAMESPACE
from quorate.api.volcano.job import Job, TaskSpec
from quorate.api.volcano.plugin_arguments import flags
from quorate.controllers.volcano.job.plugins.interface import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    SECRETS,
    OwnedObject,
    hosts_of,
    is_on,
    pod_name,
    port,
    set_hostname,
)
from quorate.controllers.volcano.job.pod_manifest import PodManifest, label_name, object_name
from quorate.kube.resources import SERVICES, Json

PRIVATE_KEY: Final = "id_rsa"
PUBLIC_KEY: Final = "id_rsa.pub"
AUTHORIZED_KEYS: Final = "authorized_keys"
SSH_CONFIG: Final = "config"
_KEY_BITS: Final = 2048  # every SSH implementation accepts it, and the keys live no longer than the job
_KEY_FILE_PATH: Final = "ssh-key-file-path"
_PRIVATE_KEY: Final = "ssh-private-key"
_PUBLIC_KEY: Final = "ssh-public-key"
_ROOT_PATH: Final = "/root/.ssh"
_NO_ROOT_PATH: Final = "/etc/volcano/.ssh"
_DIRECTORY: Final = ".ssh"
_NO_HOST_CHECKS: Final = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
_OWNER_MODE: Final = 0o600
_ANY_USER_MODE: Final = 0o644
_SSH_PORT: Final = 22

HOSTS_PATH: Final = "/etc/volcano"
_NOT_READY: Final = "publish-not-ready-addresses"
_NO_POLICY: Final = "disable-network-policy"
_VARIABLES: Final = "inject-hosts-env"


class EnvPlugin:
    """Sets the index of the replica within its task as an environment variable."""

    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        pass

    def on_pod_create(self, pod: PodManifest, task: TaskSpec, index: int) -> None:
        # VK_TASK_INDEX is the name in the first releases of Volcano.
        names = ("VC_TASK_INDEX", "VK_TASK_INDEX")
        pod.add_env([{"name": name, "value": str(index)} for name in names], init=True)

    def owned_objects(self) -> Iterable[OwnedObject]:
        return ()


class SshPlugin:
    """Lets the pods of a job log in to each other, with generated or given keys."""

    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        self._job = job
        # The uid makes the name unique, so the controller needs no permission to read Secrets.
        self._name = object_name(job.metadata.name, f"{job.metadata.uid}-ssh")
        self._volume = label_name(job.metadata.name, "ssh")
        defaults = {
            "no-root": "false", "ssh-port": str(_SSH_PORT), _KEY_FILE_PATH: _ROOT_PATH, _PRIVATE_KEY: "",
            _PUBLIC_KEY: "",
        }  # fmt: skip
        given = flags(arguments, defaults)
        self._path = given[_KEY_FILE_PATH]
        self._port = port(given["ssh-port"], _SSH_PORT)
        if is_on(given["no-root"]) and self._path == _ROOT_PATH:
            self._path = _NO_ROOT_PATH
        self._given_keys = (
            {
                PRIVATE_KEY: given[_PRIVATE_KEY],
                PUBLIC_KEY: given[_PUBLIC_KEY],
                AUTHORIZED_KEYS: given[_PUBLIC_KEY],
            }
            if given[_PRIVATE_KEY]
            else {}
        )

    def on_pod_create(self, pod: PodManifest, task: TaskSpec, index: int) -> None:
        keys = (PRIVATE_KEY, PUBLIC_KEY, AUTHORIZED_KEYS, SSH_CONFIG)
        secret = {
            "secretName": self._name,
            "items": [{"key": key, "path": f"{_DIRECTORY}/{key}"} for key in keys],
            "defaultMode": _OWNER_MODE if self._path == _ROOT_PATH else _ANY_USER_MODE,
        }
        mount = {"name": self._volume, "mountPath": self._path, "subPath": _DIRECTORY}
        pod.add_volumes([{"name": self._volume, "secret": secret}], [mount], init=True)

    def owned_objects(self) -> Iterable[OwnedObject]:
        body = {"type": "Opaque", "stringData": {SSH_CONFIG: self._config(), **self._given_keys}}
        yield OwnedObject(SECRETS, self._name, body, is_unique=True, generates_keys=not self._given_keys)

    def _config(self) -> str:
        """Return an SSH configuration with short names and the port of all hosts of the job."""
        job = self._job
        hosts = dict.fromkeys(host for task in job.spec.tasks for host in hosts_of(job, task))
        lines = [f"Host {host.partition('.')[0]}\n  HostName {host}\n  Port {self._port}\n" for host in hosts]
        return _NO_HOST_CHECKS + "".join(lines)


def generate_ssh_keys(comment: str) -> tuple[str, str]:
    """Return a private key (PEM) and its public key (OpenSSH).  Takes 0.1 s or more."""
    # Most processes generate none, and the library takes 7 MB.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()} {comment}\n"


class SvcPlugin:
    """Lets the pods of a job resolve each other and count the replicas of each task.

    A NetworkPolicy, as far as the cluster's network enforces it, keeps all other pods from reaching them.
    """

    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        self._job = job
        self._map_name = object_name(job.metadata.name, "svc")
        self._volume = label_name(job.metadata.name, "svc")
        self._variables: list[Json] = [
            {"name": name, "valueFrom": {"configMapKeyRef": {"name": self._map_name, "key": name}}}
            for task in job.spec.tasks
            for name in _variables(task)
        ]
        given = flags(arguments, {_NOT_READY: "false", _NO_POLICY: "false", _VARIABLES: "true"})
        self._publish_not_ready, self._no_policy = is_on(given[_NOT_READY]), is_on(given[_NO_POLICY])
        self._sets_variables = is_on(given[_VARIABLES])

    def on_pod_create(self, pod: PodManifest, task: TaskSpec, index: int) -> None:
        job = self._job
        set_hostname(pod, job, pod_name(job, task, index))
        if self._sets_variables:  # the list of the hosts of many replicas exceeds what a process may get
            pod.add_env(self._variables, init=True)
        volume = {"name": self._volume, "configMap": {"name": self._map_name}}
        pod.add_volumes([volume], [{"name": self._volume, "mountPath": HOSTS_PATH}], init=True)

    def owned_objects(self) -> Iterable[OwnedObject]:
        metadata = self._job.metadata
        selector = {JOB_NAME: metadata.name, JOB_NAMESPACE: metadata.namespace}
        spec: Json = {"clusterIP": "None", "selector": selector}
        if self._publish_not_ready:
            spec["publishNotReadyAddresses"] = True
        yield OwnedObject(CONFIG_MAPS, self._map_name, {"data": self._hosts()}, tracks_job=True)
        yield OwnedObject(SERVICES, label_name(metadata.name), {"spec": spec})
        if not self._no_policy:
            own = {"matchLabels": selector}
            policy = {
                "podSelector": own,
                "ingress": [{"from": [{"podSelector": own}]}],
                "policyTypes": ["Ingress"],
            }
            yield OwnedObject(NETWORK_POLICIES, metadata.name, {"spec": policy})

    def _hosts(self) -> dict[str, str]:
        data: dict[str, str] = {}
        for task in self._job.spec.tasks:
            hosts = hosts_of(self._job, task)
            hosts_variable, number_variable = _variables(task)
            data[f"{_identifier(task)}.host"] = "\n".join(hosts)
            data[hosts_variable] = ",".join(hosts)
            data[number_variable] = str(len(hosts))
        return data


def _variables(task: TaskSpec) -> tuple[str, str]:
    """Return the names of the variables with the task's hosts and with their number."""
    name = _identifier(task).upper()
    return f"VC_{name}_HOSTS", f"VC_{name}_NUM"


def _identifier(task: TaskSpec) -> str:
    return task.name.replace("-", "_")
