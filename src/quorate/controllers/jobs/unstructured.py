"""Kinds of other projects: objects kept as JSON, started and stopped by one patch.

A kind defines where its pod templates are and how to read its status; the rest is common.  A merge
patch replaces lists as a whole, so a patch contains the whole of each list that it changes, for the version
that was read.
"""

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.batch import EMPTY_OBJECT, decode_template
from quorate.api.core.pod_resources import pod_requests
from quorate.api.field_path import (
    InvalidTemplate,
    Path,
    format_path,
    look_up,
    read_count,
    read_entries,
    read_field,
    with_field,
    write_field,
)
from quorate.api.interning import InternCache
from quorate.api.kueue import PodSet
from quorate.api.kueue.topology_annotations import NO_INDEX, PodIndex
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.api.quantity import parse_quantity
from quorate.api.syntax import INT32_MAX, is_dns_label
from quorate.controllers.jobframework.elastic_gates import ELASTIC_GATE
from quorate.controllers.jobframework.interface import EndStatus, JobKind, Outcome, Stop
from quorate.controllers.jobframework.pod_counts import PodCounts, all_or_none_ready
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject, restore
from quorate.controllers.jobframework.topology import TopologySource
from quorate.kube.patches import document_merge_patch, merged
from quorate.kube.resources import Json, Resource
from quorate.kube.writes import Patch

CONDITIONS: Path = ("status", "conditions")
_GATES: Path = ("spec", "schedulingGates")
_INIT_CONTAINERS: Final[Path] = ("spec", "initContainers")


class UnstructuredJob(Struct):
    """A job that is kept as bytes: decoded, it takes eight times the memory.

    What the properties return is shared and must not be changed.
    """

    metadata: ObjectMeta
    encoded_spec: msgspec.Raw = msgspec.field(default=EMPTY_OBJECT, name="spec")
    encoded_status: msgspec.Raw = msgspec.field(default=EMPTY_OBJECT, name="status")
    referenced_spec: Json | None = None  # of the object that ``referenced_object`` returns, if it exists
    referenced_generation: int = 0  # of the same object

    def __post_init__(self) -> None:
        for name, field in (("spec", "encoded_spec"), ("status", "encoded_status")):
            encoded: msgspec.Raw = getattr(self, field)
            if not bytes(encoded).startswith(b"{"):
                raise ValueError(f"Expected `object` in {name}")
            # A view would keep the whole response in memory.
            msgspec.structs.force_setattr(self, field, encoded.copy())

    @property
    def spec(self) -> Json:
        return _decoded(bytes(self.encoded_spec))

    @property
    def status(self) -> Json:
        return _decoded(bytes(self.encoded_status))

    @property
    def document(self) -> Json:
        """The JSON that field paths start from."""
        return {"spec": self.spec, "status": self.status}


def _decode(content: bytes) -> Json:
    return codec.decode(dict[str, Any], content)


# A reconcile reads the same job some twenty times, and a large one for each of its pod sets.
_decoded: Final = InternCache(_decode, entries=64, size_bytes=2**22)


@dataclass(frozen=True, slots=True)
class PodSetSpec:
    """One group of equal pods, and the fields of the job that define it."""

    name: str
    template: Path
    count: int
    min_count: int | None = None
    count_field: Path | None = None  # the field that takes the admitted count
    injection_path: Path | None = None  # where PodSetInfo is written, if not into the template
    effective_template: Json | None = None  # the template of the pods, if it differs from the field
    index: PodIndex = NO_INDEX


def unstructured_resource(
    group: str, version: str, plural: str, kind: str, *, namespaced: bool = True
) -> Resource[UnstructuredJob]:
    return Resource(group, version, plural, kind, namespaced, UnstructuredJob)


def condition_message(job: UnstructuredJob, type_: str) -> str | None:
    """Return the message of a true condition, or None.  Raises ``InvalidTemplate``."""
    for index, condition in enumerate(read_entries(job.document, CONDITIONS)):
        if condition.get("type") == type_ and condition.get("status") == "True":
            return read_field(job.document, (*CONDITIONS, index, "message"), str, "")
    return None


