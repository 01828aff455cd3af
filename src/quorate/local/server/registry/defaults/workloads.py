"""Deployments, ReplicaSets and StatefulSets."""

from typing import Any

from quorate.local.server.registry.defaults.pods import fill, template_spec

Json = dict[str, Any]


def deployment(obj: Json) -> None:
    spec = _with_template(obj)
    fill(spec, {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})


def replica_set(obj: Json) -> None:
    _with_template(obj)


def stateful_set(obj: Json) -> None:
    spec = _with_template(obj)
    fill(spec, {"podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10})
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    fill(retention, {"whenDeleted": "Retain", "whenScaled": "Retain"})


def _with_template(obj: Json) -> Json:
    spec: Json = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    template_spec(template.setdefault("spec", {}))
    return spec


def clear_status(obj: Json) -> None:
    obj["status"] = {}


PREFIX = "batch.kubernetes.io/"
UNLIMITED = 2**31 - 1
"""Of retries, when each index has its own limit."""


def default_job(job: Json) -> None:
    spec = job.setdefault("spec", {})
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    template_spec(template.setdefault("spec", {}))
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": UNLIMITED if "backoffLimitPerIndex" in spec else 6,
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


def begin_job(job: Json) -> None:
    """Tell the job's pods from all others by its uid."""
    job["status"] = {}
    spec, meta = job["spec"], job["metadata"]
    if spec["manualSelector"]:
        return
    own = {
        f"{PREFIX}controller-uid": meta["uid"],
        f"{PREFIX}job-name": meta["name"],
        "controller-uid": meta["uid"],
        "job-name": meta["name"],
    }
    labels = spec["template"]["metadata"].get("labels", {})
    if labels and meta.get("labels") == labels:
        meta["labels"] = labels | own
    spec["template"]["metadata"]["labels"] = labels | own
    spec.setdefault("selector", {}).setdefault("matchLabels", {})[f"{PREFIX}controller-uid"] = meta["uid"]


def read_back_job(job: Json) -> None:
    """A job without labels has its template's, by now also those that tell its pods from all others."""
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)
