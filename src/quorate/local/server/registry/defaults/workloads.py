"""Defaults of Deployments, ReplicaSets, StatefulSets and Jobs."""

from typing import Any

from quorate.local.server.registry.defaults.pods import default_pod_spec, set_missing

Json = dict[str, Any]


def default_deployment(obj: Json) -> None:
    spec = _default_template(obj)
    set_missing(spec, {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        set_missing(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})


def default_replica_set(obj: Json) -> None:
    _default_template(obj)


def default_stateful_set(obj: Json) -> None:
    spec = _default_template(obj)
    set_missing(spec, {"podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10})
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    set_missing(retention, {"whenDeleted": "Retain", "whenScaled": "Retain"})


def _default_template(obj: Json) -> Json:
    spec: Json = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))
    return spec


def clear_status(obj: Json) -> None:
    obj["status"] = {}


LABEL_PREFIX = "batch.kubernetes.io/"
UNLIMITED_RETRIES = 2**31 - 1
"""The backoff limit of a job with a backoff limit per index."""


def default_job(job: Json) -> None:
    spec = job.setdefault("spec", {})
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    set_missing(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": UNLIMITED_RETRIES if "backoffLimitPerIndex" in spec else 6,
            "completionMode": "NonIndexed",
            "manualSelector": False,
            "suspend": False,
            "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
        },
    )
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")
    labels = template["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def prepare_job_for_create(job: Json) -> None:
    """Add labels with the job's uid to its pods, and select pods by them."""
    job["status"] = {}
    spec, meta = job["spec"], job["metadata"]
    if spec["manualSelector"]:
        return
    own = {
        f"{LABEL_PREFIX}controller-uid": meta["uid"],
        f"{LABEL_PREFIX}job-name": meta["name"],
        "controller-uid": meta["uid"],
        "job-name": meta["name"],
    }
    labels = spec["template"]["metadata"].get("labels", {})
    if labels and meta.get("labels") == labels:
        meta["labels"] = labels | own
    spec["template"]["metadata"]["labels"] = labels | own
    spec.setdefault("selector", {}).setdefault("matchLabels", {})[f"{LABEL_PREFIX}controller-uid"] = meta[
        "uid"
    ]


def default_job_on_read(job: Json) -> None:
    """Copy the labels of the template, by now with the generated ones, to a job without labels."""
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)