@dataclass(frozen=True, slots=True)
class ReferencedObject:
    """Another object that defines part of a job."""

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
    """A ``JobKind`` of JSON objects; methods that read them raise ``InvalidTemplate``."""

    groups_pod_sets = True
    referenced_kinds: tuple[Resource[UnstructuredJob], ...] = ()
    stores_referenced_object: bool = False  # the kind's controller stores it at first, and reads no later one
    success_condition: str = ""  # of a kind that shows a failure with the condition Failed; empty: no end

    def __init__(
        self,
        resource: Resource[UnstructuredJob],
        suspend: Path = ("spec", "suspend"),
        stopped: Any = True,
        running: Any = False,
    ) -> None:
        """``suspend``: the field that stops a job, with its value while stopped and while running."""
        self._resource = resource
        self._suspend = suspend
        self._stopped, self._running = stopped, running

    def referenced_object(self, job: UnstructuredJob) -> ReferencedObject | None:
        """Return the object of a kind in ``referenced_kinds`` that defines part of the job."""
        return None

    @abstractmethod
    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        """Return the groups of equal pods, always in the same order."""

    def reports_ready(self, job: UnstructuredJob) -> bool:
        """Return True if the controller of the job reports that all its pods are ready."""
        raise NotImplementedError

    def is_active(self, job: UnstructuredJob) -> bool:
        return self.reports_ready(job)

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        for type_ in (self.success_condition, "Failed") if self.success_condition else ():
            message = condition_message(job, type_)
            if message is not None:
                return Outcome(success=type_ == self.success_condition, message=message)
        return None

    def end_status(self, job: UnstructuredJob, outcome: Outcome) -> EndStatus | None:
        if not self.success_condition:
            return None
        return EndStatus((self.success_condition if outcome.success else "Failed",))

    def pod_counts(self, job: UnstructuredJob) -> PodCounts:
        """Return the counts of a kind of which the controller reports no more than ``reports_ready``."""
        sizes = ((spec.name, spec.count) for spec in self.pod_set_specs(job))
        return all_or_none_ready(sizes, ready=self.reports_ready(job))

    @property
    def resource(self) -> Resource[UnstructuredJob]:
        return self._resource

    def manager_of(self, job: UnstructuredJob) -> str:
        named = None if self.managed_by is None else look_up(job.document, self.managed_by.field)
        return named if isinstance(named, str) else ""

    def is_suspended(self, job: UnstructuredJob) -> bool:
        value = read_field(job.document, self._suspend, type(self._stopped), self._running)
        return bool(value == self._stopped)

    def pod_sets(self, job: UnstructuredJob) -> tuple[PodSet, ...]:
        specs = self.pod_set_specs(job)
        if not specs:
            raise InvalidTemplate(("spec",), "asks for no pods")
        for index, spec in enumerate(specs):
            if spec.name in {earlier.name for earlier in specs[:index]}:
                problem = f"belongs to {spec.name!r}, the name of another pod set, too"
                raise InvalidTemplate(spec.template, problem)
        return tuple(_pod_set(job, spec) for spec in specs)

    def topology_sources(self, job: UnstructuredJob) -> tuple[TopologySource, ...]:
        return tuple(
            TopologySource(format_path((*spec.template, "metadata", "annotations")), spec.index)
            for spec in self.pod_set_specs(job)
        )

    def elastic_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        """Return the groups that may change their size while an elastic job runs."""
        return self.pod_set_specs(job)

    def is_gated(self, job: UnstructuredJob) -> bool:
        templates = (read_field(job.document, spec.template, dict) for spec in self.elastic_specs(job))
        return all(map(_is_gated, templates))

    def gated_pod_sets(self, job: UnstructuredJob) -> frozenset[str]:
        return frozenset(spec.name for spec in self.elastic_specs(job))

    def gate(self, job: UnstructuredJob) -> tuple[Patch, ...]:
        if self.is_active(job):
            return ()
        changed = job.document
        for spec in self.elastic_specs(job):
            template = read_field(changed, spec.template, dict)
            if not _is_gated(template):
                gates = [*(look_up(template, _GATES) or ()), {"name": ELASTIC_GATE}]
                changed = with_field(changed, (*spec.template, *_GATES), gates)
        return self._patches(job, with_field(changed, self._suspend, self._stopped))

    def start(
        self, job: UnstructuredJob, infos: Sequence[PodSetInfo]
    ) -> tuple[Patch, ...] | InjectionConflict:
        specs = self.pod_set_specs(job)
        if len(infos) != len(specs):
            return InjectionConflict(
                f"the {self._resource.kind} has {len(specs)} pod sets, its workload was admitted "
                f"with {len(infos)}"
            )
        changed = copy.deepcopy(job.document)
        for spec, info in zip(specs, infos, strict=True):
            conflict = self.inject(changed, spec, info)
            if conflict is not None:
                return conflict
        write_field(changed, self._suspend, self._running)
        return self._patches(job, _plain(changed))

    def stop(self, job: UnstructuredJob, originals: Sequence[PodSet] | None) -> Stop:
        if self.is_suspended(job):
            return Stop()
        changed = with_field(job.document, self._suspend, self._stopped)
        specs = self.pod_set_specs(job) if originals is not None else ()
        if originals is not None and len(originals) == len(specs):
            changed = copy.deepcopy(changed)
            for spec, original in zip(specs, originals, strict=True):
                self.restore(changed, spec, original)
            self.clean_up_restored(job, changed)
            changed = _plain(changed)
        return Stop(self._patches(job, changed), begins=True)

    def inject(self, document: Json, spec: PodSetSpec, info: PodSetInfo) -> InjectionConflict | None:
        """Write ``info`` into the fields of a pod set.  Changes ``document``."""
        injected = inject(_template_in(document, spec), info)
        if isinstance(injected, InjectionConflict):
            return injected
        _change(document, spec, injected, info.count)
        return None

    def restore(self, document: Json, spec: PodSetSpec, original: PodSet) -> None:
        """Undo ``inject``.  Changes ``document``."""
        restored = restore(_template_in(document, spec), original.template, ())
        _change(document, spec, restored, original.count)

    def clean_up_restored(self, job: UnstructuredJob, restored: Json) -> None:
        """Undo what a start changed besides the injection.  Changes ``restored``."""

    def _patches(self, job: UnstructuredJob, changed: Json) -> tuple[Patch, ...]:
        metadata = job.metadata
        body = document_merge_patch({"spec": job.spec}, {"spec": changed["spec"]})
        return (Patch(self._resource, metadata.key, metadata.resource_version, body),)


