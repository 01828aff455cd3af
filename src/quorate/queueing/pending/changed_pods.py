"""Workloads with other pods or another priority, as a user could change them."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core import Taint
from quorate.api.kueue import Workload

Json = dict[str, Any]


def with_toleration(workload: Workload, pod_set: str, taint: Taint) -> Workload:
    toleration = {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}

    def tolerate(spec: Json) -> None:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), toleration]

    return _with_spec(workload, pod_set, tolerate)


def with_selector(workload: Workload, pod_set: str, labels: Mapping[str, str]) -> Workload:
    """Return the workload of which ``pod_set`` selects nodes by ``labels`` and has no node affinity.

    Other keys of its node selector are kept.
    """

    def select(spec: Json) -> None:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **labels}
        (spec.get("affinity") or {}).pop("nodeAffinity", None)

    return _with_spec(workload, pod_set, select)


def with_request(workload: Workload, pod_set: str, resource: str, amount: str) -> Workload | None:
    """Return the workload of which each pod of ``pod_set`` requests ``amount``.

    Return None unless exactly one container of a pod requests the resource.
    """
    is_single = True

    def request(spec: Json) -> None:
        nonlocal is_single
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        amounts = [(container.get("resources") or {}) for container in (*containers, spec)]
        requesting = [part for part in amounts if resource in (part.get("requests") or {})]
        is_single = len(requesting) == 1 and not spec.get("overhead")
        for resources in requesting:
            limits = resources.get("limits") or {}
            if limits.get(resource) == resources["requests"][resource]:
                limits[resource] = amount
            resources["requests"][resource] = amount

    changed = _with_spec(workload, pod_set, request)
    return changed if is_single else None


def with_priority(workload: Workload, priority: int) -> Workload:
    return replace(workload, spec=replace(workload.spec, priority=priority))


def _with_spec(workload: Workload, name: str, change: Callable[[Json], None]) -> Workload:
    """Return the workload with a changed pod template of the pod set ``name``."""
    pod_sets = list(workload.spec.pod_sets)
    for index, pod_set in enumerate(pod_sets):
        if pod_set.name == name:
            template: Json = codec.decode(dict[str, Any], bytes(pod_set.template))
            change(template.setdefault("spec", {}))
            pod_sets[index] = replace(pod_set, template=msgspec.Raw(codec.encode(template)))
    return replace(workload, spec=replace(workload.spec, pod_sets=tuple(pod_sets)))
