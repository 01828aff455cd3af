"""The fields of Configuration about kinds of job: which are queued, and how one is declared without code."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from quorate.api.configuration.unused import POD_OPTIONS
from quorate.api.decoding.strict import (
    Place,
    Reader,
    Refused,
    Section,
    choice,
    list_of,
    section,
    shaped,
    text,
)
from quorate.api.field_path import InvalidPath, Path, parse_path
from quorate.api.syntax import is_dns_label, is_dns_subdomain, is_qualified_name

FRAMEWORKS: Final = (
    "batch/job", "deployment", "jobset.x-k8s.io/jobset", "kubeflow.org/jaxjob", "kubeflow.org/mpijob",
    "kubeflow.org/paddlejob", "kubeflow.org/pytorchjob", "kubeflow.org/tfjob", "kubeflow.org/xgboostjob",
    "leaderworkerset.x-k8s.io/leaderworkerset", "pod", "ray.io/raycluster", "ray.io/rayjob",
    "ray.io/rayservice", "sparkoperator.k8s.io/sparkapplication", "statefulset",
    "trainer.kubeflow.org/trainjob", "workload.codeflare.dev/appwrapper",
)  # fmt: skip
SPARK: Final = "sparkoperator.k8s.io/sparkapplication"

_EXTERNAL_FRAMEWORK: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*\.v[0-9][a-z0-9]*\.[a-z0-9][-a-z0-9.]*")
_VERSION: Final = re.compile(r"v[0-9][a-z0-9]*")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")


class PodSetPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Where a kind keeps one group of equal pods, or with ``each`` one group in each entry of a list.

    With ``each`` the other paths lead through an entry, else through the object.
    """

    template: Path
    name: str = ""  # empty: with ``each``, where ``name_from`` says it
    each: Path | None = None
    name_from: Path = ()
    count: Path | None = None  # None: always one pod
    min_count: Path | None = None
    done: Path | None = None  # through the object: where the status counts pods that are done for good


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """How the status shows that something is so: a condition that is true, or a field with a value.

    The value is one of ``values``, or what stands at ``equals_field``.
    """

    condition: str = ""
    field: Path = ()
    values: tuple[Any, ...] = ()
    equals_field: Path = ()
    message: Path | None = None  # where the object says more; a condition has its own message


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """The field by which a job is stopped and started, and what stands there then."""

    field: Path
    stopped: Any = True
    running: Any = False