def _plain(document: Json) -> Json:
    """Return ``document`` as JSON values; what was injected or restored can be structs and mappings."""
    return codec.decode(dict[str, Any], codec.encode(document))


def _pod_set(job: UnstructuredJob, spec: PodSetSpec) -> PodSet:
    if not is_dns_label(spec.name):
        problem = f"belongs to {spec.name!r}, which cannot be the name of a pod set"
        raise InvalidTemplate(spec.template, problem)
    if spec.count > INT32_MAX:
        raise InvalidTemplate(spec.template, f"is that of {spec.count} pods, must be of at most {INT32_MAX}")
    content = spec.effective_template
    if content is None:
        content = read_field(job.document, spec.template, dict)
    return PodSet(
        name=spec.name,
        count=spec.count,
        min_count=msgspec.UNSET if spec.min_count is None else spec.min_count,
        template=pod_template(content, spec.template),
    )


def pod_template(content: Json, path: Path) -> msgspec.Raw:
    """Return ``content``, found at ``path``, as a pod template.

    Raises ``InvalidTemplate``, also for a template without containers: the API server refuses its pods.
    """
    template = raw(content)
    try:
        decoded = decode_template(template)
    except msgspec.ValidationError as error:
        raise InvalidTemplate(path, f"is no pod template: {error}") from error
    if not decoded.spec.containers:
        raise InvalidTemplate((*path, "spec", "containers"), "has no container")
    return template


def with_waiting_container(template: Json, path: Path, name: str, requests: Mapping[str, str]) -> Json:
    """Return a pod template with the init container in which an operator lets pods wait for another pod.

    Of ``requests``, it has what is more than the pod requests itself; if there is nothing, the template is
    returned unchanged.  A resource that the pod does not request is left out: its queue may have no quota.
    Raises ``InvalidTemplate``, with ``path`` as the path of the template.
    """
    own = pod_requests(decode_template(pod_template(template, path)).spec)
    more = {
        resource: amount
        for resource, amount in requests.items()
        if resource in own and own[resource] < parse_quantity(amount)
    }
    if not more:
        return template
    waiting = {"name": name, "resources": {"requests": more}}
    containers = [*read_entries(template, _INIT_CONTAINERS), waiting]
    effective: Json = with_field(template, _INIT_CONTAINERS, containers)
    return effective


def _is_gated(template: Json) -> bool:
    return any(gate.get("name") == ELASTIC_GATE for gate in look_up(template, _GATES) or ())


def _template_in(document: Json, spec: PodSetSpec) -> msgspec.Raw:
    return pod_template(read_field(document, spec.template, dict, spec.effective_template), spec.template)


def raw(template: Json) -> msgspec.Raw:
    return msgspec.Raw(codec.encode(template))


def _change(document: Any, spec: PodSetSpec, patch: Json, count: int) -> None:
    template = read_field(document, spec.template, dict, spec.effective_template)
    write_field(document, spec.template, merged(template, patch))
    # Only partial admission changes a count; a user may change it, too, while the job runs.
    if spec.count_field is not None and spec.min_count is not None and count != spec.count:
        write_field(document, spec.count_field, count)
