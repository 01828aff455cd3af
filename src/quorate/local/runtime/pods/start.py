"""What a container is started with: its environment, command, mounts and devices."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from quorate.local.controllers.services import Service
from quorate.local.runtime.containers.environment import (
    DEFAULT_PATH,
    PodFacts,
    ReferencedObjects,
    container_limits,
    environment_of,
    expand,
    referenced_files,
    references,
)
from quorate.local.runtime.containers.processes import Attempt
from quorate.local.runtime.containers.sandbox import Sandbox, with_format_error
from quorate.local.runtime.network.pod_files import pod_hostname
from quorate.local.runtime.network.types import API_SERVICE, PodNetworkNamespace
from quorate.local.runtime.node import NodeServices, device_files, device_variables
from quorate.local.runtime.pod_types import Container, Pod, SecurityContext
from quorate.local.runtime.pods.volumes import PodVolumes, mounts_of, read_file


def why_refused(pod: Pod, container: Container) -> str:
    """Return why a container cannot be configured whatever else changes, or an empty string."""
    if not container.command and (not container.args or container.args[0].startswith("-")):
        given = "args without command" if container.args else "no command specified"
        return f"{given} (images are not pulled, so that their entry points are not known: set command)"
    context = container.security_context
    non_root = context.run_as_non_root
    if non_root is None:
        non_root = pod.spec.security_context.run_as_non_root
    user = context.run_as_user if context.run_as_user is not None else pod.spec.security_context.run_as_user
    if non_root and user == 0:
        return "container's runAsUser breaks non-root policy"
    return ""


def user_and_group(pod: Pod, container: Container, *, is_root: bool) -> tuple[int | None, int | None]:
    """Return the ids with which a container runs; None for the id of the kubelet."""
    if not is_root:
        return None, None
    own, of_pod = container.security_context, pod.spec.security_context
    user = own.run_as_user if own.run_as_user is not None else of_pod.run_as_user
    group = own.run_as_group if own.run_as_group is not None else of_pod.run_as_group
    return user, user if group is None else group


def ignored_fields(pod: Pod, *, is_root: bool) -> list[str]:
    """Return the fields of a pod's spec that have no effect; ``is_root``: processes may change users."""
    spec, context = pod.spec, pod.spec.security_context
    fields = {
        "hostPID": spec.host_pid,
        "setHostnameAsFQDN": spec.set_hostname_as_fqdn,
        "securityContext.fsGroup": context.fs_group is not None,
        "securityContext.supplementalGroups": context.supplemental_groups,
        "securityContext.sysctls": context.sysctls,
    }
    names = [name for name, is_set in fields.items() if is_set]
    names += _ignored_in_context(context, "securityContext", is_root=is_root)
    for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers):
        path = f"containers[{container.name}]"
        names += _ignored_in_context(container.security_context, f"{path}.securityContext", is_root=is_root)
    return names


def _ignored_in_context(context: SecurityContext, path: str, *, is_root: bool) -> list[str]:
    values = {
        "privileged": context.privileged,
        "capabilities": context.capabilities,
        "seccompProfile": context.seccomp_profile,
        "appArmorProfile": context.app_armor_profile,
        "seLinuxOptions": context.se_linux_options,
        "runAsUser": not is_root and context.run_as_user,
        "runAsGroup": not is_root and context.run_as_group,
    }
    return [f"{path}.{name}" for name, value in values.items() if value]


@dataclass(frozen=True, slots=True)
class ContainerStart:
    services: NodeServices
    pod: Pod
    container: Container
    network: PodNetworkNamespace
    volumes: PodVolumes
    facts: PodFacts
    attempt: Attempt
    devices: tuple[int, ...]
    pid_namespace: Path | None = None

    @property
    def image_message(self) -> str:
        """Return the message of the event ``Pulled``: the image is not pulled."""
        root = self.services.image_root(self.container.image)
        files = "the files of this machine are" if root == Path("/") else f"the files in {root} are"
        return f'Container image "{self.container.image}" is not pulled: {files} used in its place'

    async def environment(self) -> dict[str, str]:
        """Return the variables of the container.  Raises ``ConfigError``."""
        namespace, objects = self.pod.metadata.namespace, self.services.objects
        names, secret_names = (sorted(referenced) for referenced in references(self.container))
        config_maps = await asyncio.gather(*(objects.config_map(namespace, name) for name in names))
        secrets = await asyncio.gather(*(objects.secret(namespace, name) for name in secret_names))
        referenced = ReferencedObjects(
            dict(zip(names, config_maps, strict=True)),
            dict(zip(secret_names, secrets, strict=True)),
            {
                (volume, path): read_file(self.volumes, volume, path)
                for volume, path in referenced_files(self.container)
            },
        )
        services = [self._as_reached(service) for service in objects.services()]
        declared = environment_of(self.pod, self.container, referenced, services, self.facts)
        own = {"PATH": DEFAULT_PATH, "HOME": self.services.home, "HOSTNAME": pod_hostname(self.pod)}
        if self.container.tty:
            own["TERM"] = "xterm"
        return {**own, **device_variables(self.devices), **declared}

    def _as_reached(self, service: Service) -> Service:
        """Return the service with the address of the API server, where pods do not reach cluster IPs."""
        if self.network.path is not None or service.metadata.key != API_SERVICE:
            return service
        host, port = self.network.api_server
        ports = tuple(replace(served, port=port) for served in service.spec.ports)
        return replace(service, spec=replace(service.spec, cluster_ip=host, ports=ports))

    def sandbox(self, environment: Mapping[str, str], termination_log: Path, layers: Path) -> Sandbox:
        """Return the sandbox of the container.  Raises ``VolumeError`` or OSError."""
        container, pod = self.container, self.pod
        user, group = user_and_group(pod, container, is_root=self.services.is_root)
        sandbox = Sandbox(
            command=self._command(environment),
            working_directory=container.working_dir or "/",
            hostname=pod_hostname(pod),
            network=self.network.path,
            hosts=self.network.hosts,
            resolv_conf=self.network.resolv_conf,
            mounts=mounts_of(container, self.volumes, environment),
            termination_log=termination_log,
            termination_log_target=container.termination_message_path,
            layers=layers,
            image=self.services.image_root(container.image),
            home=environment["HOME"],
            read_only=container.security_context.read_only_root_filesystem,
            devices=device_files(self.devices),
            cgroups=self.services.cgroups.create(self.attempt, container_limits(pod, container)),
            user=user,
            group=group,
            terminal=container.tty,
            pid_namespace=self.pid_namespace,
        )
        return with_format_error(sandbox, environment["PATH"])

    def _command(self, environment: Mapping[str, str]) -> Sequence[str]:
        return [expand(word, environment) for word in (*self.container.command, *self.container.args)]
