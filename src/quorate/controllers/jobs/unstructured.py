"""Kinds of job that come from other projects: read as JSON, started and stopped by one patch each.

A kind says where its pod templates stand and how its status reads; the rest is the same for all.  Lists
cannot be patched in part, so a patch carries the ones it changes whole, at the version they were read at.
"""

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.api import codec
from quorate.api.batch import decode_template
from quorate.api.field_path import (
    InvalidTemplate,
    Path,
    look_up,
    read_count,
    read_entries,
    read_field,
    write_field,
)
from quorate.api.kueue import PodSet
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.api.syntax import is_dns_label
from quorate.controllers.jobframework.elastic_gates import ELASTIC_GATE
from quorate.controllers.jobframework.interface import JobKind, Outcome, Stop
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject, restore
from quorate.kube.patches import merge_patch, merged
from quorate.kube.resources import Json, Resource
from quorate.kube.writes import Patch

CONDITIONS: Path = ("status", "conditions")
_GATES: Path = ("spec", "schedulingGates")


class UnstructuredJob(Struct):
    metadata: ObjectMeta
    spec: Json = msgspec.field(default_factory=dict)
    status: Json = msgspec.field(default_factory=dict)
    # The spec of the object that says what the job leaves open; None where there is none, or not yet.
    companion: Json | None = None

    @property
    def document(self) -> Json:
        """What paths lead through."""
        return {"spec": self.spec, "status": self.status}


@dataclass(frozen=True, slots=True)
class Role:
    """One group of equal pods, and where the job speaks of it."""

    name: str
    template: Path
    count: int
    min_count: int | None = None
    count_field: Path | None = None  # where the count is written that was admitted
    place: Path | None = None  # where what admission adds is written, by kinds that do not write it there
    pods: Json | None = None  # the template the pods really get, where it is not the one that stands there


def unstructured_resource(
    group: str, version: str, plural: str, kind: str, *, namespaced: bool = True
) -> Resource[UnstructuredJob]:
    return Resource(group, version, plural, kind, namespaced, UnstructuredJob)


def condition_message(job: UnstructuredJob, type_: str) -> str | None:
    """What the condition says, when it is true.  Raises ``InvalidTemplate``."""
    for index, condition in enumerate(read_entries(job.document, CONDITIONS)):
        if condition.get("type") == type_ and condition.get("status") == "True":
            return read_field(job.document, (*CONDITIONS, index, "message"), str, "")
    return None


def outcome_of_conditions(job: UnstructuredJob, succeeded: str, failed: str) -> Outcome | None:
    """How a job ended that has a condition for each end.  Raises ``InvalidTemplate``."""
    for type_ in (succeeded, failed):
        message = condition_message(job, type_)
        if message is not None:
            return Outcome(success=type_ == succeeded, message=message)
    return None


@dataclass(frozen=True, slots=True)
class Companion:
    """The object that says what a job of some kind leaves open."""

    resource: Resource[UnstructuredJob]
    key: Key


def counts_by_name(job: UnstructuredJob, path: Path, field: str) -> dict[str, int]:
    """Return a count of each entry of a list, by name.  Raises ``InvalidTemplate``."""
    return {
        read_field(job.document, (*path, index, "name"), str): read_count(
            job.document, (*path, index, field), 0
        )
        for index in range(len(read_entries(job.document, path)))
    }


