"""Hostile objects that only an API server without validation stores."""

from collections.abc import Iterator
from typing import Any

from quorate.install.crds import queueing_definitions
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    PLACEABLE_PODS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)

Json = dict[str, Any]
Hostile = tuple[Resource[Any], Json]

INT64 = 2**63 - 1
INT32 = 2**31 - 1
YEARS = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
QUANTITIES = {
    "huge": "1e30",
    "tiny": "1n",
    "negative": "-5",
    "largest": str(INT64),
    "more": str(INT64 * 16),
    "exa": "9999999999Ei",
    "exponent": "1E400",
    "digits": "9" * 5000,
    "nonsense": "lots",
    "empty": "",
    "number": 4,
    "fraction": 0.1,
    "list": [],
}


def definitions_without_schema() -> tuple[Json, ...]:
    """Return the CRDs of the queueing kinds without validation."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definitions = queueing_definitions()
    for definition in definitions:
        for version in definition["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": anything}
            version.pop("selectableFields", None)  # they need a schema
    return definitions


def named(name: str, spec: Any = None, **fields: Any) -> Json:
    return {"metadata": {"name": name}, **({} if spec is None else {"spec": spec}), **fields}


def pod_template(cpu: Any = "1", **spec: Any) -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def pod_set(name: str = "main", count: Any = 1, template: Any = None, **fields: Any) -> Json:
    return {"name": name, "count": count, "template": template or pod_template(), **fields}


def workload(name: str, *pod_sets: Any, status: Any = None, queue: Any = "queue", **spec: Any) -> Json:
    fields = {"queueName": queue, "podSets": list(pod_sets or (pod_set(),)), "active": True, **spec}
    return named(name, fields, **({} if status is None else {"status": status}))


def cluster_queue(name: str, quota: Any = "1", flavor: str = "default", **spec: Any) -> Json:
    quotas = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": quota}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quotas]}]
    return named(name, {"namespaceSelector": {}, "resourceGroups": groups, **spec})


def condition(type_: str, status: Any = "True", at: Any = YEARS[0], **fields: Any) -> Json:
    return {
        "type": type_,
        "status": status,
        "reason": "ByHand",
        "message": "",
        "lastTransitionTime": at,
        **fields,
    }


def admission(flavor: str = "default", pods: str = "main", queue: str = "research", count: Any = 1) -> Json:
    assigned = {"name": pods, "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": "1"}, "count": count}
    return {"clusterQueue": queue, "podSetAssignments": [assigned]}


def admitted(**fields: Any) -> Json:
    true = [condition(type_) for type_ in ("QuotaReserved", "Admitted")]
    return {"conditions": true, "admission": admission(**fields)}


def hostile_workloads() -> Iterator[Json]:
    for name, quantity in QUANTITIES.items():
        yield workload(f"asks-{name}", pod_set(template=pod_template(quantity)))
    for name, count in (
        ("int32", INT32),
        ("int64", INT64),
        ("more", INT64 * 4),
        ("negative", -3),
        ("zero", 0),
        ("text", "3"),
        ("fraction", 1.5),
        ("null", None),
    ):
        yield workload(f"count-{name}", pod_set(count=count))
        yield workload(f"least-{name}", pod_set(count=5, minCount=count))
    yield workload("product", pod_set(count=INT32, template=pod_template(str(INT64))))
    smallest = {"spec": {"containers": [{"name": "main"}]}}  # the store limits the object size
    yield workload("many-pod-sets", *(pod_set(f"p{number}", 1, smallest) for number in range(10_000)))
    yield workload("same-pod-sets", pod_set(), pod_set())
    yield workload("no-pod-sets") | {"spec": {"queueName": "queue", "podSets": []}}
    yield workload("no-spec") | {"spec": {}}
    yield workload("null-pod-sets") | {"spec": {"queueName": "queue", "podSets": None}}
    yield workload("no-template", {"name": "main", "count": 1})
    yield workload("text-template", pod_set(template={"spec": "text"}))
    yield workload("no-containers", pod_set(template={"spec": {"containers": None}}))
    yield workload(
        "unicode", pod_set("größe-✂-\u202e"), priorityClassRef={"name": "😀", "kind": "x", "group": ""}
    )
    yield workload("unicode-queue", queue="Übung/../😀")
    yield workload("long-queue", queue="q" * 100_000)
    yield workload("priority", priority=INT64 * 8)
    yield workload("priority-lowest", priority=-INT32)
    yield workload("priority-text", priority="high")
    yield workload("time-limit", maximumExecutionTimeSeconds=-INT32)
    yield workload("active-text", active="yes")
    deep: Json = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["v" * 60] * 100}]}
    affinity: Json = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [deep] * 100}
        }
    }
    yield workload("deep-selector", pod_set(template=pod_template(affinity=affinity)))
    topology = {"required": "cloud.example.com/rack", "unconstrained": True, "podSetSliceSize": -1}
    yield workload("topology", pod_set(topologyRequest=topology))
    big = workload("big-annotation")
    big["metadata"]["annotations"] = {"example.com/note": "x" * 250_000}
    yield big
    unowned = workload("owned-by-itself")
    unowned["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "name": "owned-by-itself",
            "uid": "1",
            "controller": True,
        }
    ]
    yield unowned


def hostile_statuses() -> Iterator[Json]:
    yield workload("status-missing-flavor", status=admitted(flavor="missing"))
    yield workload("status-missing-pod-set", status=admitted(pods="missing"))
    yield workload("status-missing-queue", status=admitted(queue="missing"))
    yield workload("status-count", status=admitted(count=INT64))
    yield workload("status-many", status=admitted(count=INT32))
    yield workload("status-negative", status=admitted(count=-7))
    for name in QUANTITIES:
        status = admitted()
        status["admission"]["podSetAssignments"][0]["resourceUsage"] = {"cpu": QUANTITIES[name]}
        yield workload(f"uses-{name}", status=status)
    yield workload("status-no-admission", status={"conditions": [condition("QuotaReserved")]})
    yield workload("status-no-reservation", status={"admission": admission()})
    contradicts = [
        condition(type_) for type_ in ("QuotaReserved", "Admitted", "Evicted", "Finished", "Preempted")
    ]
    yield workload("status-all-at-once", status={"conditions": contradicts, "admission": admission()})
    for value in ("Unknown", "Maybe", "", 7):
        conditions = [
            condition(type_, value) for type_ in ("QuotaReserved", "Admitted", "Evicted", "Finished")
        ]
        yield workload(f"condition-{value or 'empty'}".lower(), status={"conditions": conditions})
    twice = [condition("QuotaReserved"), condition("QuotaReserved", "False")]
    yield workload("condition-twice", status={"conditions": twice})
    for number, at in enumerate((*YEARS, "yesterday", "", None, 12, "2026-01-01T00:00:00+23:59")):
        conditions = [condition(type_, "True", at) for type_ in ("Evicted", "QuotaReserved", "PodsReady")]
        yield workload(f"time-{number}", status={"conditions": conditions, "admission": admission()})
        requeue = {"count": INT32, "requeueAt": at}
        yield workload(
            f"requeue-{number}",
            status={
                "requeueState": requeue,
                "conditions": [condition("Evicted", "True", at), condition("Requeued", "False", at)],
            },
        )
        yield workload(f"finished-{number}", status={"conditions": [condition("Finished", "True", at)]})
    yield workload(
        "reclaims",
        status={
            **admitted(),
            "reclaimablePods": [
                {"name": "main", "count": 99},
                {"name": "missing", "count": -1},
                {"name": "main", "count": INT64},
            ],
        },
    )
    checks = [
        {
            "name": "gate",
            "state": state,
            "message": "x" * 1000,
            "lastTransitionTime": YEARS[0],
            "requeueAfterSeconds": INT32,
            "retryCount": INT32,
        }
        for state in ("Ready", "Retry", "Whatever")
    ]
    yield workload("checks", status={**admitted(), "admissionChecks": checks})
    yield workload("nominated", status={"nominatedClusterNames": ["a"], "clusterName": "b"})
    yield workload(
        "ran-for-ages",
        maximumExecutionTimeSeconds=1,
        status={**admitted(), "accumulatedPastExecutionTimeSeconds": INT32},
    )
    yield workload("status-text", status="text")
    yield workload("status-list", status={"conditions": "none", "admission": []})


def hostile_queues() -> Iterator[Hostile]:
    for name, quantity in QUANTITIES.items():
        yield CLUSTER_QUEUES, cluster_queue(f"quota-{name}", quantity, cohortName="sums")
        yield (
            COHORTS,
            named(
                f"cohort-{name}",
                {
                    "parentName": "sums",
                    "resourceGroups": [
                        {
                            "coveredResources": ["cpu"],
                            "flavors": [
                                {
                                    "name": "default",
                                    "resources": [
                                        {
                                            "name": "cpu",
                                            "nominalQuota": quantity,
                                            "borrowingLimit": quantity,
                                            "lendingLimit": quantity,
                                        }
                                    ],
                                }
                            ],
                        }
                    ],
                },
            ),
        )
    for number in range(4):
        yield CLUSTER_QUEUES, cluster_queue(f"overflow-{number}", str(INT64), cohortName="overflow")
    yield COHORTS, named("self", {"parentName": "self"})
    for here, there in (("a", "b"), ("b", "c"), ("c", "a")):
        yield COHORTS, named(f"circle-{here}", {"parentName": f"circle-{there}"})
        yield CLUSTER_QUEUES, cluster_queue(f"in-circle-{here}", "9", cohortName=f"circle-{here}")
    for level in range(60):
        yield COHORTS, named(f"level-{level}", {"parentName": f"level-{level + 1}"})
    yield CLUSTER_QUEUES, cluster_queue("at-the-bottom", cohortName="level-0")
    yield CLUSTER_QUEUES, cluster_queue("missing-flavor", flavor="missing")
    yield CLUSTER_QUEUES, named("empty", {})
    yield CLUSTER_QUEUES, named("null", {"resourceGroups": None, "namespaceSelector": None})
    yield CLUSTER_QUEUES, named("text", "text")
    twice = cluster_queue("twice")
    twice["spec"]["resourceGroups"] *= 2
    yield CLUSTER_QUEUES, twice
    uncovered = cluster_queue("uncovered")
    uncovered["spec"]["resourceGroups"][0]["coveredResources"] = ["memory", "memory", ""]
    yield CLUSTER_QUEUES, uncovered
    yield (
        CLUSTER_QUEUES,
        cluster_queue(
            "words",
            queueingStrategy="Whatever",
            stopPolicy="Never",
            preemption={"withinClusterQueue": "Sometimes", "reclaimWithinCohort": "?"},
        ),
    )
    expressions = [{"key": "k", "operator": "Resembles", "values": ["v"]}]
    yield CLUSTER_QUEUES, cluster_queue("selector", namespaceSelector={"matchExpressions": expressions})
    for name, weight in (("negative", "-1"), ("huge", "1e30"), ("text", "heavy")):
        yield (
            CLUSTER_QUEUES,
            cluster_queue(f"weight-{name}", fairSharing={"weight": weight}, cohortName="sums"),
        )
    checks = {"admissionChecks": [{"name": "missing", "onFlavors": ["missing"]}] * 40}
    yield CLUSTER_QUEUES, cluster_queue("checks", admissionChecksStrategy=checks)
    yield (
        RESOURCE_FLAVORS,
        named("odd", {"nodeLabels": {"ключ": "значение"}, "nodeTaints": [{"effect": "?"}]}),
    )
    yield RESOURCE_FLAVORS, named("odder", {"nodeLabels": [], "tolerations": "all"})
    yield ADMISSION_CHECKS, named("unused", {})
    yield ADMISSION_CHECKS, named("loop", {"controllerName": "", "parameters": {"name": "loop"}})
    yield WORKLOAD_PRIORITY_CLASSES, named("highest", value=INT64 * 8)
    yield WORKLOAD_PRIORITY_CLASSES, named("none")


def hostile_local_queues() -> Iterator[Json]:
    yield named("nowhere", {"clusterQueue": "missing"})
    yield named("blank", {})
    yield named("odd", {"clusterQueue": {"name": "research"}})
    yield named("stopped", {"clusterQueue": "research", "stopPolicy": "Perhaps"})
    yield named("weighted", {"clusterQueue": "research", "fairSharing": {"weight": "-1e30"}})


def job(name: str, parallelism: Any = 1, annotations: Json | None = None, labels: Json | None = None) -> Json:
    metadata = {
        "name": name,
        "labels": {"kueue.x-k8s.io/queue-name": "queue", **(labels or {})},
        "annotations": annotations or {},
    }
    spec = {
        "parallelism": parallelism,
        "completions": parallelism,
        "suspend": True,
        "completionMode": "NonIndexed",
        "template": pod_template(),
    }
    return {"metadata": metadata, "spec": spec}


def hostile_jobs() -> Iterator[Json]:
    """Yield jobs that a real API server accepts."""
    least = "kueue.x-k8s.io/job-min-parallelism"
    yield job("widest", INT32)
    for number, value in enumerate(("0", "-1", str(INT64 * 9), "zwei", "", "٣", "1e3")):
        yield job(f"least-{number}", 3, {least: value})
        yield job(f"equal-{number}", 3, {"kueue.x-k8s.io/job-completions-equal-parallelism": value})
        yield job(
            f"time-limit-{number}",
            1,
            labels={"kueue.x-k8s.io/max-exec-time-seconds": value.replace("٣", "3")},
        )
    yield job("noted", 1, {"example.com/note": "ü" * 100_000})
    yield job("classless", 1, labels={"kueue.x-k8s.io/priority-class": "missing"})
    yield job("prebuilt", 1, labels={"kueue.x-k8s.io/prebuilt-workload-name": "asks-huge"})
    for name in ("huge", "tiny", "exa"):
        body = job(f"asks-{name}")
        body["spec"]["template"] = pod_template(QUANTITIES[name])
        yield body


def hostile_pods() -> Iterator[Json]:
    gate = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    for number, total in enumerate(("0", "-4", str(INT64 * 5), "many", "", "9" * 5000)):
        metadata = {
            "name": f"group-{number}",
            "labels": {
                "kueue.x-k8s.io/queue-name": "queue",
                "kueue.x-k8s.io/pod-group-name": f"group-{number}",
            },
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": total},
        }
        yield {"metadata": metadata, "spec": pod_template(**gate)["spec"]}


def hostile_objects() -> Iterator[Hostile]:
    yield from hostile_queues()
    for body in hostile_local_queues():
        yield LOCAL_QUEUES, body
    for body in (*hostile_workloads(), *hostile_statuses()):
        yield WORKLOADS, body
    for body in hostile_jobs():
        yield JOBS, body
    for body in hostile_pods():
        yield PLACEABLE_PODS, body
