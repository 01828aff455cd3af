"""Kueue's Configuration file (``config.kueue.x-k8s.io``, v1beta1 and v1beta2).

The structs are the internal version, with the meaning of v1beta2 and durations in seconds. A v1beta1 file
gets the v1beta1 defaults and is then converted; v1beta2 defaults are not applied on top. Decoding is strict:
a file with any finding is rejected as a whole at startup. Valid fields that have no effect here are checked
and produce a warning.
"""

from typing import Final

import msgspec

from quorate.api.configuration.feature_gates import (
    Gates,
    TopologyGates,
    WebhookGates,
    decode_feature_gates,
    queueing_gates,
    topology_gates,
    webhook_gates,
)
from quorate.api.configuration.gang import (
    GangScheduling,
    PodGroupWebhooks,
    decode_gang_scheduling,
    decode_pod_group_webhooks,
)
from quorate.api.configuration.integrations import (
    SPARK,
    VOLCANO_JOB,
    VOLCANO_POD_GROUP,
    Integrations,
    decode_integrations,
)
from quorate.api.configuration.multikueue import (
    MultiKueue,
    MultiKueueGates,
    decode_multikueue,
    multikueue_gates,
)
from quorate.api.configuration.network_topology import TopologyType, decode_discovery
from quorate.api.configuration.planned_starts import PlannedStartRules, decode_planned_starts
from quorate.api.configuration.pods_ready import Version, WaitForPodsReady, decode_wait_for_pods_ready
from quorate.api.configuration.priority_aging import PriorityAging, decode_priority_aging
from quorate.api.configuration.process import (
    ClientConnection,
    Controllers,
    EstimateRules,
    Health,
    LeaderElection,
    Metrics,
    Visibility,
    decode_client_connection,
    decode_controllers,
    decode_estimates,
    decode_health,
    decode_leader_election,
    decode_metrics,
    decode_visibility,
)
from quorate.api.configuration.queueing import (
    AdmissionFairSharing,
    FairSharing,
    NodeFit,
    ObjectRetention,
    OutsideQuota,
    ResourceOptions,
    Scheduling,
    decode_admission_fair_sharing,
    decode_fair_sharing,
    decode_node_fit,
    decode_outside_quota,
    decode_resources,
    decode_retention,
    decode_scheduling,
)
from quorate.api.configuration.webhooks import (
    CertificateManagement,
    TlsOptions,
    Webhooks,
    decode_certificate_management,
    decode_tls_options,
    decode_webhooks,
)
from quorate.api.decoding import strict as d
from quorate.api.meta import LabelSelector, SelectorRequirement, matches_selector
from quorate.api.syntax import is_dns_label

GROUP: Final = "config.kueue.x-k8s.io"
DEFAULT_NAMESPACE: Final = "kueue-system"
NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"


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
    topology_gates: TopologyGates | None = TopologyGates()  # None: pods get no places in topologies
    multikueue: MultiKueue = MultiKueue()
    multikueue_gates: MultiKueueGates = MultiKueueGates()
    health: Health = Health()
    leader_election: LeaderElection = LeaderElection()
    metrics: Metrics = Metrics()
    visibility: Visibility = Visibility()
    estimates: EstimateRules = EstimateRules()
    audit_every_s: float = 300.0  # 0: never
    scheduling: Scheduling = Scheduling()
    node_fit: NodeFit = NodeFit()
    outside_quota: OutsideQuota = OutsideQuota()
    planned_starts: PlannedStartRules = PlannedStartRules()
    priority_aging: PriorityAging | None = None  # None: only in cluster queues with the annotation
    retention: ObjectRetention = ObjectRetention()
    gang: GangScheduling = GangScheduling()
    native_gangs: bool = False  # jobs start with pod groups of Kubernetes, for its own scheduler
    network_topology: tuple[TopologyType, ...] = ()  # hierarchies of HyperNodes to make from node labels
    client_connection: ClientConnection | None = None  # None: no client-side limit
    controllers: Controllers = Controllers()
    webhooks: Webhooks = Webhooks()
    pod_group_webhooks: PodGroupWebhooks | None = None  # None: not served
    certificates: CertificateManagement = CertificateManagement()
    tls: TlsOptions = TlsOptions()

    @property
    def longest_workload_timeout_s(self) -> float | None:
        """The upper bound of timeouts in the annotation ``wait-for-pods-ready``, seconds.

        None if the annotation has no effect.
        """
        rules = self.wait_for_pods_ready
        counts = rules is not None and self.gates.workload_level_wait_for_pods_ready
        return rules.longest_on_workload_s if rules is not None and counts else None


