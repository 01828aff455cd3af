"""Jobs."""

from typing import Any

from quorate.local.server.defaults.pods import fill, template_spec

Json = dict[str, Any]

PREFIX = "batch.kubernetes.io/"
UNLIMITED = 2**31 - 1
"""Of retries, when each index has its own limit."""


def default(job: Json) -> None:
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


def begin(job: Json) -> None:
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


def read_back(job: Json) -> None:
    """A job without labels has its template's, by now also those that tell its pods from all others."""
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)
