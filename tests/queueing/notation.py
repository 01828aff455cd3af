"""The notation of ``admission-cases.yaml``: converts entries to API objects.

It contains no rule of admission.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import TopologyGates, queueing_gates
from quorate.api.configuration.pods_ready import RequeuingStrategy, WaitForPodsReady
from quorate.api.configuration.priority_aging import annotated_aging
from quorate.api.configuration.queueing import (
    AdmissionFairSharing,
    DeviceSource,
    FairSharing,
    NodeFit,
    ResourceOptions,
    Transformation,
)
from quorate.api.kueue import RequeueState
from quorate.api.meta import at_epoch
from quorate.api.names.kueue import ELASTIC_JOB, POD_SET, SLICE_REPLACEMENT_FOR, WORKLOAD_ANNOTATION
from quorate.api.names.topology import UNCONSTRAINED
from quorate.api.quantity import Quantity, parse_quantity
from quorate.api.syntax import parse_duration

Json = dict[str, Any]


def read_configuration(config: Json) -> Configuration:
    resources = config.get("resources", {})
    aging = config.get("priorityAging")
    wait, fair = config.get("waitForPodsReady"), config.get("fairSharing")
    admission_fair_sharing, gates = config.get("admissionFairSharing"), config.get("featureGates", {})
    if gates.get("DisableWaitForPodsReady"):
        wait = None
    return Configuration(
        admission_fair_sharing=None
        if admission_fair_sharing is None
        else read_admission_fair_sharing(admission_fair_sharing),
        gates=queueing_gates(gates),
        topology_gates=_topology_gates(gates),
        node_fit=NodeFit(**config.get("nodeFit", {})),
        priority_aging=annotated_aging(json.dumps(aging), None)[0] if aging is not None else None,
        fair_sharing=None if fair is None else read_fair_sharing(fair),
        wait_for_pods_ready=None if wait is None else read_wait_for_pods_ready(wait),
        resources=ResourceOptions(
            exclude_resource_prefixes=tuple(resources.get("excludeResourcePrefixes", ())),
            transformations=tuple(
                Transformation(
                    input=rule["input"],
                    strategy=rule.get("strategy", "Retain"),
                    multiply_by=rule.get("multiplyBy", ""),
                    outputs=quantities(rule.get("outputs", {})),
                )
                for rule in resources.get("transformations", ())
            ),
            quota_check_strategy=resources.get("quotaCheckStrategy", "BlockUndeclared"),
            device_classes={
                name: mapping["name"]
                for mapping in resources.get("deviceClassMappings", ())
                for name in mapping["deviceClassNames"]
                if "sources" not in mapping
            },
            device_sources={
                name: tuple(
                    DeviceSource(kind=kind, resource=mapping["name"], **fields)
                    for source in mapping["sources"]
                    for kind, fields in source.items()
                )
                for mapping in resources.get("deviceClassMappings", ())
                for name in mapping["deviceClassNames"]
                if "sources" in mapping
            },
        ),
    )


def _topology_gates(gates: Json) -> TopologyGates | None:
    return msgspec.convert(gates, TopologyGates) if gates.get("TopologyAwareScheduling", True) else None


def read_fair_sharing(fair: Json) -> FairSharing:
    if "preemptionStrategies" not in fair:
        return FairSharing()
    return FairSharing(preemption_strategies=tuple(fair["preemptionStrategies"]))


def read_admission_fair_sharing(admission_fair_sharing: Json) -> AdmissionFairSharing:
    return AdmissionFairSharing(
        usage_half_life_s=seconds(admission_fair_sharing.get("usageHalfLifeTime", 0)),
        usage_sampling_interval_s=seconds(admission_fair_sharing.get("usageSamplingInterval", "5m")),
        resource_weights={
            resource: float(weight)
            for resource, weight in admission_fair_sharing.get("resourceWeights", {}).items()
        },
    )


def read_wait_for_pods_ready(wait: Json) -> WaitForPodsReady:
    timeout_s = seconds(wait.get("timeout", "30m"))
    recovery_s = seconds(wait["recoveryTimeout"]) if "recoveryTimeout" in wait else timeout_s
    strategy = wait.get("requeuingStrategy", {})
    return WaitForPodsReady(
        timeout_s=timeout_s,
        recovery_timeout_s=recovery_s or None,
        block_admission=wait.get("blockAdmissionScope", "AllQueues") if wait.get("blockAdmission") else None,
        requeuing_strategy=RequeuingStrategy(
            timestamp=strategy.get("timestamp", "Eviction"),
            backoff_limit_count=strategy.get("backoffLimitCount"),
            backoff_base_s=strategy.get("backoffBaseSeconds", 60),
            backoff_max_s=strategy.get("backoffMaxSeconds", 3600),
        ),
    )


def resource_groups(given: Json) -> list[Json]:
    groups = given.get("resourceGroups")
    if groups is None and "quota" in given:
        flavors = [
            {"name": name, "quotas": quotas} for entry in given["quota"] for name, quotas in entry.items()
        ]
        covered = list(dict.fromkeys(resource for flavor in flavors for resource in flavor["quotas"]))
        groups = [{"covered": covered, "flavors": flavors}]
    return [
        {
            "coveredResources": group["covered"],
            "flavors": [
                {
                    "name": flavor["name"],
                    "resources": [_quota(resource, quota) for resource, quota in flavor["quotas"].items()],
                }
                for flavor in group["flavors"]
            ],
        }
        for group in groups or []
    ]


def _quota(resource: str, quota: Any) -> Json:
    if not isinstance(quota, dict):
        quota = {"nominal": quota}
    result = {"name": resource, "nominalQuota": str(quota.get("nominal", 0))}
    for field in ("borrowingLimit", "lendingLimit"):
        if quota.get(field) is not None:
            result[field] = str(quota[field])
    return result


def given_pod_sets(given: Json) -> list[Json]:
    pod_sets = given.get("podSets") or [
        {"requests": given.get("requests", {}), "count": given.get("count", 1)}
    ]
    return [{"name": "main", **pod_set} for pod_set in pod_sets]


def a_pod_set(given: Json) -> Json:
    pod = given.get("pod") or {"containers": [{"requests": given.get("requests", {})}]}
    spec: Json = {
        "containers": [_container(container) for container in pod.get("containers", [])],
        "initContainers": [_container(container) for container in pod.get("initContainers", [])],
        "nodeSelector": given.get("nodeSelector", {}),
        "tolerations": given.get("tolerations", []),
        "priorityClassName": given.get("priorityClassName", ""),
    }
    for field in ("overhead", "runtimeClassName", "resourceClaims"):
        if field in pod:
            spec[field] = pod[field]
    if "resources" in pod:
        resources = pod["resources"]
        keyed = "requests" in resources or "limits" in resources
        spec["resources"] = resources if keyed else {"requests": resources}
    affinity: Json = {}
    if "nodeAffinityRequired" in given:
        terms = [{"matchExpressions": term} for term in given["nodeAffinityRequired"]]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if "nodeAffinityPreferred" in given:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": term["weight"], "preference": {"matchExpressions": term["expressions"]}}
            for term in given["nodeAffinityPreferred"]
        ]
    if affinity:
        spec["affinity"] = {"nodeAffinity": affinity}
    if "hostPort" in given:
        spec["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": given["hostPort"]}]
    template: Json = {"spec": spec | given.get("spec", {})}
    if "labels" in given:
        template["metadata"] = {"labels": given["labels"]}
    pod_set = {"name": given["name"], "count": given.get("count", 1), "template": template}
    if given.get("minCount") is not None:
        pod_set["minCount"] = given["minCount"]
    if given.get("topology"):
        pod_set["topologyRequest"] = _topology_request(given["topology"])
    return pod_set


def pod_on_node(name: str, given: Json) -> Json:
    ports = [{"hostPort": given["hostPort"]}] if "hostPort" in given else []
    container: Json = {"name": "main", "ports": ports}
    labels, annotations = given.get("labels", {}), {}
    if "cpu" in given:
        container["resources"] = {"requests": {"cpu": str(given["cpu"])}}
    if "workload" in given:
        labels = {POD_SET: "main", **labels}
        annotations = {UNCONSTRAINED: "true", WORKLOAD_ANNOTATION: given["workload"]}
    return {
        "metadata": {
            "name": name,
            "namespace": given.get("namespace", "default"),
            "labels": labels,
            "annotations": annotations,
            "deletionTimestamp": "2026-01-01T00:00:00Z" if given.get("deleted") else None,
        },
        "spec": {"nodeName": given["node"], "containers": [container], **given.get("spec", {})},
    }


def _topology_request(given: Json) -> Json:
    plain = ("required", "preferred", "unconstrained")
    request: Json = {field: given[field] for field in plain if field in given}
    for field, name in (
        ("group", "podSetGroupName"),
        ("sliceLevel", "podSetSliceRequiredTopology"),
        ("sliceSize", "podSetSliceSize"),
    ):
        if field in given:
            request[name] = given[field]
    if "sliceConstraints" in given:
        request["podsetSliceRequiredTopologyConstraints"] = [
            {"topology": layer["level"], "size": layer["size"]} for layer in given["sliceConstraints"]
        ]
    return request


def _container(given: Json) -> Json:
    resources = {field: given[field] for field in ("requests", "limits") if field in given}
    container: Json = {"resources": resources}
    if "restartPolicy" in given:
        container["restartPolicy"] = given["restartPolicy"]
    return container


def as_texts(value: Any, inside: str = "") -> Any:
    """Return quantities as text, as in the API; YAML reads a bare 2 as a number."""
    if isinstance(value, Mapping):
        return {
            key: str(entry) if inside in _QUANTITIES else as_texts(entry, key) for key, entry in value.items()
        }
    if isinstance(value, list):
        return [as_texts(entry) for entry in value]
    return value


_QUANTITIES = frozenset({"requests", "limits", "overhead", "default", "defaultRequest"})


def annotations_of(given: Json) -> Json:
    annotations = {ELASTIC_JOB: "true"} if given.get("elastic") else {}
    if "replaces" in given:
        annotations[SLICE_REPLACEMENT_FOR] = f"{given.get('namespace', 'default')}/{given['replaces']}"
    return annotations


def requeue_state_of(given: Json) -> RequeueState:
    at = given.get("requeueAt")
    return RequeueState(count=given.get("count"), requeue_at=None if at is None else at_epoch(at))


def moment(seconds_: float) -> str:
    return at_epoch(seconds_).isoformat().replace("+00:00", "Z")


def quantities(given: Json) -> dict[str, Quantity]:
    return {name: parse_quantity(str(value)) for name, value in given.items()}


def seconds(text: Any) -> float:
    """Return a duration such as 60s, 5m or 168h; a bare number is seconds."""
    return parse_duration(text) if isinstance(text, str) else float(text)


def read_vectors(text: str) -> list[Json]:
    vectors: list[Json] = yaml.load(text, Loader=yaml.CSafeLoader)["vectors"]
    return vectors