class LoadedConfiguration(msgspec.Struct, frozen=True):
    configuration: Configuration
    warnings: tuple[str, ...]


def default_configuration() -> Configuration:
    """Return the configuration without a file, which equals an empty v1beta2 file."""
    return load_configuration(f"{{apiVersion: {GROUP}/v1beta2, kind: Configuration}}").configuration


def load_configuration(text: str) -> LoadedConfiguration:
    """Decode a Configuration file.  Raises ``InvalidConfiguration`` with every finding."""
    context = d.decode_context(text, "must hold one of kind Configuration")
    root = context.root()
    version = _version(root)
    configuration = root.decode(d.section(lambda fields: _configuration(fields, version)), None)
    if configuration is None or context.findings:
        raise d.InvalidConfiguration(context.findings)
    return LoadedConfiguration(configuration, tuple(context.warnings))


def _version(root: d.Field) -> Version:
    """Return the version of a Configuration.

    Any other document is rejected at once, because findings about its fields would not help.
    """
    versions: dict[object, Version] = {f"{GROUP}/v1beta1": "v1beta1", f"{GROUP}/v1beta2": "v1beta2"}
    accepted = " or ".join(map(str, versions))
    match root.value:
        case {"kind": "Configuration", "apiVersion": str(version)} if version in versions:
            return versions[version]
        case {"kind": "Configuration"}:
            root.entry("apiVersion").reject(f"is not known (write {accepted})")
        case {"kind": "ConfigMap"}:
            rule = "wraps a file (give the text under its data.controller_manager_config.yaml)"
            root.entry("kind").reject(rule)
        case {}:
            root.entry("kind").reject(f"is not allowed here (write Configuration of {accepted})")
        case _:
            root.reject("is not a Configuration (write apiVersion, kind and fields)")
    raise d.InvalidConfiguration(root.context.findings)


