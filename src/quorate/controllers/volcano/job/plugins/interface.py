"""The interface of job plugins, and what they share: hosts, flags, edits of pods."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.api.codec import decode
from quorate.api.meta import Struct
from quorate.api.syntax import is_dns_label, parse_boolean
from quorate.api.volcano.job import Job, TaskSpec
from quorate.controllers.limits import MAX_HOSTS
from quorate.controllers.volcano.job.pod_manifest import PodManifest, label_name
from quorate.kube.resources import Json, Resource, untyped

CONFIG_MAPS: Final = untyped("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRETS: Final = untyped("", "v1", "secrets", "Secret", namespaced=True)
NETWORK_POLICIES: Final = untyped(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", namespaced=True
)


@dataclass(frozen=True, slots=True)
class OwnedObject:
    """An object that the job needs besides its pods, and that is deleted with the job.

    ``body`` is the manifest without metadata.
    """

    resource: Resource[Json]
    name: str
    body: Json
    tracks_job: bool = False  # the stored object is updated when the job changes
    is_unique: bool = False  # the name contains the job's uid: an existing object is the job's own
    generates_keys: bool = False  # a Secret that gets a new SSH key pair when it is created


class Plugin(Protocol):
    def on_pod_create(self, pod: PodManifest, task: TaskSpec, index: int) -> None:
        """Edit the manifest of the ``index``-th pod of ``task`` before it is created."""

    def owned_objects(self) -> Iterable[OwnedObject]:
        """Return the objects that must exist before the first pod."""


class _PodNames(Struct):
    hostname: str = ""
    subdomain: str = ""


class _Template(Struct):
    spec: _PodNames = _PodNames()


def pod_name(job: Job, task: TaskSpec, index: int) -> str:
    return f"{job.metadata.name}-{task.name}-{index}"


def host_of(job: Job, task: TaskSpec, index: int) -> str:
    """Return the pod's DNS name: from the template, else in the job's service."""
    return _host(job, task, index, decode(_Template, task.template).spec)


def hosts_of(job: Job, task: TaskSpec) -> list[str]:
    """Return the hosts of all replicas; one host if they share a name in the template.

    Not more than fit into one object: replicas may be any number, and each host is a string.
    """
    names = decode(_Template, task.template).spec
    count = min(task.replicas, 1 if names.hostname else MAX_HOSTS)
    return [_host(job, task, index, names) for index in range(count)]


def _host(job: Job, task: TaskSpec, index: int, names: _PodNames) -> str:
    return (
        f"{names.hostname or pod_name(job, task, index)}.{names.subdomain or label_name(job.metadata.name)}"
    )


def task_named(job: Job, name: str) -> TaskSpec | None:
    return next((task for task in job.spec.tasks if task.name == name), None)


def is_on(value: str) -> bool:
    return not value or bool(parse_boolean(value))


def port(value: str, default: int) -> int:
    return int(value) if value.isascii() and value.isdigit() and 0 < int(value[:6]) < 65536 else default


def set_hostname(pod: PodManifest, job: Job, name: str) -> None:
    """Set the hostname and the subdomain by which the other pods of the job resolve ``pod``."""
    spec = pod.spec
    if not spec.get("hostname") and is_dns_label(name):
        spec["hostname"] = name
    if not spec.get("subdomain"):
        spec["subdomain"] = label_name(job.metadata.name)
