"""The contract of a plugin, and what several of them share: hosts, flags, and parts of pods."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.api.codec import decode
from quorate.api.meta import Struct
from quorate.api.syntax import is_dns_label
from quorate.api.volcano.job import Job, TaskSpec
from quorate.kube.resources import Json, Resource, untyped

CONFIG_MAPS: Final = untyped("", "v1", "configmaps", "ConfigMap", namespaced=True)
SERVICES: Final = untyped("", "v1", "services", "Service", namespaced=True)
SECRETS: Final = untyped("", "v1", "secrets", "Secret", namespaced=True)
NETWORK_POLICIES: Final = untyped(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", namespaced=True
)

_TRUE: Final = ("", "1", "t", "T", "true", "TRUE", "True")


@dataclass(frozen=True, slots=True)
class OwnedObject:
    """An object the job needs besides its pods; it goes with the job.

    ``body`` is all of it but its metadata.  ``tracks_job``: what is stored is brought in step with the job;
    else it stays as it was made.
    """

    resource: Resource[Json]
    name: str
    body: Json
    tracks_job: bool = False
    is_unique: bool = False  # named for this job alone: what is there is its own
    generates_keys: bool = False  # a secret: a fresh pair of keys is put into it when it is made


class Plugin(Protocol):
    def on_pod_create(self, pod: Json, task: TaskSpec, index: int) -> None:
        """Add to a pod that is being composed, the ``index``-th of ``task``."""

    def owned_objects(self) -> Iterable[OwnedObject]:
        """What must be there before the first pod."""


class _Names(Struct):
    hostname: str = ""
    subdomain: str = ""


class _Template(Struct):
    spec: _Names = _Names()


def pod_name(job: Job, task: TaskSpec, index: int) -> str:
    return f"{job.metadata.name}-{task.name}-{index}"


def host_of(job: Job, task: TaskSpec, index: int) -> str:
    """Where the pod is found: in the domain of the job's service, unless its template says otherwise."""
    return _host(job, task, index, decode(_Template, task.template).spec)


def hosts_of(job: Job, task: TaskSpec) -> list[str]:
    """The hosts of all replicas; one, if the template gives them all the same name."""
    names = decode(_Template, task.template).spec
    count = min(task.replicas, 1) if names.hostname else task.replicas
    return [_host(job, task, index, names) for index in range(count)]


def _host(job: Job, task: TaskSpec, index: int, names: _Names) -> str:
    return f"{names.hostname or pod_name(job, task, index)}.{names.subdomain or job.metadata.name}"


def task_named(job: Job, name: str) -> TaskSpec | None:
    return next((task for task in job.spec.tasks if task.name == name), None)


def flags(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The values of ``--name=value``, ``--name value`` and ``--name``, with defaults; others are ignored.

    As Go reads flags: with one dash or two.  A flag without a value is on.
    """
    values = dict(defaults)
    words = iter(arguments)
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in defaults:
            continue
        is_switch = defaults[name] in ("true", "false")
        values[name] = value if equals else "true" if is_switch else next(words, defaults[name])
    return values


def is_on(value: str) -> bool:
    return value in _TRUE


def port(value: str, otherwise: int) -> int:
    return int(value) if value.isascii() and value.isdigit() and 0 < int(value[:6]) < 65536 else otherwise


def containers(pod: Json, *, init: bool) -> Iterator[Json]:
    """The containers of a pod; with ``init`` also those that run before."""
    yield from pod["spec"].get("containers", ())
    if init:
        yield from pod["spec"].get("initContainers", ())


def add_env(container: Json, *variables: Json) -> None:
    container["env"] = [*container.get("env", ()), *variables]


def open_port(container: Json, name: str, number: int) -> None:
    """Have the container show a port, unless it does."""
    present = container.get("ports", ())
    if all(each.get("containerPort") != number for each in present):
        container["ports"] = [*present, {"name": name, "containerPort": number}]


def add_volume(pod: Json, volume: Json, mount: Json, *, init: bool) -> None:
    spec = pod["spec"]
    spec["volumes"] = [*spec.get("volumes", ()), volume]
    for container in containers(pod, init=init):
        container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]


def name_host(pod: Json, job: Job, name: str) -> None:
    """Give the pod the name under which the others find it."""
    spec = pod["spec"]
    if not spec.get("hostname") and is_dns_label(name):
        spec["hostname"] = name
    if not spec.get("subdomain"):
        spec["subdomain"] = job.metadata.name
