"""Configuration of MultiKueue: the dispatch of workloads from this cluster to worker clusters."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from quorate.api.configuration.integrations import ExternalFramework, external_framework
from quorate.api.decoding import strict as d
from quorate.api.names.multikueue import ALL_AT_ONCE, INCREMENTAL
from quorate.api.syntax import is_label_value

_MAX_DISPATCHER: Final = 63  # characters
_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")


class MultiKueueGates(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """Gates that the MultiKueue controllers and webhooks read, with Kueue's names and defaults."""

    multi_kueue: bool = True
    adapters_for_custom_jobs: bool = msgspec.field(default=True, name="MultiKueueAdaptersForCustomJobs")
    incremental_dispatcher_config: bool = msgspec.field(
        default=True, name="MultiKueueIncrementalDispatcherConfig"
    )
    incremental_in_configured_order: bool = msgspec.field(
        default=True, name="MultiKueueIncrementalDispatcherRespectConfigOrder"
    )
    validate_kubeconfig_path: bool = msgspec.field(default=True, name="MultiKueueKubeConfigPathValidation")
    orchestrated_preemption: bool = msgspec.field(default=True, name="MultiKueueOrchestratedPreemption")
    remote_spec_sync: bool = msgspec.field(default=True, name="MultiKueueRemoteSpecSync")
    reuse_client_connection: bool = msgspec.field(
        default=True, name="MultiKueueReuseClientConnectionConfigForWorkers"
    )
    allow_insecure_kubeconfigs: bool = msgspec.field(default=False, name="MultiKueueAllowInsecureKubeconfigs")
    clear_ttl_on_worker: bool = msgspec.field(
        default=False, name="MultiKueueBatchJobClearingTTLSecondsAfterFinishedOnWorkerCluster"
    )
    cluster_profile: bool = msgspec.field(default=False, name="MultiKueueClusterProfile")
    manager_quota_automation: bool = msgspec.field(default=False, name="MultiKueueManagerQuotaAutomation")


MULTIKUEUE_GATES: Final = tuple(field.encode_name for field in msgspec.structs.fields(MultiKueueGates))


def multikueue_gates(given: Mapping[str, bool]) -> MultiKueueGates:
    """Return the gates in ``given`` that MultiKueue reads."""
    return msgspec.convert(given, MultiKueueGates)


class AccessPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """The program that gives credentials for ClusterProfiles with an access provider of this name.

    ``exec`` has the fields of a user's ``exec`` in a kubeconfig.
    """

    name: str
    exec: dict[str, Any] = {}


class MultiKueue(msgspec.Struct, frozen=True, kw_only=True):
    gc_interval_s: float = 60.0  # between two collections of remote objects; 0: none
    origin: str = "multikueue"  # the label value of remote objects of this manager
    worker_lost_timeout_s: float = 900.0  # of a lost worker cluster, until its workloads are dispatched again
    dispatcher: str = ALL_AT_ONCE
    step_size: int = 3  # clusters that the Incremental dispatcher adds in each round
    external_frameworks: tuple[ExternalFramework, ...] = ()
    access_plugins: tuple[AccessPlugin, ...] = ()
    # Of attempts to connect to a worker cluster (Kueue's retryIncrement, retryMaxSteps); not in files.
    first_retry_s: float = 5.0
    longest_retry_s: float = 320.0


def decode_multikueue(fields: d.Section) -> MultiKueue:
    dispatcher = fields.take("dispatcherName", _dispatcher, ALL_AT_ONCE)
    if dispatcher != INCREMENTAL and "incrementalDispatcherConfig" in fields:
        rule = f"belongs to the dispatcher {INCREMENTAL} (set dispatcherName to that, or leave it out)"
        fields.at("incrementalDispatcherConfig").reject(rule)
    return msgspec.structs.replace(_other_fields(fields), dispatcher=dispatcher)


def _step_size(fields: d.Section) -> int:
    return fields.take("stepSize", d.integer(1), 3)


def _origin(field: d.Field) -> str:
    return d.text_matching(is_label_value, "the value of a label")(field) or MultiKueue().origin


def _dispatcher(field: d.Field) -> str:
    name = d.text(field)
    domain, _, path = name.partition("/")
    if not domain or not path or len(name) > _MAX_DISPATCHER:
        rule = f"is not a domain, a slash and a name of at most {_MAX_DISPATCHER} characters in all"
        raise d.InvalidValue(f"{rule} (write {ALL_AT_ONCE})")
    return name


def _external_framework(fields: d.Section) -> ExternalFramework:
    fields.require("name", hint="write Kind.version.group")
    return fields.take("name", external_framework, ExternalFramework(group="", version="", kind=""))


def _access_plugins(fields: d.Section) -> tuple[AccessPlugin, ...]:
    if "accessProviders" in fields:
        fields.reject_if_present("credentialsProviders", "is the former name of accessProviders (keep one)")
    former = fields.take("credentialsProviders", d.list_of(d.section(_access_plugin)), ())
    return fields.take("accessProviders", d.list_of(d.section(_access_plugin)), former)


_other_fields = d.struct_of(
    MultiKueue,
    gc_interval_s=("gcInterval", d.duration()),
    origin=("origin", _origin),
    worker_lost_timeout_s=("workerLostTimeout", d.duration()),
    step_size=("incrementalDispatcherConfig", d.section(_step_size)),
    external_frameworks=("externalFrameworks", d.list_of(d.section(_external_framework))),
    access_plugins=("clusterProfile", d.section(_access_plugins)),
)


def _access_plugin(fields: d.Section) -> AccessPlugin:
    fields.require("name", "execConfig")
    return AccessPlugin(
        name=fields.take("name", d.text, ""), exec=fields.take("execConfig", d.section(_exec_config), {})
    )


def _exec_config(fields: d.Section) -> dict[str, Any]:
    given = {
        "command": fields.take("command", d.text, ""),
        "apiVersion": fields.take("apiVersion", d.text, ""),
        "args": fields.take("args", d.list_of(d.text), ()),
        "env": fields.take("env", d.list_of(d.section(_variable)), ()),
        "installHint": fields.take("installHint", d.text, ""),
        "interactiveMode": fields.take("interactiveMode", d.choice(_INTERACTIVE_MODES), "Never"),
        "provideClusterInfo": fields.take("provideClusterInfo", d.boolean, False),
    }
    return {name: value for name, value in given.items() if value}


def _variable(fields: d.Section) -> dict[str, str]:
    return {"name": fields.take("name", d.text, ""), "value": fields.take("value", d.text, "")}
