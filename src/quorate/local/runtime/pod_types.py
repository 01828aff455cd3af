"""Pods and the objects they refer to, with all fields that the kubelet of the process runtime uses.

They extend the pods of ``local.nodes``, which extend the pods of ``api.core``.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from quorate.api import core
from quorate.api.meta import Int32, Int64, ObjectMeta, Struct
from quorate.api.quantity import Quantity
from quorate.kube.resources import Resource
from quorate.local.nodes import pod_types

IntOrString = int | str


class KeySelector(Struct):
    """A key of a ConfigMap or a Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldSelector(Struct):
    field_path: str = ""


class ResourceFieldSelector(Struct):
    container_name: str = ""
    resource: str = ""
    divisor: IntOrString = "0"


class FileKeySelector(Struct):
    """A key of a file with variables, in a volume of the pod."""

    volume_name: str
    path: str
    key: str
    optional: bool = False


class EnvVarSource(Struct):
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Struct):
    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class ObjectSelector(Struct):
    name: str = ""
    optional: bool = False


class EnvFromSource(Struct):
    prefix: str = ""
    config_map_ref: ObjectSelector | None = None
    secret_ref: ObjectSelector | None = None


class VolumeMount(Struct):
    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class ExecAction(Struct):
    command: tuple[str, ...] = ()


class HttpHeader(Struct):
    name: str
    value: str = ""


class HttpGetAction(Struct):
    port: IntOrString
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


class TcpSocketAction(Struct):
    port: IntOrString
    host: str = ""


class GrpcAction(Struct):
    port: Int32
    service: str = ""


class SleepAction(Struct):
    seconds: Int64 = 0


class Handler(Struct):
    """What a probe or a lifecycle hook does: exactly one of the fields is set."""

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    grpc: GrpcAction | None = None
    sleep: SleepAction | None = None


class Probe(Handler):
    initial_delay_seconds: Int32 = 0
    timeout_seconds: Int32 = 1
    period_seconds: Int32 = 10
    success_threshold: Int32 = 1
    failure_threshold: Int32 = 3
    termination_grace_period_seconds: Int64 | None = None


class Lifecycle(Struct):
    post_start: Handler | None = None
    pre_stop: Handler | None = None


class SecurityContext(Struct):
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool = False
    privileged: bool = False
    capabilities: Mapping[str, Any] | None = None
    seccomp_profile: Mapping[str, Any] | None = None
    app_armor_profile: Mapping[str, Any] | None = None
    se_linux_options: Mapping[str, Any] | None = None


class PodSecurityContext(SecurityContext):
    fs_group: Int64 | None = None
    supplemental_groups: tuple[Int64, ...] = ()
    sysctls: tuple[Mapping[str, Any], ...] = ()


class ExitCodes(Struct):
    operator: str = "In"
    values: tuple[Int32, ...] = ()

    def match(self, code: int) -> bool:
        return (code in self.values) == (self.operator == "In")


class RestartRule(Struct):
    action: str
    exit_codes: ExitCodes = ExitCodes()


class Container(pod_types.Container):
    restart_policy_rules: tuple[RestartRule, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle = Lifecycle()
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    security_context: SecurityContext = SecurityContext()
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class EphemeralContainer(Container):
    target_container_name: str = ""


class KeyToPath(Struct):
    key: str
    path: str
    mode: Int32 | None = None


class ConfigMapSource(Struct):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False
    default_mode: Int32 = 0o644


class SecretSource(ConfigMapSource):
    secret_name: str = ""  # of a volume; ``name`` in a projection


class DownwardFile(Struct):
    path: str
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: Int32 | None = None


class DownwardSource(Struct):
    items: tuple[DownwardFile, ...] = ()
    default_mode: Int32 = 0o644


class TokenSource(Struct):
    path: str = "token"
    audience: str = ""
    expiration_seconds: Int64 = 3600


class Projection(Struct):
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    downward_api: DownwardSource | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: TokenSource | None = None


class ProjectedSource(Struct):
    sources: tuple[Projection, ...] = ()
    default_mode: Int32 = 0o644


class EmptyDirSource(Struct):
    medium: str = ""
    size_limit: Quantity | None = None


class HostPathSource(Struct):
    path: str
    type: str = ""


class ClaimSource(Struct):
    claim_name: str
    read_only: bool = False


class Volume(Struct):
    """A volume; a volume with none of these sources cannot be mounted here."""

    name: str
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    downward_api: DownwardSource | None = msgspec.field(default=None, name="downwardAPI")
    projected: ProjectedSource | None = None
    empty_dir: EmptyDirSource | None = None
    host_path: HostPathSource | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Mapping[str, Any] | None = None


class ReadinessGate(Struct):
    condition_type: str


class PodSpec(pod_types.PodSpec):
    hostname_override: str = ""
    readiness_gates: tuple[ReadinessGate, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    volumes: tuple[Volume, ...] = ()
    set_hostname_as_fqdn: bool = msgspec.field(default=False, name="setHostnameAsFQDN")
    share_process_namespace: bool = False
    host_pid: bool = msgspec.field(default=False, name="hostPID")
    host_network: bool = False
    dns_policy: str = "ClusterFirst"
    dns_config: Mapping[str, Any] = {}
    host_aliases: tuple[Mapping[str, Any], ...] = ()
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    enable_service_links: bool = True
    termination_grace_period_seconds: Int64 = 30
    security_context: PodSecurityContext = PodSecurityContext()


class PodStatus(pod_types.PodStatus):
    qos_class: str = ""
    observed_generation: Int64 = 0


class PodMeta(ObjectMeta):
    deletion_grace_period_seconds: Int64 | None = None


class Pod(pod_types.Pod):
    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def container(self, name: str) -> Container | None:
        """Return a container of any kind, or None if the pod has none of this name."""
        spec = self.spec
        containers = (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)
        return next((container for container in containers if container.name == name), None)

    def field_path(self, name: str) -> str:
        """Return the path of a container as events have it."""
        spec = self.spec
        fields = {"initContainers": spec.init_containers, "ephemeralContainers": spec.ephemeral_containers}
        field = next(
            (
                field
                for field, containers in fields.items()
                if name in {container.name for container in containers}
            ),
            "containers",
        )
        return f"spec.{field}{{{name}}}"


class LocalVolumeSource(Struct):
    path: str


class PersistentVolumeSpec(Struct):
    host_path: HostPathSource | None = None
    local: LocalVolumeSource | None = None


class PersistentVolume(Struct):
    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class ConfigMap(core.ConfigMap):
    """A ConfigMap; binary data is base64."""

    binary_data: Mapping[str, str] = {}


PODS = Resource("", "v1", "pods", "Pod", True, Pod)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, ConfigMap)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, PersistentVolume)
