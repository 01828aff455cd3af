"""Deployments, ReplicaSets and StatefulSets."""

from typing import Any

from quorate.local.server.defaults.pods import fill, template_spec

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


def begin(obj: Json) -> None:
    obj["status"] = {}
