"""``ssh``: the pods of a job may log in to each other, by keys of its own or by those that it is given."""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.api.volcano.job import Job, TaskSpec
from quorate.controllers.volcano.job.plugins.interface import (
    SECRETS,
    OwnedObject,
    add_volume,
    flags,
    hosts_of,
    is_on,
)
from quorate.kube.resources import Json

PRIVATE: Final = "id_rsa"
PUBLIC: Final = "id_rsa.pub"
AUTHORIZED: Final = "authorized_keys"
CONFIG: Final = "config"
_PATH: Final = "ssh-key-file-path"
_PRIVATE: Final = "ssh-private-key"
_PUBLIC: Final = "ssh-public-key"
_ROOT: Final = "/root/.ssh"
_OF_OTHERS: Final = "/etc/volcano/.ssh"
_DIRECTORY: Final = ".ssh"
_LET_IN: Final = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
_ONLY_OWNER: Final = 0o600
_ANYBODY: Final = 0o755


class SshPlugin:
    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        self._job = job
        # With the uid nobody else's keys are ever taken for these, which saves a right to read secrets.
        self._name = f"{job.metadata.name}-{job.metadata.uid}-ssh"
        defaults = {"no-root": "false", _PATH: _ROOT, _PRIVATE: "", _PUBLIC: ""}
        given = flags(arguments, defaults)
        self._path = _OF_OTHERS if is_on(given["no-root"]) and given[_PATH] == _ROOT else given[_PATH]
        self._given = {PRIVATE: given[_PRIVATE], PUBLIC: given[_PUBLIC]} if given[_PRIVATE] else {}

    def on_pod_create(self, pod: Json, task: TaskSpec, index: int) -> None:
        files = ((PRIVATE, PRIVATE), (PUBLIC, PUBLIC), (PUBLIC, AUTHORIZED), (CONFIG, CONFIG))
        secret = {
            "secretName": self._name,
            "items": [{"key": key, "path": f"{_DIRECTORY}/{path}"} for key, path in files],
            "defaultMode": _ONLY_OWNER if self._path == _ROOT else _ANYBODY,
        }
        mount = {"name": self._name, "mountPath": self._path, "subPath": _DIRECTORY}
        add_volume(pod, {"name": self._name, "secret": secret}, mount, init=True)

    def owned_objects(self) -> Iterable[OwnedObject]:
        body = {"type": "Opaque", "stringData": {CONFIG: self._config(), **self._given}}
        yield OwnedObject(SECRETS, self._name, body, is_unique=True, generates_keys=not self._given)

    def _config(self) -> str:
        """Short names for all hosts of the job."""
        job = self._job
        hosts = dict.fromkeys(host for task in job.spec.tasks for host in hosts_of(job, task))
        lines = [f"Host {host.partition('.')[0]}\n  HostName {host}\n" for host in hosts]
        return _LET_IN + "".join(lines)
