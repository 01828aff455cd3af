"""Kueue's Configuration file (``config.kueue.x-k8s.io``, v1beta1 and v1beta2).

The structs are the internal version, with the meaning of v1beta2 and durations in seconds. A v1beta1 file
gets the v1beta1 defaults and is then converted; v1beta2 defaults are not applied on top. Decoding is strict:
a file with any finding is rejected as a whole at startup. Valid fields that have no effect here are checked
and produce a warning.
"""

from collections.abc import Callable
from typing import Final, Literal, get_args

import msgspec

from quorate.api.configuration.feature_gates import (
    Gates,
    WebhookGates,
    decode_feature_gates,
    queueing_gates,
    webhook_gates,
)
from quorate.api.configuration.gang import (
    GangScheduling,
    PodGroupWebhooks,
    decode_gang_scheduling,
    decode_pod_group_webhooks,
)
from quorate.api.configuration.integrations import SPARK, Integrations, decode_integrations
from quorate.api.configuration.process import (
    ClientConnection,
    Controllers,
    Health,
    LeaderElection,
    Metrics,
    Visibility,
    decode_client_connection,
    decode_controllers,
    decode_health,
    decode_leader_election,
    decode_metrics,
    decode_visibility,
)
from quorate.api.configuration.queueing import ObjectRetention, decode_retention
from quorate.api.configuration.unused import QUEUE_VISIBILITY
from quorate.api.configuration.webhooks import (
    CertificateManagement,
    TlsOptions,
    Webhooks,
    decode_certificate_management,
    decode_tls_options,
    decode_webhooks,
)
from quorate.api.core import Resources
from quorate.api.decoding.strict import (
    Field,
    InvalidConfiguration,
    InvalidValue,
    Section,
    boolean,
    choice,
    decode_context,
    duration,
    integer,
    label_selector,
    list_of,
    map_of,
    number,
    quantity,
    section,
    text,
    text_matching,
)
from quorate.api.meta import LabelSelector, SelectorRequirement, matches_selector
from quorate.api.syntax import is_dns_label, is_qualified_name

GROUP: Final = "config.kueue.x-k8s.io"
DEFAULT_NAMESPACE: Final = "kueue-system"
NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"

Version = Literal["v1beta1", "v1beta2"]
RequeuingTimestamp = Literal["Eviction", "Creation"]
TransformationStrategy = Literal["Retain", "Replace"]
QuotaCheckStrategy = Literal["BlockUndeclared", "IgnoreUndeclared"]
BlockAdmissionScope = Literal["AllQueues", "SameFlavors"]


class RequeuingStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """How a workload that was evicted for unready pods is requeued.

    The n-th eviction is followed by a backoff of ``min(base * factor^(n-1), max)`` seconds. The file has no
    field for the factor. KEP-1282 originally had base 1, factor 1.41284738 and no maximum (``math.inf``).
    """

    timestamp: RequeuingTimestamp = "Eviction"
    backoff_limit_count: int | None = None  # None: unlimited
    backoff_base_s: float = 60.0
    backoff_max_s: float = 3600.0
    backoff_factor: float = 2.0


class WaitForPodsReady(msgspec.Struct, frozen=True, kw_only=True):
    """Evict an admitted workload whose pods are not all ready within a timeout."""

    timeout_s: float
    recovery_timeout_s: float | None  # None: no timeout for pods that fail after the start
    block_admission: BlockAdmissionScope | None  # which workloads an unready one blocks; None: none
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    scheduling_timeout_s: float | None = None  # for each pod to be scheduled; None: no such timeout
    shortest_override_s: float = 0.0  # lower bound of overrides by workloads
    longest_override_s: float | None = None  # upper bound of overrides; None: the configured timeout


class Transformation(msgspec.Struct, frozen=True, kw_only=True):
    """Count each unit of ``input`` as ``outputs``, times the request of ``multiply_by``."""

    input: str
    strategy: TransformationStrategy = "Retain"
    multiply_by: str = ""
    outputs: Resources = {}


class ResourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which requested resources count against quota, and as which resources."""

    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    quota_check_strategy: QuotaCheckStrategy = "BlockUndeclared"


PreemptionStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


class FairSharing(msgspec.Struct, frozen=True, kw_only=True):
    """Divide borrowable quota among the cluster queues of a cohort by weight.

    Preemption strategies are in the order in which they are tried.
    """

    preemption_strategies: tuple[PreemptionStrategy, ...] = (
        "LessThanOrEqualToFinalShare",
        "LessThanInitialShare",
    )


class AdmissionFairSharing(msgspec.Struct, frozen=True, kw_only=True):
    """Order the local queues of a cluster queue by their recent usage."""

    usage_half_life_s: float = 0.0  # half-life of recorded usage; 0: no memory
    usage_sampling_interval_s: float = 300.0
    resource_weights: dict[str, float] = {}  # 1 for resources that are not listed


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str = DEFAULT_NAMESPACE
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: LabelSelector = LabelSelector()
    wait_for_pods_ready: WaitForPodsReady | None = None  # None: disabled
    integrations: Integrations = Integrations()
    resources: ResourceOptions = ResourceOptions()
    fair_sharing: FairSharing | None = None  # None: disabled
    admission_fair_sharing: AdmissionFairSharing | None = None  # None: disabled
    gates: Gates = Gates()
    webhook_gates: WebhookGates = WebhookGates()
    health: Health = Health()
    leader_election: LeaderElection = LeaderElection()
    metrics: Metrics = Metrics()
    visibility: Visibility = Visibility()
    audit_every_s: float = 300.0  # 0: never
    retention: ObjectRetention = ObjectRetention()
    gang: GangScheduling = GangScheduling()
    client_connection: ClientConnection | None = None  # None: no client-side limit
    controllers: Controllers = Controllers()
    webhooks: Webhooks = Webhooks()
    pod_group_webhooks: PodGroupWebhooks | None = None  # None: not served
    certificates: CertificateManagement = CertificateManagement()
    tls: TlsOptions = TlsOptions()


class LoadedConfiguration(msgspec.Struct, frozen=True):
    configuration: Configuration
    warnings: tuple[str, ...]


def default_configuration() -> Configuration:
    """Return the configuration without a file, which equals an empty v1beta2 file."""
    return load_configuration(f"{{apiVersion: {GROUP}/v1beta2, kind: Configuration}}").configuration


def load_configuration(text: str) -> LoadedConfiguration:
    """Decode a Configuration file.  Raises ``InvalidConfiguration`` with every finding."""
    context = decode_context(text, "must hold one of kind Configuration")
    root = context.root()
    version = _version(root)
    configuration = root.read(section(lambda fields: _configuration(fields, version)), None)
    if configuration is None or context.findings:
        raise InvalidConfiguration(context.findings)
    return LoadedConfiguration(configuration, tuple(context.warnings))


def _version(root: Field) -> Version:
    """Return the version of a Configuration.

    Any other document is rejected at once, because findings about its fields would not help.
    """
    versions: dict[object, Version] = {f"{GROUP}/v1beta1": "v1beta1", f"{GROUP}/v1beta2": "v1beta2"}
    known = " or ".join(map(str, versions))
    match root.value:
        case {"kind": "Configuration", "apiVersion": str(version)} if version in versions:
            return versions[version]
        case {"kind": "Configuration"}:
            root.entry("apiVersion").reject(f"is not known (write {known})")
        case {"kind": "ConfigMap"}:
            rule = "wraps a file (give the text under its data.controller_manager_config.yaml)"
            root.entry("kind").reject(rule)
        case {}:
            root.entry("kind").reject(f"is not allowed here (write Configuration of {known})")
        case _:
            root.reject("is not a Configuration (write apiVersion, kind and fields)")
    raise InvalidConfiguration(root.context.findings)


def _configuration(fields: Section, version: Version) -> Configuration:
    namespace = fields.take("namespace", text_matching(is_dns_label, "a namespace's name"), DEFAULT_NAMESPACE)
    gates = fields.take("featureGates", decode_feature_gates, {})
    wait = _wait_for_pods_ready(fields, version)
    turns = fields.take("admissionFairSharing", section(_admission_fair_sharing), None)
    shown = fields.take("visibilityServer", section(decode_visibility), Visibility())
    kinds = fields.take("integrations", decode_integrations(version), Integrations())
    if SPARK in kinds.frameworks and not gates.get("SparkApplicationIntegration"):
        field = fields.at("integrations").entry("frameworks")
        field.reject(f"names {SPARK}, which is alpha (set featureGates.SparkApplicationIntegration: true)")
    gang = fields.take("gangScheduling", section(decode_gang_scheduling), GangScheduling())
    reviews = fields.take("podGroupWebhooks", section(decode_pod_group_webhooks), None)
    if reviews is not None and reviews.gate_pods_of_pending_groups and "pods" not in gang.managed_kinds:
        field = fields.at("podGroupWebhooks").entry("gatePodsOfPendingGroups")
        field.reject("requires that the gates are removed (list pods in gangScheduling.looksAfter)")
    _reject_unsupported_fields(fields, version)
    fields.take("apiVersion", text, "")
    fields.take("kind", text, "")
    return Configuration(
        namespace=namespace,
        manage_jobs_without_queue_name=fields.take("manageJobsWithoutQueueName", boolean, False),
        managed_jobs_namespace_selector=_namespace_selector(fields, namespace),
        wait_for_pods_ready=None if gates.get("DisableWaitForPodsReady") else wait,
        integrations=kinds,
        resources=_resource_rules(fields, gates),
        fair_sharing=fields.take("fairSharing", section(_fair_sharing(version)), None),
        admission_fair_sharing=turns if gates.get("AdmissionFairSharing", True) else None,
        gates=queueing_gates(gates),
        webhook_gates=webhook_gates(gates),
        health=fields.take("health", section(decode_health), Health()),
        leader_election=fields.take("leaderElection", section(decode_leader_election), LeaderElection()),
        metrics=_metrics(fields, gates),
        audit_every_s=fields.take("auditInterval", duration(), 300.0),
        visibility=shown if gates.get("VisibilityOnDemand", True) else Visibility(),
        retention=fields.take("objectRetentionPolicies", section(decode_retention), ObjectRetention()),
        gang=gang,
        client_connection=fields.take("clientConnection", section(decode_client_connection), None),
        controllers=fields.take("controller", section(decode_controllers), Controllers()),
        webhooks=fields.take("webhook", section(decode_webhooks), Webhooks()),
        pod_group_webhooks=reviews,
        certificates=fields.take(
            "internalCertManagement", section(decode_certificate_management), CertificateManagement()
        ),
        tls=_tls(fields, gates),
    )


def _reject_unsupported_fields(fields: Section, version: Version) -> None:
    """Warn about fields without effect, and reject fields of unsupported features."""
    if fields.take("pprofBindAddress", text, ""):
        fields.at("pprofBindAddress").warn("has no effect: it is for profiling Go programs (leave it out)")
    fields.reject_if_present("multiKueue", "is for MultiKueue, which is not supported (leave it out)")
    if version == "v1beta1" and "queueVisibility" in fields:
        fields.take("queueVisibility", QUEUE_VISIBILITY, None)
        fields.at("queueVisibility").warn("has no effect: Kueue has removed it (write visibilityServer)")


def _tls(fields: Section, gates: dict[str, bool]) -> TlsOptions:
    rules = fields.take("tls", section(decode_tls_options), TlsOptions())
    return rules if gates.get("TLSOptions", True) else TlsOptions()


def _resource_rules(fields: Section, gates: dict[str, bool]) -> ResourceOptions:
    rules = fields.take("resources", section(_resources), ResourceOptions())
    on = gates.get("QuotaCheckStrategy", True)
    return rules if on else msgspec.structs.replace(rules, quota_check_strategy="BlockUndeclared")


def _metrics(fields: Section, gates: dict[str, bool]) -> Metrics:
    rules = fields.take("metrics", section(decode_metrics), Metrics())
    if rules.custom_labels and not gates.get("CustomMetricLabels", False):
        fields.at("metrics").entry("customLabels").warn("has no effect without the gate CustomMetricLabels")
        rules = msgspec.structs.replace(rules, custom_labels=())
    on = gates.get("LocalQueueMetrics", True)
    return rules if on else msgspec.structs.replace(rules, local_queues=None)


def _fair_sharing(version: Version) -> Callable[[Section], FairSharing | None]:
    def read_fields(fields: Section) -> FairSharing | None:
        on = fields.take("enable", boolean, False) if version == "v1beta1" else True
        default = FairSharing().preemption_strategies
        strategies = fields.take("preemptionStrategies", _preemption_strategies, default)
        return FairSharing(preemption_strategies=strategies) if on else None

    return read_fields


def _preemption_strategies(field: Field) -> tuple[PreemptionStrategy, ...]:
    final, initial = get_args(PreemptionStrategy)
    strategies = list_of(choice(get_args(PreemptionStrategy)))(field)
    if strategies not in ((final,), (initial,), (final, initial)):
        raise InvalidValue(f"is not allowed here (write [{final}], [{initial}] or [{final}, {initial}])")
    return strategies


def _admission_fair_sharing(fields: Section) -> AdmissionFairSharing:
    return AdmissionFairSharing(
        usage_half_life_s=fields.take("usageHalfLifeTime", duration(), 0.0),
        usage_sampling_interval_s=fields.take("usageSamplingInterval", duration(exclusive=True), 300.0),
        resource_weights=fields.take("resourceWeights", map_of(_weight), {}),
    )


def _weight(field: Field) -> float:
    weight = number(field)
    if weight < 0:
        raise InvalidValue("is negative, must be at least 0")
    return weight


def _wait_for_pods_ready(fields: Section, version: Version) -> WaitForPodsReady | None:
    if version == "v1beta1":
        return fields.take("waitForPodsReady", section(_wait_v1beta1), None)
    default = WaitForPodsReady(timeout_s=1800.0, recovery_timeout_s=1800.0, block_admission=None)
    return fields.take("waitForPodsReady", section(_wait_v1beta2), default)


def _wait_v1beta1(fields: Section) -> WaitForPodsReady | None:
    enable = fields.take("enable", boolean, False)
    wait = _wait(fields, timeout_s=300.0, block_admission=True, flat=_flat_timestamp(fields))
    return wait if enable else None


def _wait_v1beta2(fields: Section) -> WaitForPodsReady:
    fields.reject_if_present(
        "enable",
        "is not in v1beta2, where it is always enabled (or set featureGates.DisableWaitForPodsReady)",
    )
    fields.reject_if_present("requeuingTimestamp", "is not in v1beta2 (write requeuingStrategy.timestamp)")
    return _wait(fields, timeout_s=1800.0, block_admission=False, flat=None)


def _wait(
    fields: Section, *, timeout_s: float, block_admission: bool, flat: RequeuingTimestamp | None
) -> WaitForPodsReady:
    timeout_s = fields.take("timeout", duration(), timeout_s)
    recovery_s = fields.take("recoveryTimeout", duration(), timeout_s)
    strategy = fields.take("requeuingStrategy", section(_requeuing), RequeuingStrategy())
    all_queues: BlockAdmissionScope = "AllQueues"
    scope = fields.take("blockAdmissionScope", choice(get_args(BlockAdmissionScope)), all_queues)
    overrides = fields.take("overrides", section(_overrides), _OverrideBounds())
    if flat is not None:
        given = fields.field.value.get("requeuingStrategy")
        if isinstance(given, dict) and given.get("timestamp") not in (None, flat):
            fields.at("requeuingTimestamp").reject(
                f"contradicts requeuingStrategy.timestamp, which is {given['timestamp']} (keep the latter)"
            )
        strategy = msgspec.structs.replace(strategy, timestamp=flat)
    return WaitForPodsReady(
        timeout_s=timeout_s,
        recovery_timeout_s=recovery_s or None,
        block_admission=scope if fields.take("blockAdmission", boolean, block_admission) else None,
        requeuing_strategy=strategy,
        scheduling_timeout_s=fields.take("schedulingTimeout", duration(), 0.0) or None,
        shortest_override_s=overrides.shortest_s,
        longest_override_s=overrides.longest_s,
    )


class _OverrideBounds(msgspec.Struct, frozen=True):
    shortest_s: float = 0.0
    longest_s: float | None = None


def _overrides(fields: Section) -> _OverrideBounds:
    bounds = _OverrideBounds(
        fields.take("shortest", duration(), 0.0),
        fields.take("longest", duration(), None),
    )
    if bounds.longest_s is not None and bounds.longest_s < bounds.shortest_s:
        fields.at("longest").reject("is shorter than shortest (give a longer one, or leave one out)")
    return bounds


def _flat_timestamp(fields: Section) -> RequeuingTimestamp | None:
    """Return ``requeuingTimestamp``, from the first revision of KEP-1282."""
    if "requeuingTimestamp" in fields:
        fields.at("requeuingTimestamp").warn("is deprecated (write requeuingStrategy.timestamp)")
    return fields.take("requeuingTimestamp", choice(get_args(RequeuingTimestamp)), None)


def _requeuing(fields: Section) -> RequeuingStrategy:
    seconds = integer(minimum=0)
    return RequeuingStrategy(
        timestamp=fields.take("timestamp", choice(get_args(RequeuingTimestamp)), "Eviction"),
        backoff_limit_count=fields.take("backoffLimitCount", _limit_count, None),
        backoff_base_s=float(fields.take("backoffBaseSeconds", seconds, 60)),
        backoff_max_s=float(fields.take("backoffMaxSeconds", seconds, 3600)),
    )


def _limit_count(field: Field) -> int:
    if field.value == -1:
        raise InvalidValue(
            "is not a number of retries (leave the field out to retry without limit, or write 0 or more)"
        )
    return integer(minimum=0)(field)


def _namespace_selector(fields: Section, namespace: str) -> LabelSelector:
    """Return the selector of managed namespaces, which must exclude system and controller namespaces."""
    own = ("kube-system", namespace)
    default = LabelSelector(
        match_expressions=(SelectorRequirement(key=NAMESPACE_NAME_LABEL, operator="NotIn", values=own),)
    )
    selector = fields.take("managedJobsNamespaceSelector", label_selector, default)
    if hit := [name for name in own if matches_selector(selector, {NAMESPACE_NAME_LABEL: name})]:
        fields.at("managedJobsNamespaceSelector").reject(
            f"should not match namespace {' or '.join(hit)} "
            f"(add {NAMESPACE_NAME_LABEL} NotIn [{', '.join(own)}])"
        )
    return selector


def _resources(fields: Section) -> ResourceOptions:
    rule = "is for dynamic resource allocation, which is not supported (leave it out)"
    fields.reject_if_present("deviceClassMappings", rule)
    rules = ResourceOptions(
        exclude_resource_prefixes=fields.take("excludeResourcePrefixes", list_of(text), ()),
        transformations=fields.take("transformations", list_of(section(_transformation)), ()),
        quota_check_strategy=fields.take(
            "quotaCheckStrategy", choice(get_args(QuotaCheckStrategy)), "BlockUndeclared"
        ),
    )
    if rules.quota_check_strategy == "IgnoreUndeclared" and rules.exclude_resource_prefixes:
        fields.at("excludeResourcePrefixes").reject(
            "contradicts quotaCheckStrategy IgnoreUndeclared (keep one)"
        )
    inputs = [rule.input for rule in rules.transformations]
    for name in sorted({name for name in inputs if inputs.count(name) > 1}):
        fields.at("transformations").reject(f"has more than one rule for input {name} (merge them)")
    return rules


def _transformation(fields: Section) -> Transformation:
    if "input" not in fields:
        fields.at("input").reject("is missing (write the name of a resource)")
    name = text_matching(is_qualified_name, "the name of a resource")
    return Transformation(
        input=fields.take("input", name, ""),
        strategy=fields.take("strategy", choice(get_args(TransformationStrategy)), "Retain"),
        multiply_by=fields.take("multiplyBy", name, ""),
        outputs=fields.take("outputs", map_of(quantity), {}),
    )
