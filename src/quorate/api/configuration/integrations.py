"""Configuration of job kinds: enabled integrations, and kinds declared by field paths."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from quorate.api.decoding import strict as d
from quorate.api.field_path import InvalidPath, Path, parse_path
from quorate.api.syntax import is_dns_label, is_dns_subdomain, is_qualified_name

VOLCANO_JOB: Final = "batch.volcano.sh/job"
VOLCANO_POD_GROUP: Final = "scheduling.volcano.sh/podgroup"
FRAMEWORKS: Final = (
    VOLCANO_JOB, "batch/job", "deployment", "jobset.x-k8s.io/jobset", "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob", "kubeflow.org/paddlejob", "kubeflow.org/pytorchjob", "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob", "leaderworkerset.x-k8s.io/leaderworkerset", "pod", "ray.io/raycluster",
    "ray.io/rayjob", "ray.io/rayservice", VOLCANO_POD_GROUP, "sparkoperator.k8s.io/sparkapplication",
    "statefulset",
    "trainer.kubeflow.org/trainjob", "workload.codeflare.dev/appwrapper",
)  # fmt: skip
SPARK: Final = "sparkoperator.k8s.io/sparkapplication"

_POD_OPTIONS: Final = d.ignored_section(
    {"namespaceSelector": d.label_selector, "podSelector": d.label_selector}
)
_EXTERNAL_FRAMEWORK: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*\.v[0-9][a-z0-9]*\.[a-z0-9][-a-z0-9.]*")
_VERSION: Final = re.compile(r"v[0-9][a-z0-9]*")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")


class PodSetPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of one pod set of a job kind, or with ``each`` of one pod set per entry of a list.

    With ``each``, the other paths start at the entry, otherwise at the object.
    """

    template: Path
    name: str = ""  # empty with ``each``, where ``name_from`` is used
    each: Path | None = None
    name_from: Path = ()
    count: Path | None = None  # None: one pod
    min_count: Path | None = None
    done: Path | None = None  # path of the status field that counts finished pods


class StatusCheck(msgspec.Struct, frozen=True, kw_only=True):
    """How the status shows a state: a true condition, or a field with a certain value.

    The value is one of ``values``, or the value at ``equals_field``.
    """

    condition: str = ""
    field: Path = ()
    values: tuple[Any, ...] = ()
    equals_field: Path = ()
    message: Path | None = None  # path of a message; a condition has its own message


class SuspendField(msgspec.Struct, frozen=True, kw_only=True):
    """The field that suspends a job, with its values for suspended and running jobs."""

    field: Path
    stopped: Any = True
    running: Any = False


class DeclaredFramework(msgspec.Struct, frozen=True, kw_only=True):
    """A job kind described by the paths of its fields."""

    group: str
    version: str
    kind: str
    plural: str
    suspend: SuspendField
    pod_sets: tuple[PodSetPaths, ...]
    ready: StatusCheck
    succeeded: StatusCheck | None = None  # None: such a job never succeeds
    failed: StatusCheck | None = None
    priority_class: Path | None = None
    active: Path | None = None  # None: a suspended job holds no capacity

    @property
    def name(self) -> str:
        """Return Kueue's name of the framework."""
        return f"{self.group}/{self.kind.lower()}"


