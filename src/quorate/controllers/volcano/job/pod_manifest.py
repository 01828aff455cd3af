"""The manifest of a pod while it is composed, with a bound on its size.

A volume is mounted into every container, and a plugin gives every container its variables.  So a job that an
API server stores may have pods that are a thousand times larger than itself.  Such a pod is not composed.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from quorate.api.syntax import is_dns_label, is_dns_subdomain
from quorate.controllers.limits import MAX_LABEL, MAX_NAME, POD_BYTES
from quorate.kube.computations import size_of
from quorate.kube.resources import Json

_DIGITS: Final = 8


def object_name(job: str, suffix: str) -> str:
    """Return ``JOB-SUFFIX``, shortened with a hash of the whole name if no object may have that name."""
    name = f"{job}-{suffix}"
    return name if is_dns_subdomain(name) else _shortened(job, name, suffix, MAX_NAME)


def label_name(job: str, suffix: str = "") -> str:
    """Return ``JOB-SUFFIX`` or ``JOB``, with a hash if no volume or Service may have that name."""
    name = f"{job}-{suffix}" if suffix else job
    return name if is_dns_label(name) else _shortened(job.replace(".", "-"), name, suffix, MAX_LABEL)


def _shortened(job: str, name: str, suffix: str, length: int) -> str:
    tail = f"-{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}{f'-{suffix}' if suffix else ''}"
    return job[: length - len(tail)].rstrip("-.") + tail


@dataclass(frozen=True, slots=True)
class PodTooLarge:
    """A pod of ``task`` would be larger than an API server accepts."""

    task: str

    def __str__(self) -> str:
        return (
            f"spec.tasks[{self.task}]: a pod with the volumes and plugins of the job would have more than "
            f"{POD_BYTES} bytes, the most that an API server reads (use fewer containers, volumes or tasks)"
        )


class PodManifest:
    """A pod as JSON; ``size``: the bytes that are known so far.

    Edits replace the fields of ``body`` and of its containers, never change what these contain: copies share
    it.  An edit that would exceed ``POD_BYTES`` has no effect, except that ``is_too_large`` is True from then
    on.
    """

    def __init__(self, body: Json, size: int) -> None:
        self.body = body
        self.size = size

    @property
    def is_too_large(self) -> bool:
        return self.size > POD_BYTES

    @property
    def spec(self) -> Json:
        spec: Json = self.body["spec"]
        return spec

    @property
    def annotations(self) -> dict[str, str]:
        annotations: dict[str, str] = self.body["metadata"]["annotations"]
        return annotations

    def copy(self) -> Self:
        """Return a manifest with fields of its own, down to the fields of its containers."""
        spec = dict(self.spec)
        for name in ("containers", "initContainers"):
            if name in spec:
                spec[name] = [dict(container) for container in spec[name] or ()]
        return type(self)({**self.body, "spec": spec}, self.size)

    def containers(self, *, init: bool) -> Iterator[Json]:
        """Yield the containers; ``init``: the init containers, too."""
        yield from self.spec.get("containers") or ()
        if init:
            yield from self.spec.get("initContainers") or ()

    def add_env(self, variables: Sequence[Json], *, init: bool) -> None:
        """Add variables to all containers."""
        self._extend_containers("env", variables, init=init)

    def add_volumes(self, volumes: Sequence[Json], mounts: Sequence[Json], *, init: bool) -> None:
        """Add volumes to the pod, and their mounts to all containers."""
        if self._has_room(size_of(volumes)):
            spec = self.spec
            spec["volumes"] = [*(spec.get("volumes") or ()), *volumes]
            self._extend_containers("volumeMounts", mounts, init=init)

    def add_init_container(self, container: Json) -> None:
        """Add an init container after the others, unless one has its name."""
        present = self.spec.get("initContainers") or ()
        if all(entry.get("name") != container["name"] for entry in present) and self._has_room(
            size_of(container)
        ):
            self.spec["initContainers"] = [*present, container]

    def open_port(self, container: Json, name: str, number: int) -> None:
        """Add a port to a container, unless it has the number already."""
        added: Json = {"name": name, "containerPort": number}
        ports = container.get("ports") or ()
        if all(port.get("containerPort") != number for port in ports) and self._has_room(size_of(added)):
            container["ports"] = [*ports, added]

    def _extend_containers(self, field: str, entries: Sequence[Json], *, init: bool) -> None:
        containers = list(self.containers(init=init))
        if entries and self._has_room(size_of(entries) * len(containers)):
            for container in containers:
                container[field] = [*(container.get(field) or ()), *entries]

    def _has_room(self, added: int) -> bool:
        """Count ``added`` bytes; return False if the manifest is too large with them."""
        self.size += added
        return not self.is_too_large
