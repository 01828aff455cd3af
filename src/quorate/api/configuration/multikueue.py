"""Configuration of MultiKueue: the dispatch of workloads from this cluster to worker clusters."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from quorate.api.configuration.integrations import ExternalFramework, external_framework
from quorate.api.decoding.strict import (
    Field,
    InvalidValue,
    Section,
    boolean,
    choice,
    duration,
    integer,
    list_of,
    section,
    struct_of,
    text,
    text_matching,
)
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


def decode_multikueue(fields: Section) -> MultiKueue:
    dispatcher = fields.take("dispatcherName", _dispatcher, ALL_AT_ONCE)
    if dispatcher != INCREMENTAL and "incrementalDispatcherConfig" in fields:
        rule = f"belongs to the dispatcher {INCREMENTAL} (set dispatcherName to that, or leave it out)"
        fields.at("incrementalDispatcherConfig").reject(rule)
    return msgspec.structs.replace(_other_fields(fields), dispatcher=dispatcher)


def _step_size(fields: Section) -> int:
    return fields.take("stepSize", integer(1), 3)


def _origin(field: Field) -> str:
    return text_matching(is_label_value, "the value of a label")(field) or MultiKueue().origin


def _dispatcher(field: Field) -> str:
    name = text(field)
    domain, _, path = name.partition("/")
    if not domain or not path or len(name) > _MAX_DISPATCHER:
        rule = f"is not a domain, a slash and a name of at most {_MAX_DISPATCHER} characters in all"
        raise InvalidValue(f"{rule} (write {ALL_AT_ONCE})")
    return name


def _external_framework(fields: Section) -> ExternalFramework:
    fields.require("name", hint="write Kind.version.group")
    return fields.take("name", external_framework, ExternalFramework(group="", version="", kind=""))


def _access_plugins(fields: Section) -> tuple[AccessPlugin, ...]:
    if "accessProviders" in fields:
        fields.reject_if_present("credentialsProviders", "is the former name of accessProviders (keep one)")
    former = fields.take("credentialsProviders", list_of(section(_access_plugin)), ())
    return fields.take("accessProviders", list_of(section(_access_plugin)), former)


_other_fields = struct_of(
    MultiKueue,
    gc_interval_s=("gcInterval", duration()),
    origin=("origin", _origin),
    worker_lost_timeout_s=("workerLostTimeout", duration()),
    step_size=("incrementalDispatcherConfig", section(_step_size)),
    external_frameworks=("externalFrameworks", list_of(section(_external_framework))),
    access_plugins=("clusterProfile", section(_access_plugins)),
)


def _access_plugin(fields: Section) -> AccessPlugin:
    fields.require("name", "execConfig")
    return AccessPlugin(
        name=fields.take("name", text, ""), exec=fields.take("execConfig", section(_exec_config), {})
    )


def _exec_config(fields: Section) -> dict[str, Any]:
    given = {
        "command": fields.take("command", text, ""),
        "apiVersion": fields.take("apiVersion", text, ""),
        "args": fields.take("args", list_of(text), ()),
        "env": fields.take("env", list_of(section(_variable)), ()),
        "installHint": fields.take("installHint", text, ""),
        "interactiveMode": fields.take("interactiveMode", choice(_INTERACTIVE_MODES), "Never"),
        "provideClusterInfo": fields.take("provideClusterInfo", boolean, False),
    }
    return {name: value for name, value in given.items() if value}


def _variable(fields: Section) -> dict[str, str]:
    return {"name": fields.take("name", text, ""), "value": fields.take("value", text, "")}