class DeclaredFramework(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of job described by the places in its objects."""

    group: str
    version: str
    kind: str
    plural: str
    suspend: Switch
    pod_sets: tuple[PodSetPaths, ...]
    ready: Sign
    succeeded: Sign | None = None  # None: such a job never ends well
    failed: Sign | None = None
    priority_class: Path | None = None
    active: Path | None = None  # None: a job that is suspended holds no capacity

    @property
    def name(self) -> str:
        """As Kueue names frameworks."""
        return f"{self.group}/{self.kind.lower()}"


class ExternalFramework(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that another controller queues; its jobs may have parts of kinds that are queued here."""

    group: str
    version: str
    kind: str

    @property
    def name(self) -> str:
        """As Kueue names frameworks."""
        return f"{self.group}/{self.kind.lower()}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


class Integrations(msgspec.Struct, frozen=True, kw_only=True):
    frameworks: tuple[str, ...] = ("batch/job",)
    declared: tuple[DeclaredFramework, ...] = ()
    external: tuple[ExternalFramework, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()


def integrations(version: str) -> Reader[Integrations]:
    def read_fields(fields: Section) -> Integrations:
        if version == "v1beta1" and "podOptions" in fields:
            fields.at("podOptions").warn("is checked but not honoured (write managedJobsNamespaceSelector)")
            fields.take("podOptions", POD_OPTIONS, None)
        frameworks = fields.take("frameworks", _frameworks, Integrations().frameworks)
        declared = fields.take("declaredFrameworks", _all_declared(frameworks), ())
        queued = [*frameworks, *(framework.name for framework in declared)]
        return Integrations(
            frameworks=frameworks,
            declared=declared,
            external=fields.take("externalFrameworks", _all_external(queued), ()),
            label_keys_to_copy=fields.take(
                "labelKeysToCopy", list_of(shaped(is_qualified_name, "the key of a label")), ()
            ),
        )

    return section(read_fields)


def _all_external(queued: Sequence[str]) -> Reader[tuple[ExternalFramework, ...]]:
    def read(place: Place) -> tuple[ExternalFramework, ...]:
        external = list_of(_external)(place)
        if len(external) == len(place.value):  # else places are not those of what was read
            for index, framework in enumerate(external):
                if framework.name in (*queued, *(each.name for each in external[:index])):
                    place.items()[index].refuse("is queued already (keep one)")
        return external

    return read


def _external(place: Place) -> ExternalFramework:
    if _EXTERNAL_FRAMEWORK.fullmatch(text(place)) is None:
        raise Refused("does not name a kind (write Kind.version.group)")
    kind, version, group = text(place).split(".", 2)
    return ExternalFramework(group=group, version=version, kind=kind)


def _frameworks(place: Place) -> tuple[str, ...]:
    names = list_of(choice(FRAMEWORKS), least=1)(place)
    for index, item in enumerate(place.items()):
        if item.value in place.value[:index]:
            item.refuse("is listed twice (keep one)")
    return names


# Kinds declared by their paths.


def _all_declared(frameworks: tuple[str, ...]) -> Reader[tuple[DeclaredFramework, ...]]:
    def read(place: Place) -> tuple[DeclaredFramework, ...]:
        declared = list_of(section(_declared))(place)
        names = [*frameworks, *(framework.name for framework in declared)]
        if len(declared) == len(place.value):  # else places are not those of what was read
            for index, framework in enumerate(declared):
                if framework.kind and framework.name in names[: len(frameworks) + index]:
                    item = place.items()[index].entry("kind")
                    item.refuse(f"makes {framework.name}, which is queued already (keep one)")
        return declared

    return read


def _declared(fields: Section) -> DeclaredFramework:
    _demand(fields, apiVersion="example.com/v1", kind="Training", plural="trainings", suspend="spec.suspend")
    _demand(fields, podSets="a list", ready="{condition: Running}")
    group, version = fields.take("apiVersion", _api_version, ("", ""))
    return DeclaredFramework(
        group=group,
        version=version,
        kind=fields.take("kind", shaped(lambda name: _KIND.fullmatch(name) is not None, "a kind"), ""),
        plural=fields.take("plural", shaped(is_dns_label, "the plural of a kind, in lower case"), ""),
        suspend=fields.take("suspend", _switch, Switch(field=())),
        pod_sets=fields.take("podSets", list_of(section(_pod_set), least=1), ()),
        ready=fields.take("ready", section(_sign), Sign()),
        succeeded=fields.take("succeeded", section(_sign), None),
        failed=fields.take("failed", section(_sign), None),
        active=fields.take("active", _path_in("status"), None),
        priority_class=fields.take("priorityClass", _path_in("spec"), None),
    )


def _switch(place: Place) -> Switch:
    """A path to a boolean, or a field with the two values it takes."""
    if isinstance(place.value, str):
        return Switch(field=_path_in("spec")(place))
    return section(_values_of_switch)(place)


def _values_of_switch(fields: Section) -> Switch:
    _demand(fields, field="spec.state", stopped="Stopped", running="Running")
    switch = Switch(
        field=fields.take("field", _path_in("spec"), ()),
        stopped=fields.take("stopped", _scalar, True),
        running=fields.take("running", _scalar, False),
    )
    if switch.stopped == switch.running:
        fields.place.refuse("has the same value for stopped and running")
    return switch


def _demand(fields: Section, **examples: str) -> None:
    for name, example in examples.items():
        if name not in fields:
            fields.at(name).refuse(f"is missing (write {example})")


def _api_version(place: Place) -> tuple[str, str]:
    group, _, version = text(place).rpartition("/")
    if not is_dns_subdomain(group) or _VERSION.fullmatch(version) is None:
        raise Refused("is no apiVersion of a custom resource (write example.com/v1)")
    return group, version


def _path(place: Place) -> Path:
    try:
        return parse_path(text(place))
    except InvalidPath as invalid:
        raise Refused("is no path (write names joined by dots, such as spec.groups[0].size)") from invalid


def _path_in(part: str) -> Reader[Path]:
    def read(place: Place) -> Path:
        path = _path(place)
        if path[0] != part or len(path) == 1:
            raise Refused(f"does not lead into {part} (write {part}, a dot and names)")
        return path

    return read


def _pod_set(fields: Section) -> PodSetPaths:
    each = fields.take("each", _path_in("spec"), None)
    inside: Reader[Path] = _path if "each" in fields else _path_in("spec")
    _demand(fields, template="template" if "each" in fields else "spec.template")
    if "each" in fields:
        fields.gone("name", "contradicts each, which makes several pod sets (write nameFrom)")
        _demand(fields, nameFrom="name")
    else:
        fields.gone("nameFrom", "belongs to each (write name)")
        _demand(fields, name="main")
    if "each" in fields:
        fields.gone("done", "belongs to one pod set, not to each (leave it out)")
    if "minCount" in fields and "count" not in fields:
        fields.at("minCount").refuse("needs count, where the number of admitted pods is written")
    return PodSetPaths(
        template=fields.take("template", inside, ()),
        name=fields.take("name", shaped(is_dns_label, "the name of a pod set"), ""),
        each=each,
        name_from=fields.take("nameFrom", _path, ()),
        count=fields.take("count", inside, None),
        min_count=fields.take("minCount", inside, None),
        done=fields.take("done", _path_in("status"), None),
    )


def _sign(fields: Section) -> Sign:
    if ("condition" in fields) == ("field" in fields):
        fields.place.refuse("must have either condition or field")
    wanted = [name for name in ("equals", "in", "equalsField") if name in fields]
    if len(wanted) != ("field" in fields):
        fields.place.refuse("must have equals, in or equalsField with field, and none without")
    if "condition" in fields:
        fields.gone("message", "belongs to field (a condition has a message of its own)")
    one = (fields.take("equals", _scalar, None),) if "equals" in fields else ()
    return Sign(
        condition=fields.take("condition", shaped(is_qualified_name, "the type of a condition"), ""),
        field=fields.take("field", _path_in("status"), ()),
        values=one or fields.take("in", list_of(_scalar, least=1), ()),
        equals_field=fields.take("equalsField", _path, ()),
        message=fields.take("message", _path_in("status"), None),
    )


def _scalar(place: Place) -> Any:
    if not isinstance(place.value, str | int):
        raise Refused("is no text, whole number or boolean")
    return place.value
