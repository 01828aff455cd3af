"""workload.codeflare.dev AppWrapper: any objects, queued together as one job.

A wrapper declares the paths of the pod templates of each component, or the component is of a kind that is
known here.  What admission adds is written beside the components, not into them: the AppWrapper controller
merges it when it creates them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.field_path import (
    InvalidPath,
    InvalidTemplate,
    Path,
    look_up,
    parse_path,
    read_count,
    read_entries,
    read_field,
)
from quorate.api.kueue import PodSet
from quorate.api.kueue.topology_annotations import PodIndex
from quorate.api.syntax import signed_int32
from quorate.controllers.jobframework.interface import EndStatus, ManagedBy, Outcome
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject, read_template
from quorate.controllers.jobs.batch import COMPLETION_INDEX
from quorate.controllers.jobs.unstructured import (
    PodSetSpec,
    UnstructuredJob,
    UnstructuredJobKind,
    condition_message,
    raw,
    unstructured_resource,
)
from quorate.controllers.limits import MAX_POD_SETS
from quorate.kube.resources import Json

_COMPONENTS: Final[Path] = ("spec", "components")
_INFOS: Final = "podSetInfos"
_TAS_PREFIX: Final = "workload.codeflare.dev.appwrapper/tas-"
_TOO_MANY: Final = f"makes more than the {MAX_POD_SETS} pod sets of a workload"
# What the library keeps of a container, and what it leaves out although quota counts it.
_CONTAINER_FIELDS: Final = (
    "name", "image", "command", "args", "resources", "terminationMessagePath", "terminationMessagePolicy",
    "imagePullPolicy", "securityContext", "restartPolicy",
)  # fmt: skip
_INDEX_ANNOTATIONS: Final = ("pod-index-label", "sub-group-index-label", "sub-group-count")


class AppWrapper(UnstructuredJobKind):
    managed_by = ManagedBy(("spec", "managedBy"), "workload.codeflare.dev/appwrapper")

    def __init__(self, kinds: Mapping[tuple[str, str], UnstructuredJobKind]) -> None:
        """``kinds``, by apiVersion and kind, with pod templates that need no declaration."""
        super().__init__(
            unstructured_resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper")
        )
        self._kinds = kinds

    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        """Return one for each pod set of each component, with consecutive numbers in the names.

        Raises ``InvalidTemplate`` also for more than ``MAX_POD_SETS``.
        """
        specs: list[PodSetSpec] = []
        for index in range(len(read_entries(job.document, _COMPONENTS))):
            component: Path = (*_COMPONENTS, index)
            for number, spec in enumerate(self._specs(job, component)):
                name = f"{job.metadata.name}-{len(specs)}"
                specs.append(replace(spec, name=name, injection_path=(*component, _INFOS, number)))
            if len(specs) > MAX_POD_SETS:
                raise InvalidTemplate(_COMPONENTS, _TOO_MANY)
        return tuple(specs)

    def pod_sets(self, job: UnstructuredJob) -> tuple[PodSet, ...]:
        """Return the pod sets, with containers as the AppWrapper library gives them to Kueue.

        A Kueue worker cluster compares them with those of the wrapper.
        """
        return tuple(
            msgspec.structs.replace(pod_set, template=_with_library_containers(pod_set.template))
            for pod_set in super().pod_sets(job)
        )

    def is_active(self, job: UnstructuredJob) -> bool:
        return condition_message(job, "QuotaReserved") is not None

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        phase = read_field(job.document, ("status", "phase"), str, "")
        if phase == "Succeeded":
            return Outcome(True, "AppWrapper finished successfully")
        if phase == "Failed" and condition_message(job, "ResourcesDeployed") is None:
            return Outcome(False, "AppWrapper failed")
        return None

    def end_status(self, job: UnstructuredJob, outcome: Outcome) -> EndStatus:
        return EndStatus(fields={"phase": "Succeeded" if outcome.success else "Failed", "conditions": None})

    def reports_ready(self, job: UnstructuredJob) -> bool:
        return condition_message(job, "PodsReady") is not None

    def inject(self, document: Json, spec: PodSetSpec, info: PodSetInfo) -> InjectionConflict | None:
        conflict = inject(raw(read_field(document, spec.template, dict, spec.effective_template)), info)
        if isinstance(conflict, InjectionConflict):
            return conflict
        component, number = _position(spec)
        infos = look_up(document, component).setdefault(_INFOS, [])
        del infos[number:]
        infos.append(_info(info))
        return None

    def restore(self, document: Json, spec: PodSetSpec, original: PodSet) -> None:
        component, _ = _position(spec)
        look_up(document, component).pop(_INFOS, None)

    def _specs(self, job: UnstructuredJob, component: Path) -> list[PodSetSpec]:
        """Return the groups of equal pods of a component, without names."""
        declared: Path = (*component, "podSets")
        entries: list[Path] = [
            (*declared, index) for index in range(len(read_entries(job.document, declared)))
        ]
        if len(entries) > MAX_POD_SETS:
            raise InvalidTemplate(declared, _TOO_MANY)
        if entries:
            return [
                PodSetSpec(
                    "", _template(job, component, entry), _replicas(job, entry), index=_index(job, entry)
                )
                for entry in entries
            ]
        return self._inferred(job, (*component, "template"))

    def _inferred(self, job: UnstructuredJob, wrapped: Path) -> list[PodSetSpec]:
        content = read_field(job.document, wrapped, dict)
        spec: Path = (*wrapped, "spec")
        match content.get("apiVersion"), content.get("kind"):
            case "v1", "Pod":
                return [PodSetSpec("", wrapped, 1)]
            case "apps/v1", "Deployment" | "StatefulSet":
                return [PodSetSpec("", (*spec, "template"), read_count(job.document, (*spec, "replicas"), 1))]
            case "batch/v1", "Job":
                parallelism = read_count(job.document, (*spec, "parallelism"), 1)
                completions = read_count(job.document, (*spec, "completions"), parallelism)
                pods = min(parallelism, completions)
                return [PodSetSpec("", (*spec, "template"), pods, index=COMPLETION_INDEX)]
            case version, kind if (wrapped_kind := self._kinds.get((str(version), str(kind)))) is not None:
                inner = codec.convert(UnstructuredJob, {"metadata": {}, **content})
                return [
                    replace(inner_spec, template=(*wrapped, *inner_spec.template), min_count=None)
                    for inner_spec in wrapped_kind.pod_set_specs(inner)
                ]
        return []


def _with_library_containers(template: msgspec.Raw) -> msgspec.Raw:
    document = read_template(template)
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return template
    for field in ("initContainers", "containers"):
        if isinstance(spec.get(field), list):
            spec[field] = [
                _library_container(container) if isinstance(container, dict) else container
                for container in spec[field]
            ]
    return raw(document)


def _library_container(container: Json) -> Json:
    is_latest = _has_latest_tag(str(container.get("image", "")))
    defaults = {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if is_latest else "IfNotPresent",
    }
    return defaults | {name: container[name] for name in _CONTAINER_FIELDS if container.get(name)}


def _has_latest_tag(image: str) -> bool:
    name, _, digest = image.partition("@")
    _, _, tag = name.rpartition("/")[2].partition(":")
    return tag == "latest" or bool(name and not tag and not digest)


def _template(job: UnstructuredJob, component: Path, entry: Path) -> Path:
    text = read_field(job.document, (*entry, "path"), str)
    try:
        path = parse_path(text)
    except InvalidPath as invalid:
        raise InvalidTemplate((*entry, "path"), str(invalid)) from invalid
    if path[0] != "template":
        raise InvalidTemplate((*entry, "path"), f"is {text!r}, must lead into template")
    return (*component, *path)


def _replicas(job: UnstructuredJob, entry: Path) -> int:
    return read_count(job.document, (*entry, "replicas"), 1)


def _index(job: UnstructuredJob, entry: Path) -> PodIndex:
    """Return the index that annotations of a declared pod set name; a malformed count is ignored."""
    given = read_field(job.document, (*entry, "annotations"), dict, {})
    label, group, count = (given.get(f"{_TAS_PREFIX}{name}", "") for name in _INDEX_ANNOTATIONS)
    if not all(isinstance(value, str) for value in (label, group, count)):
        raise InvalidTemplate((*entry, "annotations"), "has a value that is no text")
    return PodIndex(label, group, signed_int32(count))


def _position(spec: PodSetSpec) -> tuple[Path, int]:
    """Return the component of a pod set, and its index there."""
    assert spec.injection_path is not None, f"{spec.name} has no component"
    *component, _, number = spec.injection_path
    assert isinstance(number, int), f"{spec.name} has no index within its component"
    return tuple(component), number


def _info(info: PodSetInfo) -> Json:
    fields: dict[str, Any] = {
        "annotations": info.annotations,
        "labels": info.labels,
        "nodeSelector": info.node_selector,
        "tolerations": codec.to_builtins(info.tolerations),
        "schedulingGates": [{"name": gate} for gate in info.scheduling_gates],
    }
    return {name: value for name, value in fields.items() if value}
