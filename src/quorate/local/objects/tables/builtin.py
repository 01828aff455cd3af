"""Table layouts of built-in kinds."""

from collections.abc import Iterable
from typing import Any

from quorate.api.codec import Json
from quorate.api.human_duration import age
from quorate.local.objects.crd.definition import Column
from quorate.local.objects.tables import infrastructure, storage, workloads
from quorate.local.objects.tables.layout import (
    NAME,
    NONE,
    UNKNOWN,
    TableLayout,
    age_of,
    columns,
    named,
    plain_cells,
)
from quorate.local.objects.tables.pods import POD
from quorate.local.objects.tables.workloads import labels_text

AGE_ONLY = TableLayout((NAME, *columns("Age")), plain_cells)
CREATED_AT = TableLayout(
    (NAME, Column("Created At", "date", "")),
    lambda obj, now: [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")],
)


def _data_count(obj: Json) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


CONFIG_MAP = TableLayout(
    (NAME, Column("Data", "string", ""), *columns("Age")),
    lambda obj, now: [obj["metadata"]["name"], _data_count(obj), age_of(obj, now)],
)
secret = named("Type,Data,Age")(lambda obj, now: [obj.get("type", ""), _data_count(obj), age_of(obj, now)])
namespace = named("Status,Age")(
    lambda obj, now: [(obj.get("status") or {}).get("phase", ""), age_of(obj, now)]
)
lease = named("Holder,Age")(
    lambda obj, now: [(obj.get("spec") or {}).get("holderIdentity") or "", age_of(obj, now)]
)
priority_class = named("Value:integer,Global-Default:boolean,Age,PreemptionPolicy")(
    lambda obj, now: [
        obj.get("value", 0),
        obj.get("globalDefault", False),
        age_of(obj, now),
        obj.get("preemptionPolicy", ""),
    ]
)
runtime_class = named("Handler,Age")(lambda obj, now: [obj.get("handler", ""), age_of(obj, now)])


@named("Status,Roles,Age,Version", "Internal-IP,External-IP,OS-Image,Kernel-Version,Container-Runtime")
def node(obj: Json, now: float) -> list[Any]:
    status, labels = obj.get("status") or {}, obj["metadata"].get("labels") or {}
    ready = [c for c in status.get("conditions") or [] if c["type"] == "Ready"]
    states = ["Ready" if ready[0]["status"] == "True" else "NotReady"] if ready else ["Unknown"]
    if (obj.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    addresses = {address["type"]: address["address"] for address in status.get("addresses") or []}
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    return [
        ",".join(states),
        ",".join(sorted(set(_roles(labels)))) or NONE,
        age_of(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        f"{kernel} ({info['architecture']})" if info.get("architecture") else kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(labels: Json) -> Iterable[str]:
    prefix = "node-role.kubernetes.io/"
    for key, value in labels.items():
        if key.startswith(prefix) and key != prefix:
            yield key.removeprefix(prefix)
        elif key == "kubernetes.io/role" and value:
            yield value


def _event(obj: Json, now: float) -> list[Any]:
    """Return the cells of a core/v1 or events.k8s.io/v1 Event.

    In events.k8s.io the fields of core/v1 have the prefix `deprecated`.
    """
    regarding = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    series = obj.get("series")
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if series:
        last, count = series["lastObservedTime"], series["count"]
    reporter = obj.get("reportingComponent") or obj.get("reportingController") or ""
    names = [source.get("component") or reporter, source.get("host") or ""]
    return [
        age(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        "/".join(part for part in (regarding.get("kind", "").lower(), regarding.get("name")) if part),
        regarding.get("fieldPath", ""),
        ", ".join(name for name in names if name),
        (obj.get("message") or obj.get("note") or "").strip(),
        age(first, now),
        count,
        obj["metadata"]["name"],
    ]


EVENT = TableLayout(
    (
        *columns("Last Seen,Type,Reason,Object"),
        *columns("", "Subobject,Source"),
        *columns("Message"),
        *columns("", "First Seen,Count"),
        Column("Name", "string", "", "name", priority=1),
    ),
    _event,
)


@named("Type,Cluster-IP,External-IP,Port(s),Age", "Selector")
def service(obj: Json, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    kind, external = spec.get("type", "ClusterIP"), list(spec.get("externalIPs") or [])
    if kind == "ExternalName":
        external = [spec.get("externalName", "")]
    elif kind == "LoadBalancer":
        ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        external = [entry.get("ip") or entry.get("hostname") or "" for entry in ingress] + external
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or NONE]
    return [
        kind,
        addresses[0],
        ",".join(external) or ("<pending>" if kind == "LoadBalancer" else NONE),
        ",".join(_port(port) for port in spec.get("ports") or []) or NONE,
        age_of(obj, now),
        labels_text(spec.get("selector")),
    ]


def _port(port: Json) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


@named("Request,Limit,Age")
def quota(obj: Json, now: float) -> list[Any]:
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    texts = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
    limits = [text for name, text in texts.items() if name.startswith("limits.")]
    requests = [text for name, text in texts.items() if not name.startswith("limits.")]
    return [", ".join(requests), ", ".join(limits), age_of(obj, now)]


def _binding(obj: Json, now: float) -> list[Any]:
    role, subjects = obj["roleRef"], obj.get("subjects") or []

    def named(kind: str) -> str:
        of_kind = (subject for subject in subjects if subject["kind"] == kind)
        return ", ".join(
            f"{s['namespace']}/{s['name']}" if kind == "ServiceAccount" else s["name"] for s in of_kind
        )

    subjects_by_kind = (named("User"), named("Group"), named("ServiceAccount"))
    return [obj["metadata"]["name"], f"{role['kind']}/{role['name']}", age_of(obj, now), *subjects_by_kind]


BINDING = TableLayout((NAME, *columns("Role,Age", "Users,Groups,ServiceAccounts")), _binding)
webhooks = named("Webhooks,Age")(lambda obj, now: [len(obj.get("webhooks") or []), age_of(obj, now)])

_LAYOUTS: dict[tuple[str, str], TableLayout] = {
    ("", "ConfigMap"): CONFIG_MAP,
    ("", "Event"): EVENT,
    ("", "LimitRange"): CREATED_AT,
    ("", "Namespace"): namespace,
    ("", "Node"): node,
    ("", "PersistentVolume"): storage.volume,
    ("", "PersistentVolumeClaim"): storage.claim,
    ("", "Pod"): POD,
    ("", "PodTemplate"): workloads.pod_template,
    ("", "ReplicationController"): workloads.replication_controller,
    ("", "ResourceQuota"): quota,
    ("", "Secret"): secret,
    ("", "Service"): service,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): webhooks,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): infrastructure.admission_policy,
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
    ): infrastructure.admission_policy_binding,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): webhooks,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): CREATED_AT,
    ("apps", "ControllerRevision"): workloads.controller_revision,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "ReplicaSet"): workloads.replica_set,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("autoscaling", "HorizontalPodAutoscaler"): infrastructure.autoscaler,
    ("batch", "CronJob"): workloads.cron_job,
    ("batch", "Job"): workloads.job,
    ("certificates.k8s.io", "CertificateSigningRequest"): infrastructure.signing_request,
    ("coordination.k8s.io", "Lease"): lease,
    ("events.k8s.io", "Event"): EVENT,
    ("networking.k8s.io", "Ingress"): infrastructure.ingress,
    ("networking.k8s.io", "IngressClass"): infrastructure.INGRESS_CLASS,
    ("node.k8s.io", "RuntimeClass"): runtime_class,
    ("rbac.authorization.k8s.io", "ClusterRole"): CREATED_AT,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): BINDING,
    ("rbac.authorization.k8s.io", "Role"): CREATED_AT,
    ("rbac.authorization.k8s.io", "RoleBinding"): BINDING,
    ("resource.k8s.io", "ResourceClaim"): infrastructure.resource_claim,
    ("resource.k8s.io", "ResourceSlice"): infrastructure.resource_slice,
    ("scheduling.k8s.io", "PriorityClass"): priority_class,
    ("storage.k8s.io", "CSIDriver"): storage.csi_driver,
    ("storage.k8s.io", "CSINode"): storage.csi_node,
    ("storage.k8s.io", "CSIStorageCapacity"): CREATED_AT,
    ("storage.k8s.io", "StorageClass"): storage.STORAGE_CLASS,
    ("storage.k8s.io", "VolumeAttachment"): storage.VOLUME_ATTACHMENT,
    ("storage.k8s.io", "VolumeAttributesClass"): storage.volume_attributes_class,
}


def builtin_layout(group: str, kind: str) -> TableLayout:
    """Return the layout of a built-in kind; by default name and age."""
    return _LAYOUTS.get((group, kind), AGE_ONLY)
