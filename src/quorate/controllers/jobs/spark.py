"""sparkoperator.k8s.io SparkApplication: a driver and its executors.

There are no pod templates as such: what pods get is put together from the template a role may have and the
fields beside it, as the operator does it.  What Spark itself adds, such as memory overhead, is not known
before it runs, and does not count.
"""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from quorate.api.field_path import Path, look_up, read_count, read_entries, read_field, write_field
from quorate.api.findings import Finding
from quorate.api.kueue import PodSet
from quorate.controllers.jobframework.interface import Outcome, ValidationScope
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject, read_template
from quorate.controllers.jobs.unstructured import (
    Role,
    UnstructuredJob,
    UnstructuredJobKind,
    raw,
    unstructured_resource,
)
from quorate.kube.patches import merged
from quorate.kube.resources import Json

_DRIVER: Final[Path] = ("spec", "driver")
_EXECUTOR: Final[Path] = ("spec", "executor")
_CONTAINER: Final = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
_CORES: Final = 1  # the default of Spark
_STATE: Final[Path] = ("status", "applicationState", "state")
_JAVA_MEMORY: Final = re.compile(r"([0-9.]+)(kb?|mb?|gb?|tb?)", re.IGNORECASE)
_JAVA_UNITS: Final = {
    "k": "Ki",
    "kb": "Ki",
    "m": "Mi",
    "mb": "Mi",
    "g": "Gi",
    "gb": "Gi",
    "t": "Ti",
    "tb": "Ti",
}


class SparkApplication(UnstructuredJobKind):
    supports_prebuilt = False

    def __init__(self) -> None:
        super().__init__(
            unstructured_resource("sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication"),
            suspend=("spec", "suspend"),
        )

    def findings(
        self, old: UnstructuredJob | None, new: UnstructuredJob, scope: ValidationScope
    ) -> Iterable[Finding]:
        return _findings(new) if scope.queued else ()

    def roles(self, job: UnstructuredJob) -> tuple[Role, ...]:
        executors = read_count(job.document, (*_EXECUTOR, "instances"), 0)
        return (
            Role("driver", (*_DRIVER, "template"), 1, pods=_pods(job.document, _DRIVER), place=_DRIVER),
            Role(
                "executor",
                (*_EXECUTOR, "template"),
                executors,
                count_field=(*_EXECUTOR, "instances"),
                pods=_pods(job.document, _EXECUTOR),
                place=_EXECUTOR,
            ),
        )

    def is_active(self, job: UnstructuredJob) -> bool:
        return _state(job) == "RUNNING"

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        if _state(job) not in ("COMPLETED", "FAILED", "SUBMISSION_FAILED"):
            return None
        message = read_field(job.document, ("status", "applicationState", "errorMessage"), str, "")
        return Outcome(_state(job) == "COMPLETED", message)

    def pods_ready(self, job: UnstructuredJob) -> bool:
        """The application runs as soon as its driver does: executors may still wait for a node."""
        states: Mapping[str, Any] = read_field(job.document, ("status", "executorState"), dict, {})
        wanted = read_count(job.document, (*_EXECUTOR, "instances"), 0)
        ready = sum(1 for state in states.values() if state in ("RUNNING", "COMPLETED"))
        return _state(job) == "RUNNING" and ready >= wanted

    def inject(self, document: Json, role: Role, info: PodSetInfo) -> InjectionConflict | None:
        injected = inject(raw(_view(document, role)), info)
        if isinstance(injected, InjectionConflict):
            return injected
        _write(document, role, merged(_view(document, role), injected))
        return None

    def restore(self, document: Json, role: Role, original: PodSet) -> None:
        """Only what was added goes: the original also has what a template says."""
        view = _view(document, role)
        before = read_template(original.template)
        for section, name in (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector")):
            kept = look_up(before, (section, name)) or {}
            view[section][name] = {key: kept[key] for key in view[section][name] if key in kept}
        kept_tolerations = look_up(before, ("spec", "tolerations")) or []
        view["spec"]["tolerations"] = [
            each for each in view["spec"]["tolerations"] if each in kept_tolerations
        ]
        _write(document, role, view)
        # Spark's API takes no 0 where a job may leave the number out.
        if role.count_field is not None and original.count != role.count:
            write_field(document, role.count_field, original.count)


def _state(job: UnstructuredJob) -> str:
    return read_field(job.document, _STATE, str, "")


def _pods(document: Json, place: Path) -> Json:
    """The template of a role's pods, as the operator makes it of the fields beside it."""
    role = str(place[-1])
    fields = read_field(document, place, dict, {})
    template = copy.deepcopy(read_field(document, (*place, "template"), dict, {}))
    metadata, spec = template.setdefault("metadata", {}), template.setdefault("spec", {})
    for name in ("labels", "annotations"):
        metadata[name] = {**(metadata.get(name) or {}), **(fields.get(name) or {})}
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **_node_selector(document, place)}
    spec["tolerations"] = [*(spec.get("tolerations") or []), *read_entries(document, (*place, "tolerations"))]
    if fields.get("priorityClassName"):
        spec["priorityClassName"] = fields["priorityClassName"]
    containers = spec.setdefault("containers", [{"name": _CONTAINER[role]}])
    own = next((each for each in containers if each.get("name") == _CONTAINER[role]), containers[0])
    own["resources"] = merged(own.get("resources") or {}, _resources(fields))
    spec["containers"] = [*containers, *read_entries(document, (*place, "sidecars"))]
    spec["initContainers"] = [
        *(spec.get("initContainers") or []),
        *read_entries(document, (*place, "initContainers")),
    ]
    return template


