"""Equivalence of a Workload and a job: both ask for the same pods."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import is_true
from quorate.controllers.jobframework.podset_info import read_template

# The fields of a pod spec, besides its containers, that determine what a pod requests.
_REQUESTING: Final = ("resources", "overhead", "runtimeClassName", "resourceClaims")


def is_equivalent(
    workload: Workload,
    pod_sets: Sequence[PodSet],
    maximum_execution_s: int | None,
    suspended: bool,
    *,
    running: bool = False,
) -> bool:
    """Return True if ``workload`` is equivalent to a job with ``pod_sets``.

    While quota is reserved, the job may be running: with injected tolerations, and with the admitted count of
    a partial admission, which finished pods reduce further.  Node selectors, labels, annotations and affinity
    are never compared: some of them are injected, and none of the rest changes the requested quota.  The
    minimum of a running job is not compared either: its native pod group may be created or deleted.
    ``running``: the job may run with the tolerations of another workload.
    """
    if workload.spec.maximum_execution_time_seconds != maximum_execution_s:
        return False
    if len(workload.spec.pod_sets) != len(pod_sets):
        return False
    if is_true(workload.status.conditions, "QuotaReserved"):
        if _are_equal(_as_admitted(workload), pod_sets, tolerations=False, minimums=suspended):
            return True
        if not suspended:
            return False
    return _are_equal(workload.spec.pod_sets, pod_sets, tolerations=not running)


def _as_admitted(workload: Workload) -> tuple[PodSet, ...]:
    admission = workload.status.admission
    if admission is None:
        return workload.spec.pod_sets
    counts = {assignment.name: assignment.count for assignment in admission.pod_set_assignments}
    return tuple(
        pod_set
        if pod_set.min_count is msgspec.UNSET or (count := counts.get(pod_set.name)) is None
        else msgspec.structs.replace(pod_set, count=count)
        for pod_set in workload.spec.pod_sets
    )


def _are_equal(
    ours: Sequence[PodSet], theirs: Sequence[PodSet], tolerations: bool, minimums: bool = True
) -> bool:
    return all(
        mine.count == other.count
        and (mine.min_count == other.min_count or not minimums)
        and _shape(mine.template, tolerations) == _shape(other.template, tolerations)
        for mine, other in zip(ours, theirs, strict=True)
    )


def _shape(template: msgspec.Raw, tolerations: bool) -> tuple[Any, ...]:
    spec = read_template(template).get("spec") or {}
    shape = (
        _containers(spec.get("initContainers")),
        _containers(spec.get("containers")),
        *(_without_nulls(spec.get(field)) or None for field in _REQUESTING),
    )
    return (*shape, spec.get("tolerations") or []) if tolerations else shape


def _containers(containers: list[dict[str, Any]] | None) -> list[Any]:
    """Return the containers to compare; of variables with one name the last one is used."""
    return [
        _without_nulls({**container, "env": _effective(container["env"])})
        if container.get("env")
        else _without_nulls(container)
        for container in containers or []
    ]


def _effective(env: Any) -> Any:
    """Return ``env`` without entries that a later one replaces; a job without a schema may have anything."""
    try:
        return list({entry["name"]: entry for entry in env}.values())
    except (TypeError, KeyError):
        return env


def _without_nulls(value: Any) -> Any:
    """Remove nulls: the API server does not distinguish null from an absent field."""
    match value:
        case dict():
            return {key: _without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [_without_nulls(item) for item in value]
        case _:
            return value
