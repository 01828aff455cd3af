"""Defaults of Jobs, CronJobs and the kinds that keep a set of pods."""

from quorate.api.codec import Json
from quorate.local.server.registry.defaults.pods import default_pod_spec, set_missing


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
    if "type" not in strategy:
        strategy |= {"type": "RollingUpdate", "rollingUpdate": strategy.get("rollingUpdate", {})}
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
        strategy["rollingUpdate"].pop("maxUnavailable", None)  # the gate MaxUnavailableStatefulSet is off
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    set_missing(retention, {"whenDeleted": "Retain", "whenScaled": "Retain"})
    for claim in spec.get("volumeClaimTemplates", ()):
        set_missing(claim, {"kind": "PersistentVolumeClaim", "apiVersion": "v1"})
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim["status"] = {"phase": "Pending"}


def default_daemon_set(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    default_pod_template(spec)
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        set_missing(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": 1, "maxSurge": 0})

    obj["metadata"].setdefault("annotations", {}).setdefault(TEMPLATE_GENERATION, "1")


def prepare_daemon_set_for_create(obj: Json) -> None:
    obj["metadata"]["annotations"][TEMPLATE_GENERATION] = "1"
    obj["status"] = dict.fromkeys(
        ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"), 0
    )


def prepare_daemon_set_for_update(new: Json, old: Json) -> None:
    """Count the changes of the template in an annotation, as clients of older versions expect."""
    default_daemon_set(new)  # containers that a patch replaced have no defaults yet
    count = old["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0")
    changed = new["spec"].get("template") != old["spec"]["template"]
    generation = int(count) + 1 if changed and count.isdecimal() and len(count) < 20 else count
    new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(generation)


def default_replication_controller(obj: Json) -> None:
    """Set the selector and the labels to the labels of the template, unless the object has its own."""
    spec = _default_template(obj)
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def _default_template(obj: Json) -> Json:
    spec: Json = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_pod_template(spec)
    return spec


def default_pod_template(owner: Json) -> None:
    """Set the defaults of the pod template in field ``template`` of an object."""
    template = owner.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
LABEL_PREFIX = "batch.kubernetes.io/"
UNLIMITED_RETRIES = 2**31 - 1
"""The backoff limit of a job with a backoff limit per index."""


def default_job(job: Json) -> None:
    spec = job.setdefault("spec", {})
    default_pod_template(spec)
    template = spec["template"]
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
    _default_failure_policy(spec)
    labels = template["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _default_failure_policy(spec: Json) -> None:
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")


def default_cron_job(obj: Json) -> None:
    """Set the defaults of the CronJob and of its pod template; a job gets its defaults when it is created."""
    spec = obj.setdefault("spec", {})
    set_missing(
        spec,
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
    )
    job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    default_pod_template(job)
    _default_failure_policy(job)


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
