"""Table layouts of built-in kinds."""

from collections.abc import Iterable
from typing import Any

from quorate.local.objects.crd.definition import Column
from quorate.local.objects.schema_types import Json
from quorate.local.objects.tables import storage
from quorate.local.objects.tables.durations import age, epoch, human_duration
from quorate.local.objects.tables.layout import NAME, TableLayout, age_of, columns, plain_cells
from quorate.local.objects.tables.pods import POD

NONE, UNKNOWN = "<none>", "<unknown>"


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
SECRET = TableLayout(
    (NAME, *columns("Type,Data,Age")),
    lambda obj, now: [obj["metadata"]["name"], obj.get("type", ""), _data_count(obj), age_of(obj, now)],
)
NAMESPACE = TableLayout(
    (NAME, *columns("Status,Age")),
    lambda obj, now: [obj["metadata"]["name"], (obj.get("status") or {}).get("phase", ""), age_of(obj, now)],
)
LEASE = TableLayout(
    (NAME, *columns("Holder,Age")),
    lambda obj, now: [
        obj["metadata"]["name"],
        (obj.get("spec") or {}).get("holderIdentity") or "",
        age_of(obj, now),
    ],
)
PRIORITY_CLASS = TableLayout(
    (NAME, *columns("Value:integer,Global-Default:boolean,Age,PreemptionPolicy")),
    lambda obj, now: [
        obj["metadata"]["name"],
        obj.get("value", 0),
        obj.get("globalDefault", False),
        age_of(obj, now),
        obj.get("preemptionPolicy", ""),
    ],
)
RUNTIME_CLASS = TableLayout(
    (NAME, *columns("Handler,Age")),
    lambda obj, now: [obj["metadata"]["name"], obj.get("handler", ""), age_of(obj, now)],
)


def selector_text(selector: Json | None) -> str:
    """Return `a=b,c in (d,e)`; `<none>` for an empty selector."""
    selector = selector or {}
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for requirement in selector.get("matchExpressions") or []:
        key, values = requirement["key"], ",".join(sorted(requirement.get("values") or []))
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[requirement["operator"]]
        )
    return ",".join(parts) or NONE


def _containers(template: Json) -> tuple[str, str]:
    containers = template["spec"]["containers"]
    return ",".join(c["name"] for c in containers), ",".join(c.get("image", "") for c in containers)


_JOB_STATES = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    holding = {c["type"] for c in status.get("conditions") or [] if c["status"] == "True"}
    if "deletionTimestamp" in obj["metadata"]:
        holding.add("Terminating")
    parallelism, completions = spec.get("parallelism", 0), spec.get("completions")
    wanted = completions if completions is not None else f"1 of {parallelism}" if parallelism > 1 else 1
    duration = ""
    if status.get("startTime"):
        end = epoch(status["completionTime"]) if status.get("completionTime") else now
        duration = human_duration(end - epoch(status["startTime"]))
    return [
        obj["metadata"]["name"],
        next((state for state in _JOB_STATES if state in holding), "Running"),
        f"{status.get('succeeded', 0)}/{wanted}",
        duration,
        age_of(obj, now),
        *_containers(spec["template"]),
        selector_text(spec.get("selector")),
    ]


JOB = TableLayout((NAME, *columns("Status,Completions,Duration,Age", "Containers,Images,Selector")), _job)


def _deployment(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *_containers(spec["template"]),
        selector_text(spec.get("selector")),
    ]


DEPLOYMENT = TableLayout(
    (NAME, *columns("Ready,Up-to-date,Available,Age", "Containers,Images,Selector")), _deployment
)


def _replica_set(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        *_containers(spec["template"]),
        selector_text(spec.get("selector")),
    ]


REPLICA_SET = TableLayout(
    (NAME, *columns("Desired,Current,Ready,Age", "Containers,Images,Selector")), _replica_set
)


def _stateful_set(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        age_of(obj, now),
        *_containers(spec["template"]),
    ]


STATEFUL_SET = TableLayout((NAME, *columns("Ready,Age", "Containers,Images")), _stateful_set)


