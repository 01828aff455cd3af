"""Kinds of job that the configuration declares by the field paths of their objects."""

from quorate.api.configuration.integrations import DeclaredFramework, PodSetPaths, StatusCheck
from quorate.api.field_path import (
    InvalidTemplate,
    Path,
    look_up,
    read_count,
    read_entries,
    read_field,
    write_field,
)
from quorate.controllers.jobframework.interface import EndStatus, ManagedBy, Outcome
from quorate.controllers.jobframework.pod_counts import PodCounts, all_or_none_ready
from quorate.controllers.jobs.unstructured import (
    PodSetSpec,
    UnstructuredJob,
    UnstructuredJobKind,
    condition_message,
    unstructured_resource,
)
from quorate.kube.resources import Json


class DeclaredKind(UnstructuredJobKind):
    managed_by = ManagedBy(("spec", "managedBy"), own="")  # whether it has the field is not declared

    def __init__(self, declared: DeclaredFramework) -> None:
        resource = unstructured_resource(declared.group, declared.version, declared.plural, declared.kind)
        switch = declared.suspend
        super().__init__(resource, switch.field, switch.stopped, switch.running)
        self._declared = declared

    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        return tuple(spec for paths in self._declared.pod_sets for spec in _specs(job, paths))

    def is_active(self, job: UnstructuredJob) -> bool:
        if self._declared.active is None:
            return False
        value = look_up(job.document, self._declared.active)
        if value is None or isinstance(value, bool):
            return bool(value)
        return read_count(job.document, self._declared.active) > 0

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        for check, success in ((self._declared.succeeded, True), (self._declared.failed, False)):
            message = None if check is None else _message(job, check)
            if message is not None:
                return Outcome(success=success, message=message)
        return None

    def end_status(self, job: UnstructuredJob, outcome: Outcome) -> EndStatus | None:
        check = self._declared.succeeded if outcome.success else self._declared.failed
        if check is None or check.condition:
            return None if check is None else EndStatus((check.condition,))
        value = look_up(job.document, check.equals_field) if check.equals_field else check.values[0]
        document: Json = {}
        write_field(document, check.field, value)
        if check.message is not None:
            write_field(document, check.message, outcome.message)
        fields = document.get("status")
        return None if value is None or fields is None else EndStatus(fields=fields)

    def priority_class(self, job: UnstructuredJob) -> str | None:
        path = self._declared.priority_class
        return None if path is None else read_field(job.document, path, str, "")

    def pod_counts(self, job: UnstructuredJob) -> PodCounts:
        done = {
            paths.name: read_count(job.document, paths.done, 0)
            for paths in self._declared.pod_sets
            if paths.done is not None
        }
        sizes = [(spec.name, spec.count) for spec in self.pod_set_specs(job)]
        return all_or_none_ready(sizes, ready=self.reports_ready(job), succeeded=done)

    def reports_ready(self, job: UnstructuredJob) -> bool:
        return _message(job, self._declared.ready) is not None


def _specs(job: UnstructuredJob, paths: PodSetPaths) -> list[PodSetSpec]:
    if paths.each is None:
        return [_spec(job, paths, (), paths.name)]
    entries: list[Path] = [
        (*paths.each, index) for index in range(len(read_entries(job.document, paths.each)))
    ]
    return [
        _spec(job, paths, entry, read_field(job.document, (*entry, *paths.name_from), str))
        for entry in entries
    ]


def _spec(job: UnstructuredJob, paths: PodSetPaths, within: Path, name: str) -> PodSetSpec:
    template = (*within, *paths.template)
    if paths.count is None:
        return PodSetSpec(name, template, count=1)
    count_field = (*within, *paths.count)
    count = read_count(job.document, count_field, 1)
    minimum = None
    if paths.min_count is not None and look_up(job.document, (*within, *paths.min_count)) is not None:
        minimum = read_count(job.document, (*within, *paths.min_count))
        if minimum > count:
            raise InvalidTemplate(
                (*within, *paths.min_count), f"is {minimum}, more than the {count} pods there are"
            )
    return PodSetSpec(name, template, count, minimum, count_field)


def _message(job: UnstructuredJob, check: StatusCheck) -> str | None:
    """Return the message of a check that holds for the job's status, otherwise None."""
    if check.condition:
        return condition_message(job, check.condition)
    stored = look_up(job.document, check.field)
    wanted = (look_up(job.document, check.equals_field),) if check.equals_field else check.values
    # In Python, True == 1.
    if stored is None or not any(type(stored) is type(value) and stored == value for value in wanted):
        return None
    return "" if check.message is None else read_field(job.document, check.message, str, "")