def _configuration(fields: d.Section, version: Version) -> Configuration:
    namespace = fields.take(
        "namespace", d.text_matching(is_dns_label, "a namespace's name"), DEFAULT_NAMESPACE
    )
    gates = fields.take("featureGates", decode_feature_gates, {})
    wait = decode_wait_for_pods_ready(fields, version, gates)
    admission_sharing = fields.take("admissionFairSharing", d.section(decode_admission_fair_sharing), None)
    visibility = fields.take("visibilityServer", d.section(decode_visibility), Visibility())
    integrations = fields.take("integrations", decode_integrations(version), Integrations())
    if SPARK in integrations.frameworks and not gates.get("SparkApplicationIntegration"):
        field = fields.at("integrations").entry("frameworks")
        field.reject(f"names {SPARK}, which is alpha (set featureGates.SparkApplicationIntegration: true)")
    gang_scheduling = fields.take("gangScheduling", d.section(decode_gang_scheduling), GangScheduling())
    group_webhooks = fields.take("podGroupWebhooks", d.section(decode_pod_group_webhooks), None)
    if (
        group_webhooks is not None
        and group_webhooks.gate_pods_of_pending_groups
        and "pods" not in gang_scheduling.managed_kinds
    ):
        field = fields.at("podGroupWebhooks").entry("gatePodsOfPendingGroups")
        field.reject("requires that the gates are removed (list pods in gangScheduling.looksAfter)")
    are_default = integrations.frameworks == Integrations().frameworks
    for name, managed in (("volcanoJobs", VOLCANO_JOB), ("pods", VOLCANO_POD_GROUP)):
        if managed in integrations.frameworks and name not in gang_scheduling.managed_kinds:
            if not are_default:
                rule = f"needs its controller (list {name} in gangScheduling.looksAfter)"
                fields.at("integrations").entry("frameworks").reject(f"names {managed}, which {rule}")
            frameworks = tuple(framework for framework in integrations.frameworks if framework != managed)
            integrations = msgspec.structs.replace(integrations, frameworks=frameworks)
    _warn_of_unused_fields(fields, version)
    fields.take("apiVersion", d.text, "")
    fields.take("kind", d.text, "")
    return msgspec.structs.replace(
        _decode_fields(fields),
        namespace=namespace,
        managed_jobs_namespace_selector=_namespace_selector(fields, namespace),
        wait_for_pods_ready=wait,
        integrations=integrations,
        resources=_resource_options(fields, gates),
        fair_sharing=fields.take("fairSharing", d.section(decode_fair_sharing(version)), None),
        admission_fair_sharing=admission_sharing if gates.get("AdmissionFairSharing", True) else None,
        gates=queueing_gates(gates),
        webhook_gates=webhook_gates(gates),
        topology_gates=topology_gates(gates),
        multikueue_gates=multikueue_gates(gates),
        metrics=_metrics(fields, gates),
        node_fit=_node_fit(fields, gates),
        visibility=visibility if gates.get("VisibilityOnDemand", True) else Visibility(),
        gang=gang_scheduling,
        native_gangs=fields.take("gangs", d.choice(("none", "native")), "none") == "native",
        network_topology=_network_topology(fields, gang_scheduling),
        pod_group_webhooks=group_webhooks,
        tls=_tls(fields, gates),
    )


_decode_fields = d.struct_of(
    Configuration,
    manage_jobs_without_queue_name=("manageJobsWithoutQueueName", d.boolean),
    multikueue=("multiKueue", d.section(decode_multikueue)),
    health=("health", d.section(decode_health)),
    leader_election=("leaderElection", d.section(decode_leader_election)),
    scheduling=("scheduling", d.section(decode_scheduling)),
    outside_quota=("outsideQuota", d.section(decode_outside_quota)),
    planned_starts=("plannedStarts", d.section(decode_planned_starts)),
    priority_aging=("priorityAging", d.section(decode_priority_aging)),
    audit_every_s=("auditInterval", d.duration()),
    estimates=("estimates", d.section(decode_estimates)),
    retention=("objectRetentionPolicies", d.section(decode_retention)),
    client_connection=("clientConnection", d.section(decode_client_connection)),
    controllers=("controller", d.section(decode_controllers)),
    webhooks=("webhook", d.section(decode_webhooks)),
    certificates=("internalCertManagement", d.section(decode_certificate_management)),
)


def _network_topology(fields: d.Section, gang: GangScheduling) -> tuple[TopologyType, ...]:
    types = fields.take("networkTopologyDiscovery", decode_discovery, ())
    if types and "hyperNodes" not in gang.managed_kinds:
        rule = "needs its controller (list hyperNodes in gangScheduling.looksAfter)"
        fields.at("networkTopologyDiscovery").reject(rule)
    return types


def _warn_of_unused_fields(fields: d.Section, version: Version) -> None:
    """Warn about fields without effect."""
    if fields.take("pprofBindAddress", d.text, ""):
        fields.at("pprofBindAddress").warn("has no effect: it is for profiling Go programs (leave it out)")
    if version == "v1beta1" and "queueVisibility" in fields:
        fields.take("queueVisibility", _QUEUE_VISIBILITY, None)
        fields.at("queueVisibility").warn("has no effect: Kueue has removed it (write visibilityServer)")