def _node(obj: Json, now: float) -> list[Any]:
    status, labels = obj.get("status") or {}, obj["metadata"].get("labels") or {}
    ready = [c for c in status.get("conditions") or [] if c["type"] == "Ready"]
    states = ["Ready" if ready[0]["status"] == "True" else "NotReady"] if ready else ["Unknown"]
    if (obj.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    addresses = {address["type"]: address["address"] for address in status.get("addresses") or []}
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    return [
        obj["metadata"]["name"],
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


NODE = TableLayout(
    (
        NAME,
        *columns(
            "Status,Roles,Age,Version", "Internal-IP,External-IP,OS-Image,Kernel-Version,Container-Runtime"
        ),
    ),
    _node,
)


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


def _service(obj: Json, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    kind, external = spec.get("type", "ClusterIP"), list(spec.get("externalIPs") or [])
    if kind == "ExternalName":
        external = [spec.get("externalName", "")]
    elif kind == "LoadBalancer":
        ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        external = [entry.get("ip") or entry.get("hostname") or "" for entry in ingress] + external
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or NONE]
    return [
        obj["metadata"]["name"],
        kind,
        addresses[0],
        ",".join(external) or ("<pending>" if kind == "LoadBalancer" else NONE),
        ",".join(_port(port) for port in spec.get("ports") or []) or NONE,
        age_of(obj, now),
        selector_text({"matchLabels": spec.get("selector") or {}}),
    ]


def _port(port: Json) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


SERVICE = TableLayout((NAME, *columns("Type,Cluster-IP,External-IP,Port(s),Age", "Selector")), _service)


def _quota(obj: Json, now: float) -> list[Any]:
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    texts = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
    limits = [text for name, text in texts.items() if name.startswith("limits.")]
    requests = [text for name, text in texts.items() if not name.startswith("limits.")]
    return [obj["metadata"]["name"], ", ".join(requests), ", ".join(limits), age_of(obj, now)]


QUOTA = TableLayout((NAME, *columns("Request,Limit,Age")), _quota)


def _binding(obj: Json, now: float) -> list[Any]:
    role, subjects = obj["roleRef"], obj.get("subjects") or []

    def named(kind: str) -> str:
        found = (subject for subject in subjects if subject["kind"] == kind)
        return ", ".join(
            f"{s['namespace']}/{s['name']}" if kind == "ServiceAccount" else s["name"] for s in found
        )

    subjects_by_kind = (named("User"), named("Group"), named("ServiceAccount"))
    return [obj["metadata"]["name"], f"{role['kind']}/{role['name']}", age_of(obj, now), *subjects_by_kind]


BINDING = TableLayout((NAME, *columns("Role,Age", "Users,Groups,ServiceAccounts")), _binding)
WEBHOOKS = TableLayout(
    (NAME, *columns("Webhooks,Age")),
    lambda obj, now: [obj["metadata"]["name"], len(obj.get("webhooks") or []), age_of(obj, now)],
)

_LAYOUTS: dict[tuple[str, str], TableLayout] = {
    ("", "ConfigMap"): CONFIG_MAP,
    ("", "Event"): EVENT,
    ("", "LimitRange"): CREATED_AT,
    ("", "Namespace"): NAMESPACE,
    ("", "Node"): NODE,
    ("", "PersistentVolume"): storage.VOLUME,
    ("", "PersistentVolumeClaim"): storage.CLAIM,
    ("", "Pod"): POD,
    ("", "ResourceQuota"): QUOTA,
    ("", "Secret"): SECRET,
    ("", "Service"): SERVICE,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): CREATED_AT,
    ("apps", "Deployment"): DEPLOYMENT,
    ("apps", "ReplicaSet"): REPLICA_SET,
    ("apps", "StatefulSet"): STATEFUL_SET,
    ("batch", "Job"): JOB,
    ("coordination.k8s.io", "Lease"): LEASE,
    ("events.k8s.io", "Event"): EVENT,
    ("node.k8s.io", "RuntimeClass"): RUNTIME_CLASS,
    ("rbac.authorization.k8s.io", "ClusterRole"): CREATED_AT,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): BINDING,
    ("rbac.authorization.k8s.io", "Role"): CREATED_AT,
    ("rbac.authorization.k8s.io", "RoleBinding"): BINDING,
    ("scheduling.k8s.io", "PriorityClass"): PRIORITY_CLASS,
    ("storage.k8s.io", "CSINode"): storage.CSI_NODE,
    ("storage.k8s.io", "StorageClass"): storage.STORAGE_CLASS,
}


def builtin_layout(group: str, kind: str) -> TableLayout:
    """Return the layout of a built-in kind; by default name and age."""
    return _LAYOUTS.get((group, kind), AGE_ONLY)
