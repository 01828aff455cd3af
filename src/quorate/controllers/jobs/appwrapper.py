"""workload.codeflare.dev AppWrapper: any objects, queued together as one.

A wrapper says for each of its components where the pod templates stand in it, or wraps a kind that is known
here.  What admission adds is written beside the components, not into them: the wrapper's controller merges
it when it makes them.
"""

from collections.abc import Mapping
from typing import Any, Final

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
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject
from quorate.controllers.jobs.unstructured import (
    Role,
    UnstructuredJob,
    UnstructuredJobKind,
    condition_message,
    raw,
    unstructured_resource,
)
from quorate.kube.resources import Json

_COMPONENTS: Final[Path] = ("spec", "components")
_INFOS: Final = "podSetInfos"


class AppWrapper(UnstructuredJobKind):
    def __init__(self, known: Mapping[tuple[str, str], UnstructuredJobKind]) -> None:
        """``known``: kinds, by apiVersion and kind, whose pod templates a wrapper need not point at."""
        super().__init__(
            unstructured_resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper"),
            suspend=("spec", "suspend"),
        )
        self._known = known

    def roles(self, job: UnstructuredJob) -> tuple[Role, ...]:
        """One for each pod set of each component, numbered in their order."""
        roles: list[Role] = []
        for index in range(len(read_entries(job.document, _COMPONENTS))):
            component: Path = (*_COMPONENTS, index)
            for number, (template, count) in enumerate(self._pod_sets_of(job, component)):
                name = f"{job.metadata.name}-{len(roles)}"
                roles.append(Role(name, template, count, place=(*component, _INFOS, number)))
        return tuple(roles)

    def is_active(self, job: UnstructuredJob) -> bool:
        return condition_message(job, "QuotaReserved") is not None

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        phase = read_field(job.document, ("status", "phase"), str, "")
        if phase == "Succeeded":
            return Outcome(True, "AppWrapper finished successfully")
        if phase == "Failed" and condition_message(job, "ResourcesDeployed") is None:
            return Outcome(False, "AppWrapper failed")
        return None

    def pods_ready(self, job: UnstructuredJob) -> bool:
        return condition_message(job, "PodsReady") is not None

    def inject(self, document: Json, role: Role, info: PodSetInfo) -> InjectionConflict | None:
        conflict = inject(raw(read_field(document, role.template, dict)), info)
        if isinstance(conflict, InjectionConflict):
            return conflict
        infos = _component(document, role).setdefault(_INFOS, [])
        del infos[_number(role) :]
        infos.append(_shown(info))
        return None

    def restore(self, document: Json, role: Role, original: PodSet) -> None:
        _component(document, role).pop(_INFOS, None)

    def _pod_sets_of(self, job: UnstructuredJob, component: Path) -> list[tuple[Path, int]]:
        """Where each pod template of a component stands, and how many pods are made of it."""
        declared: Path = (*component, "podSets")
        places = [(*declared, index) for index in range(len(read_entries(job.document, declared)))]
        if places:
            return [(_template(job, component, place), _replicas(job, place)) for place in places]
        return self._inferred(job, (*component, "template"))

    def _inferred(self, job: UnstructuredJob, wrapped: Path) -> list[tuple[Path, int]]:
        content = read_field(job.document, wrapped, dict)
        match content.get("apiVersion"), content.get("kind"):
            case "v1", "Pod":
                return [(wrapped, 1)]
            case "apps/v1", "Deployment" | "StatefulSet":
                template: Path = (*wrapped, "spec", "template")
                return [(template, read_count(job.document, (*wrapped, "spec", "replicas"), 1))]
            case "batch/v1", "Job":
                spec: Path = (*wrapped, "spec")
                parallelism = read_count(job.document, (*spec, "parallelism"), 1)
                completions = read_count(job.document, (*spec, "completions"), parallelism)
                return [((*spec, "template"), min(parallelism, completions))]
            case version, kind if (known := self._known.get((str(version), str(kind)))) is not None:
                inner = codec.convert(UnstructuredJob, {"metadata": {}, **content})
                return [((*wrapped, *role.template), role.count) for role in known.roles(inner)]
        return []


def _template(job: UnstructuredJob, component: Path, place: Path) -> Path:
    text = read_field(job.document, (*place, "path"), str)
    try:
        path = parse_path(text)
    except InvalidPath as invalid:
        raise InvalidTemplate((*place, "path"), str(invalid)) from invalid
    if path[0] != "template":
        raise InvalidTemplate((*place, "path"), f"is {text!r}, must lead into template")
    return (*component, *path)


def _replicas(job: UnstructuredJob, place: Path) -> int:
    return read_count(job.document, (*place, "replicas"), 1)


def _component(document: Json, role: Role) -> Json:
    assert role.place is not None, f"{role.name} has no place beside its component"
    found: Json = look_up(document, role.place[:-2])
    return found


def _number(role: Role) -> int:
    assert role.place is not None, f"{role.name} has no place beside its component"
    number = role.place[-1]
    assert isinstance(number, int), f"{role.name} has no number within its component"
    return number


def _shown(info: PodSetInfo) -> Json:
    given: dict[str, Any] = {
        "annotations": info.annotations,
        "labels": info.labels,
        "nodeSelector": info.node_selector,
        "tolerations": codec.to_builtins(info.tolerations),
    }
    return {name: value for name, value in given.items() if value}