class ExternalFramework(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that an external controller queues, and that may own jobs of kinds queued here."""

    group: str
    version: str
    kind: str

    @property
    def name(self) -> str:
        """Return Kueue's name of the framework."""
        return f"{self.group}/{self.kind.lower()}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


class Integrations(msgspec.Struct, frozen=True, kw_only=True):
    frameworks: tuple[str, ...] = ("batch/job", VOLCANO_JOB, VOLCANO_POD_GROUP)
    declared: tuple[DeclaredFramework, ...] = ()
    external: tuple[ExternalFramework, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()


def decode_integrations(version: str) -> d.Decoder[Integrations]:
    def decode_fields(fields: d.Section) -> Integrations:
        if version == "v1beta1" and "podOptions" in fields:
            fields.at("podOptions").warn("is checked but not honoured (write managedJobsNamespaceSelector)")
            fields.take("podOptions", _POD_OPTIONS, None)
        frameworks = fields.take_set("frameworks", _frameworks, Integrations().frameworks)
        declared = fields.take("declaredFrameworks", _declared_frameworks(frameworks), ())
        queued = [*frameworks, *(framework.name for framework in declared)]
        return Integrations(
            frameworks=frameworks,
            declared=declared,
            external=fields.take("externalFrameworks", _external_frameworks(queued), ()),
            label_keys_to_copy=fields.take(
                "labelKeysToCopy", d.list_of(d.text_matching(is_qualified_name, "the key of a label")), ()
            ),
        )

    return d.section(decode_fields)


def _external_frameworks(queued: Sequence[str]) -> d.Decoder[tuple[ExternalFramework, ...]]:
    def decode(field: d.Field) -> tuple[ExternalFramework, ...]:
        external = d.list_of(external_framework)(field)
        if len(external) == len(field.value):  # otherwise the indexes do not match
            for index, framework in enumerate(external):
                if framework.name in (*queued, *(declared.name for declared in external[:index])):
                    field.items()[index].reject("is queued already (keep one)")
        return external

    return decode


def external_framework(field: d.Field) -> ExternalFramework:
    """Decode ``Kind.version.group``."""
    if _EXTERNAL_FRAMEWORK.fullmatch(d.text(field)) is None:
        raise d.InvalidValue("does not name a kind (write Kind.version.group)")
    kind, version, group = d.text(field).split(".", 2)
    return ExternalFramework(group=group, version=version, kind=kind)


def _frameworks(field: d.Field) -> tuple[str, ...]:
    names = d.list_of(d.choice(FRAMEWORKS), minimum=1)(field)
    for index, item in enumerate(field.items()):
        if item.value in field.value[:index]:
            item.reject("is listed twice (keep one)")
    return names


def _declared_frameworks(frameworks: tuple[str, ...]) -> d.Decoder[tuple[DeclaredFramework, ...]]:
    def decode(field: d.Field) -> tuple[DeclaredFramework, ...]:
        declared = d.list_of(d.section(_declared_framework))(field)
        names = [*frameworks, *(framework.name for framework in declared)]
        if len(declared) == len(field.value):  # otherwise the indexes do not match
            for index, framework in enumerate(declared):
                if framework.kind and framework.name in names[: len(frameworks) + index]:
                    item = field.items()[index].entry("kind")
                    item.reject(f"makes {framework.name}, which is queued already (keep one)")
        return declared

    return decode


def _declared_framework(fields: d.Section) -> DeclaredFramework:
    _require(fields, apiVersion="example.com/v1", kind="Training", plural="trainings", suspend="spec.suspend")
    _require(fields, podSets="a list", ready="{condition: Running}")
    group, version = fields.take("apiVersion", _api_version, ("", ""))
    return DeclaredFramework(
        group=group,
        version=version,
        kind=fields.take(
            "kind", d.text_matching(lambda name: _KIND.fullmatch(name) is not None, "a kind"), ""
        ),
        plural=fields.take(
            "plural", d.text_matching(is_dns_label, "the plural of a kind, in lower case"), ""
        ),
        suspend=fields.take("suspend", _suspend_field, SuspendField(field=())),
        pod_sets=fields.take("podSets", d.list_of(d.section(_pod_set), minimum=1), ()),
        ready=fields.take("ready", d.section(_status_check), StatusCheck()),
        succeeded=fields.take("succeeded", d.section(_status_check), None),
        failed=fields.take("failed", d.section(_status_check), None),
        active=fields.take("active", _path_in("status"), None),
        priority_class=fields.take("priorityClass", _path_in("spec"), None),
    )


def _suspend_field(field: d.Field) -> SuspendField:
    """Decode the path of a boolean field, or a field with its two values."""
    if isinstance(field.value, str):
        return SuspendField(field=_path_in("spec")(field))
    return d.section(_suspend_field_section)(field)


def _suspend_field_section(fields: d.Section) -> SuspendField:
    _require(fields, field="spec.state", stopped="Stopped", running="Running")
    switch = SuspendField(
        field=fields.take("field", _path_in("spec"), ()),
        stopped=fields.take("stopped", _scalar, True),
        running=fields.take("running", _scalar, False),
    )
    if switch.stopped == switch.running:
        fields.field.reject("has the same value for stopped and running")
    return switch


def _require(fields: d.Section, **examples: str) -> None:
    for name, example in examples.items():
        if name not in fields:
            fields.at(name).reject(f"is missing (write {example})")


def _api_version(field: d.Field) -> tuple[str, str]:
    group, _, version = d.text(field).rpartition("/")
    if not is_dns_subdomain(group) or _VERSION.fullmatch(version) is None:
        raise d.InvalidValue("is not the apiVersion of a custom resource (write example.com/v1)")
    return group, version


def _path(field: d.Field) -> Path:
    try:
        return parse_path(d.text(field))
    except InvalidPath as invalid:
        raise d.InvalidValue(
            "is not a path (write names joined by dots, such as spec.groups[0].size)"
        ) from invalid


def _path_in(part: str) -> d.Decoder[Path]:
    def decode(field: d.Field) -> Path:
        path = _path(field)
        if path[0] != part or len(path) == 1:
            raise d.InvalidValue(f"does not lead into {part} (write {part}, a dot and names)")
        return path

    return decode


def _pod_set(fields: d.Section) -> PodSetPaths:
    items = fields.take("each", _path_in("spec"), None)
    inside: d.Decoder[Path] = _path if "each" in fields else _path_in("spec")
    _require(fields, template="template" if "each" in fields else "spec.template")
    if "each" in fields:
        fields.reject_if_present("name", "contradicts each, which makes several pod sets (write nameFrom)")
        _require(fields, nameFrom="name")
    else:
        fields.reject_if_present("nameFrom", "belongs to each (write name)")
        _require(fields, name="main")
    if "each" in fields:
        fields.reject_if_present("done", "belongs to one pod set, not to each (leave it out)")
    if "minCount" in fields and "count" not in fields:
        fields.at("minCount").reject("needs count, where the number of admitted pods is written")
    return PodSetPaths(
        template=fields.take("template", inside, ()),
        name=fields.take("name", d.text_matching(is_dns_label, "the name of a pod set"), ""),
        each=items,
        name_from=fields.take("nameFrom", _path, ()),
        count=fields.take("count", inside, None),
        min_count=fields.take("minCount", inside, None),
        done=fields.take("done", _path_in("status"), None),
    )


def _status_check(fields: d.Section) -> StatusCheck:
    if ("condition" in fields) == ("field" in fields):
        fields.field.reject("must have either condition or field")
    wanted = [name for name in ("equals", "in", "equalsField") if name in fields]
    if len(wanted) != ("field" in fields):
        fields.field.reject("must have equals, in or equalsField with field, and none without")
    if "condition" in fields:
        fields.reject_if_present("message", "belongs to field (a condition has a message of its own)")
    one = (fields.take("equals", _scalar, None),) if "equals" in fields else ()
    return StatusCheck(
        condition=fields.take("condition", d.text_matching(is_qualified_name, "the type of a condition"), ""),
        field=fields.take("field", _path_in("status"), ()),
        values=one or fields.take("in", d.list_of(_scalar, minimum=1), ()),
        equals_field=fields.take("equalsField", _path, ()),
        message=fields.take("message", _path_in("status"), None),
    )


def _scalar(field: d.Field) -> Any:
    if not isinstance(field.value, str | int):
        raise d.InvalidValue("is not text, a whole number or a boolean")
    return field.value