def _resources(fields: Mapping[str, Any]) -> Json:
    cores = fields.get("coreRequest") or str(fields.get("cores", _CORES))
    requests = {"cpu": cores, "memory": _memory(fields.get("memory"))}
    limits = {"cpu": fields.get("coreLimit"), "memory": _memory(fields.get("memoryLimit"))}
    gpu = fields.get("gpu") or {}
    if gpu.get("name") and gpu.get("quantity", 0) > 0:
        limits[gpu["name"]] = str(gpu["quantity"])
    parts = {"requests": requests, "limits": limits}
    stated = {part: {name: each for name, each in of.items() if each} for part, of in parts.items()}
    return {part: of for part, of in stated.items() if of}


def _memory(text: str | None) -> str | None:
    """As Kubernetes writes it: Java's ``512m`` are 512 binary megabytes."""
    written = _JAVA_MEMORY.fullmatch(text or "")
    return text if written is None else written[1] + _JAVA_UNITS[written[2].lower()]


def _selector_place(document: Json, place: Path) -> Path:
    """One selector may stand for both roles; then neither has its own."""
    common: Path = ("spec", "nodeSelector")
    return common if look_up(document, common) is not None else (*place, "nodeSelector")


def _node_selector(document: Json, place: Path) -> Json:
    return read_field(document, _selector_place(document, place), dict, {})


def _place(role: Role) -> Path:
    assert role.place is not None, f"{role.name} has no fields of its own"
    return role.place


def _view(document: Json, role: Role) -> Json:
    """The fields that admission adds to, as if they were a pod template."""
    place = _place(role)
    fields = read_field(document, place, dict, {})
    return {
        "metadata": {name: fields.get(name) or {} for name in ("labels", "annotations")},
        "spec": {
            "nodeSelector": _node_selector(document, place),
            "tolerations": fields.get("tolerations") or [],
        },
    }


def _write(document: Json, role: Role, view: Json) -> None:
    place = _place(role)
    metadata, spec = view.get("metadata", {}), view.get("spec", {})
    for name in ("labels", "annotations"):
        write_field(document, (*place, name), metadata.get(name) or None)
    write_field(document, (*place, "tolerations"), spec.get("tolerations") or None)
    write_field(document, _selector_place(document, place), spec.get("nodeSelector") or None)


def _findings(job: UnstructuredJob) -> Iterator[Finding]:
    mode = look_up(job.document, ("spec", "mode"))
    if mode != "cluster":
        yield Finding("spec.mode", mode, "only Cluster mode is supported for a kueue managed job")
    if look_up(job.document, ("spec", "dynamicAllocation", "enabled")):
        rule = "a kueue managed job should not use dynamicAllocation: its executors are admitted together"
        yield Finding("spec.dynamicAllocation.enabled", True, rule)