def _node_fit(fields: d.Section, gates: dict[str, bool]) -> NodeFit:
    rules = fields.take("nodeFit", d.section(decode_node_fit), NodeFit())
    if rules.mode == "Require" and not gates.get("TopologyAwareScheduling", True):
        fields.at("nodeFit").entry("mode").reject(
            "needs the feature gate TopologyAwareScheduling, which assigns pods to nodes (set it to true, "
            "or mode to Report)"
        )
    return rules


def _tls(fields: d.Section, gates: dict[str, bool]) -> TlsOptions:
    rules = fields.take("tls", d.section(decode_tls_options), TlsOptions())
    return rules if gates.get("TLSOptions", True) else TlsOptions()


def _resource_options(fields: d.Section, gates: dict[str, bool]) -> ResourceOptions:
    rules = fields.take(
        "resources", d.section(lambda resources: decode_resources(resources, gates)), ResourceOptions()
    )
    on = gates.get("QuotaCheckStrategy", True)
    return rules if on else msgspec.structs.replace(rules, quota_check_strategy="BlockUndeclared")


def _metrics(fields: d.Section, gates: dict[str, bool]) -> Metrics:
    rules = fields.take("metrics", d.section(decode_metrics), Metrics())
    if rules.custom_labels and not gates.get("CustomMetricLabels", False):
        fields.at("metrics").entry("customLabels").warn("has no effect without the gate CustomMetricLabels")
        rules = msgspec.structs.replace(rules, custom_labels=())
    on = gates.get("LocalQueueMetrics", True)
    return rules if on else msgspec.structs.replace(rules, local_queues=None)


def _namespace_selector(fields: d.Section, namespace: str) -> LabelSelector:
    """Return the selector of managed namespaces, which must not match those of the system."""
    own = ("kube-system", namespace)
    default = LabelSelector(
        match_expressions=(SelectorRequirement(key=NAMESPACE_NAME_LABEL, operator="NotIn", values=own),)
    )
    selector = fields.take("managedJobsNamespaceSelector", d.label_selector, default)
    if hit := [name for name in own if matches_selector(selector, {NAMESPACE_NAME_LABEL: name})]:
        fields.at("managedJobsNamespaceSelector").reject(
            f"should not match namespace {' or '.join(hit)} "
            f"(add {NAMESPACE_NAME_LABEL} NotIn [{', '.join(own)}])"
        )
    return selector


_QUEUE_VISIBILITY: Final = d.ignored_section(
    {
        "clusterQueues": d.ignored_section({"maxCount": d.integer(minimum=0, maximum=4000)}),
        "updateIntervalSeconds": d.integer(minimum=1),
    }
)


# Fields of the file, and the corresponding attributes of ``Configuration``.
RESTART_FIELDS: Final = {
    "clientConnection": "client_connection",
    "estimates": "estimates",
    "health": "health",
    "internalCertManagement": "certificates",
    "leaderElection": "leader_election",
    "metrics": "metrics",
    "namespace": "namespace",
    "podGroupWebhooks": "pod_group_webhooks",
    "tls": "tls",
    "visibilityServer": "visibility",
    "webhook": "webhooks",
}
_WEBHOOK_GATES: Final = ("webhook_gates", "topology_gates")
_WEBHOOK_GATES_FIELD: Final = "featureGates, for webhooks"


def apply_reload(running: Configuration, new: Configuration) -> tuple[Configuration, tuple[str, ...]]:
    """Return the configuration to use now, and the fields of the file that need a restart.

    Fields that controllers decide by are applied by rebuilding their model, as at startup. Listening sockets
    and settings shared with other replicas keep their values until a restart.
    """
    kept = {name: getattr(running, name) for name in (*RESTART_FIELDS.values(), *_WEBHOOK_GATES)}
    waiting = [field for field, name in RESTART_FIELDS.items() if getattr(new, name) != kept[name]]
    if any(getattr(new, name) != kept[name] for name in _WEBHOOK_GATES):
        waiting.append(_WEBHOOK_GATES_FIELD)
    return msgspec.structs.replace(new, **kept), tuple(waiting)
