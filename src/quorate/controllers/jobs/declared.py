"""Kinds of job that the configuration declares by the paths in their objects."""

from quorate.api.configuration.integrations import DeclaredFramework, PodSetPaths, StatusCheck
from quorate.api.field_path import InvalidTemplate, Path, look_up, read_count, read_entries, read_field
from quorate.api.kueue import ReclaimablePod
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobs.unstructured import (
    Role,
    UnstructuredJob,
    UnstructuredJobKind,
    condition_message,
    unstructured_resource,
)


class DeclaredKind(UnstructuredJobKind):
    def __init__(self, declared: DeclaredFramework) -> None:
        resource = unstructured_resource(declared.group, declared.version, declared.plural, declared.kind)
        switch = declared.suspend
        super().__init__(resource, switch.field, switch.stopped, switch.running)
        self._declared = declared

    def roles(self, job: UnstructuredJob) -> tuple[Role, ...]:
        return tuple(role for paths in self._declared.pod_sets for role in _roles(job, paths))

    def is_active(self, job: UnstructuredJob) -> bool:
        if self._declared.active is None:
            return False
        found = look_up(job.document, self._declared.active)
        if found is None or isinstance(found, bool):
            return bool(found)
        return read_count(job.document, self._declared.active) > 0

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        for sign, success in ((self._declared.succeeded, True), (self._declared.failed, False)):
            message = None if sign is None else _shown(job, sign)
            if message is not None:
                return Outcome(success=success, message=message)
        return None

    def priority_class(self, job: UnstructuredJob) -> str | None:
        path = self._declared.priority_class
        return None if path is None else read_field(job.document, path, str, "")

    def reclaimable(self, job: UnstructuredJob) -> tuple[ReclaimablePod, ...]:
        done = (
            (paths.name, read_count(job.document, paths.done, 0))
            for paths in self._declared.pod_sets
            if paths.done is not None
        )
        return tuple(ReclaimablePod(name=name, count=count) for name, count in done if count)

    def pods_ready(self, job: UnstructuredJob) -> bool:
        return _shown(job, self._declared.ready) is not None


def _roles(job: UnstructuredJob, paths: PodSetPaths) -> list[Role]:
    if paths.each is None:
        return [_role(job, paths, (), paths.name)]
    entries: list[Path] = [
        (*paths.each, index) for index in range(len(read_entries(job.document, paths.each)))
    ]
    return [
        _role(job, paths, entry, read_field(job.document, (*entry, *paths.name_from), str))
        for entry in entries
    ]


def _role(job: UnstructuredJob, paths: PodSetPaths, within: Path, name: str) -> Role:
    template = (*within, *paths.template)
    if paths.count is None:
        return Role(name, template, count=1)
    count_field = (*within, *paths.count)
    count = read_count(job.document, count_field, 1)
    minimum = None
    if paths.min_count is not None and look_up(job.document, (*within, *paths.min_count)) is not None:
        minimum = read_count(job.document, (*within, *paths.min_count))
        if minimum > count:
            raise InvalidTemplate(
                (*within, *paths.min_count), f"is {minimum}, more than the {count} pods there are"
            )
    return Role(name, template, count, minimum, count_field)


def _shown(job: UnstructuredJob, sign: StatusCheck) -> str | None:
    """What the job says along with the sign; ``None`` when it does not show it."""
    if sign.condition:
        return condition_message(job, sign.condition)
    found = look_up(job.document, sign.field)
    wanted = (look_up(job.document, sign.equals_field),) if sign.equals_field else sign.values
    # To Python a boolean is a number.
    if found is None or not any(type(found) is type(value) and found == value for value in wanted):
        return None
    return "" if sign.message is None else read_field(job.document, sign.message, str, "")