class UnstructuredJobKind(JobKind[UnstructuredJob]):
    """The ``JobKind`` of objects kept as JSON.  Whatever reads an object raises ``InvalidTemplate``."""

    def __init__(
        self, resource: Resource[UnstructuredJob], suspend: Path, stopped: Any = True, running: Any = False
    ) -> None:
        """``suspend``: the field by which jobs are stopped; what stands there then, and while they run."""
        self._resource = resource
        self._suspend = suspend
        self._stopped, self._running = stopped, running

    companions: tuple[Resource[UnstructuredJob], ...] = ()  # kinds of companion there are

    def companion_of(self, job: UnstructuredJob) -> Companion | None:
        """The one the job needs, of a kind in ``companions``."""
        return None

    @abstractmethod
    def roles(self, job: UnstructuredJob) -> tuple[Role, ...]:
        """The groups of equal pods, always in the same order."""

    @property
    def resource(self) -> Resource[UnstructuredJob]:
        return self._resource

    def is_suspended(self, job: UnstructuredJob) -> bool:
        return bool(
            read_field(job.document, self._suspend, type(self._stopped), self._running) == self._stopped
        )

    def pod_sets(self, job: UnstructuredJob) -> tuple[PodSet, ...]:
        roles = self.roles(job)
        if not roles:
            raise InvalidTemplate(("spec",), "asks for no pods")
        for index, role in enumerate(roles):
            if role.name in {other.name for other in roles[:index]}:
                raise InvalidTemplate(
                    role.template, f"belongs to {role.name!r}, the name of another pod set, too"
                )
        return tuple(_pod_set(job, role) for role in roles)

    def is_gated(self, job: UnstructuredJob) -> bool:
        return all(_is_gated(read_field(job.document, role.template, dict)) for role in self.roles(job))

    def gate(self, job: UnstructuredJob) -> tuple[Patch, ...]:
        if self.is_active(job):
            return ()
        changed = copy.deepcopy(job.document)
        for role in self.roles(job):
            template = read_field(changed, role.template, dict)
            if not _is_gated(template):
                gates = look_up(template, _GATES) or []
                write_field(template, _GATES, [*gates, {"name": ELASTIC_GATE}])
        return self._patches(job, changed, suspend=True)

    def start(
        self, job: UnstructuredJob, infos: Sequence[PodSetInfo]
    ) -> tuple[Patch, ...] | InjectionConflict:
        roles = self.roles(job)
        if len(infos) != len(roles):
            return InjectionConflict(
                f"the {self._resource.kind} has {len(roles)} pod sets, its workload was admitted "
                f"with {len(infos)}"
            )
        changed = copy.deepcopy(job.document)
        for role, info in zip(roles, infos, strict=True):
            conflict = self.inject(changed, role, info)
            if conflict is not None:
                return conflict
        return self._patches(job, changed, suspend=False)

    def stop(self, job: UnstructuredJob, originals: Sequence[PodSet] | None) -> Stop:
        if self.is_suspended(job):
            return Stop()
        changed = copy.deepcopy(job.document)
        roles = self.roles(job)
        if originals is not None and len(originals) == len(roles):
            for role, original in zip(roles, originals, strict=True):
                self.restore(changed, role, original)
            self.tidy(job, changed)
        return Stop(self._patches(job, changed, suspend=True), begins=True)

    def inject(self, document: Json, role: Role, info: PodSetInfo) -> InjectionConflict | None:
        """Write what admission adds to the role's pods.  Changes ``document``."""
        injected = inject(_written(document, role), info)
        if isinstance(injected, InjectionConflict):
            return injected
        _change(document, role, injected, info.count)
        return None

    def restore(self, document: Json, role: Role, original: PodSet) -> None:
        """Take away what ``inject`` wrote.  Changes ``document``."""
        restored = restore(_written(document, role), original.template, ())
        _change(document, role, restored, original.count)

    def tidy(self, job: UnstructuredJob, restored: Json) -> None:
        """Take away what a start leaves behind besides what it injects.  Changes ``restored``."""

    def _patches(self, job: UnstructuredJob, changed: Json, suspend: bool) -> tuple[Patch, ...]:
        write_field(changed, self._suspend, self._stopped if suspend else self._running)
        metadata = job.metadata
        body = merge_patch({"spec": job.spec}, {"spec": changed["spec"]})
        return (Patch(self._resource, metadata.key, metadata.resource_version, body),)


def _pod_set(job: UnstructuredJob, role: Role) -> PodSet:
    if not is_dns_label(role.name):
        raise InvalidTemplate(
            role.template, f"belongs to {role.name!r}, which cannot be the name of a pod set"
        )
    minimum = msgspec.UNSET if role.min_count is None else role.min_count
    content = read_field(job.document, role.template, dict) if role.pods is None else role.pods
    template = pod_template(content, role.template)
    return PodSet(name=role.name, count=role.count, min_count=minimum, template=template)


def pod_template(content: Json, place: Path) -> msgspec.Raw:
    """Return ``content``, found at ``place``, as a pod template.  Raises ``InvalidTemplate``."""
    template = raw(content)
    try:
        decode_template(template)
    except msgspec.ValidationError as error:
        raise InvalidTemplate(place, f"is no pod template: {error}") from error
    return template


def _is_gated(template: Json) -> bool:
    return any(gate.get("name") == ELASTIC_GATE for gate in look_up(template, _GATES) or ())


def _written(document: Json, role: Role) -> msgspec.Raw:
    return raw(read_field(document, role.template, dict, role.pods))


def raw(template: Json) -> msgspec.Raw:
    return msgspec.Raw(codec.encode(template))


def _change(document: Any, role: Role, template: Json, count: int) -> None:
    write_field(
        document, role.template, merged(read_field(document, role.template, dict, role.pods), template)
    )
    # Only partial admission changes a count: any other is the user's, who may change it of a running job.
    if role.count_field is not None and role.min_count is not None and count != role.count:
        write_field(document, role.count_field, count)
