"""sparkoperator.k8s.io SparkApplication: a driver and its executors.

There are no complete pod templates.  The template of the pods is composed, as the operator does it, of the
optional template of the driver or executor and of the fields beside it.  Spark adds an overhead to memory.
An application that states no memory gets Spark's default, which is not counted.
"""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from quorate.api.field_path import (
    InvalidTemplate,
    Path,
    look_up,
    read_count,
    read_entries,
    read_field,
    write_field,
)
from quorate.api.findings import Finding
from quorate.api.kueue import PodSet
from quorate.api.quantity import InvalidQuantity, parse_quantity
from quorate.controllers.jobframework.interface import EndStatus, Outcome, ValidationScope
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject, read_template
from quorate.controllers.jobs.unstructured import (
    PodSetSpec,
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
_SELECTOR: Final[Path] = ("spec", "nodeSelector")
_RESTART_POLICY: Final[Path] = ("spec", "restartPolicy")
_DYNAMIC: Final[Path] = ("spec", "dynamicAllocation")
_GATES: Final[Path] = ("template", "spec", "schedulingGates")
_CORES: Final = 1  # Spark's default
_STATE: Final[Path] = ("status", "applicationState", "state")
_JAVA_MEMORY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([bkmgtp]?)b?", re.IGNORECASE)
_JAVA_UNITS: Final = {"b": "", "k": "Ki", "": "Mi", "m": "Mi", "g": "Gi", "t": "Ti", "p": "Pi"}
_FACTOR: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_MEBIBYTE: Final = 2**20
_LEAST_OVERHEAD_MIB: Final = 384
_OVERHEAD_FACTOR: Final = Fraction(1, 10)  # Spark's default
_OVERHEAD_FACTOR_OUTSIDE_JVM: Final = Fraction(4, 10)  # of applications in Python or R
# States in which the application may have pods; a suspension ends in SUSPENDED.
_ACTIVE: Final = frozenset(
    {"SUBMITTED", "RUNNING", "SUCCEEDING", "FAILING", "INVALIDATING", "SUSPENDING", "UNKNOWN"}
)


class SparkApplication(UnstructuredJobKind):
    supports_prebuilt = False

    def __init__(self) -> None:
        super().__init__(
            unstructured_resource("sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication")
        )

    def findings(
        self, old: UnstructuredJob | None, new: UnstructuredJob, scope: ValidationScope
    ) -> Iterable[Finding]:
        return _findings(new) if scope.queued else ()

    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        return (
            PodSetSpec(
                "driver",
                (*_DRIVER, "template"),
                1,
                effective_template=_template(job.document, _DRIVER),
                injection_path=_DRIVER,
            ),
            PodSetSpec(
                "executor",
                (*_EXECUTOR, "template"),
                _most_executors(job),
                count_field=(*_EXECUTOR, "instances"),
                effective_template=_template(job.document, _EXECUTOR),
                injection_path=_EXECUTOR,
            ),
        )

    def is_active(self, job: UnstructuredJob) -> bool:
        return _state(job) in _ACTIVE

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        if _state(job) not in ("COMPLETED", "FAILED", "SUBMISSION_FAILED") or _is_retried(job):
            return None
        message = read_field(job.document, ("status", "applicationState", "errorMessage"), str, "")
        return Outcome(_state(job) == "COMPLETED", message)

    def end_status(self, job: UnstructuredJob, outcome: Outcome) -> EndStatus | None:
        """Return the status; an application that failed has no retries left, and ``Always`` has no end."""
        policy = read_field(job.document, _RESTART_POLICY, dict, {})
        if outcome.success:
            return EndStatus(fields={"applicationState": {"state": "COMPLETED"}})
        if policy.get("type") == "Always":
            return None
        attempts = 1 + read_count(job.document, (*_RESTART_POLICY, "onFailureRetries"), 0)
        state = {"state": "FAILED", "errorMessage": outcome.message}
        return EndStatus(fields={"applicationState": state, "executionAttempts": attempts})

    def reports_ready(self, job: UnstructuredJob) -> bool:
        """Return True if driver and executors run; the state RUNNING covers the driver only."""
        states: Mapping[str, Any] = read_field(job.document, ("status", "executorState"), dict, {})
        wanted = read_count(job.document, (*_EXECUTOR, "instances"), 0)
        if look_up(job.document, (*_DYNAMIC, "enabled")) is True:  # Spark ends idle ones
            wanted = read_count(job.document, (*_DYNAMIC, "minExecutors"), wanted)
        ready = sum(1 for state in states.values() if state in ("RUNNING", "COMPLETED"))
        return _state(job) == "RUNNING" and ready >= wanted

    def inject(self, document: Json, spec: PodSetSpec, info: PodSetInfo) -> InjectionConflict | None:
        injected = inject(raw(_view(document, spec)), info)
        if isinstance(injected, InjectionConflict):
            return injected
        if look_up(injected, ("spec", "nodeSelector")):
            _divide_common_selector(document)
        _write(document, spec, merged(_view(document, spec), injected))
        return None

    def restore(self, document: Json, spec: PodSetSpec, original: PodSet) -> None:
        """Remove only what was added: the original pod set also has the fields of the template."""
        view = _view(document, spec)
        before = read_template(original.template)
        for section, name in (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector")):
            kept = look_up(before, (section, name)) or {}
            view[section][name] = {key: kept[key] for key in view[section][name] if key in kept}
        kept_tolerations = look_up(before, ("spec", "tolerations")) or []
        view["spec"]["tolerations"] = [
            toleration for toleration in view["spec"]["tolerations"] if toleration in kept_tolerations
        ]
        kept_gates = look_up(before, ("spec", "schedulingGates")) or []
        view["spec"]["schedulingGates"] = [
            gate for gate in view["spec"]["schedulingGates"] if gate in kept_gates
        ]
        _write(document, spec, view)
        # Spark's API rejects 0 for a number of executors that was absent.
        if spec.count_field is not None and original.count != spec.count:
            write_field(document, spec.count_field, original.count)


def _state(job: UnstructuredJob) -> str:
    return read_field(job.document, _STATE, str, "")


def _first_executors(job: UnstructuredJob) -> int:
    """Return with how many executors the application starts; it may give up idle ones later."""
    stated = read_count(job.document, (*_EXECUTOR, "instances"), 0)
    if look_up(job.document, (*_DYNAMIC, "enabled")) is not True:
        return stated
    return max(
        stated,
        *(read_count(job.document, (*_DYNAMIC, name), 0) for name in ("initialExecutors", "minExecutors")),
    )


def _most_executors(job: UnstructuredJob) -> int:
    """Return how many executors may run at once.  Raises ``InvalidTemplate`` if there is no limit."""
    if look_up(job.document, (*_DYNAMIC, "enabled")) is not True:
        return _first_executors(job)
    limit: Path = (*_DYNAMIC, "maxExecutors")
    if look_up(job.document, limit) is None:
        raise InvalidTemplate(limit, "is missing: quota is needed for all executors that may run at once")
    return max(_first_executors(job), read_count(job.document, limit, 0))


def _is_retried(job: UnstructuredJob) -> bool:
    """Return True if the operator submits the failed application again, with the same quota."""
    retries, attempts = {
        "FAILED": ("onFailureRetries", "executionAttempts"),
        "SUBMISSION_FAILED": ("onSubmissionFailureRetries", "submissionAttempts"),
    }.get(_state(job), ("", ""))
    if not retries:
        return False
    match read_field(job.document, (*_RESTART_POLICY, "type"), str, "Never"):
        case "Always":
            return True
        case "OnFailure":
            allowed = read_count(job.document, (*_RESTART_POLICY, retries), 0)
            return allowed > 0 and read_count(job.document, ("status", attempts), 1) <= allowed
        case _:
            return False


def _template(document: Json, path: Path) -> Json:
    """Return the pod template of the driver or the executors, as the operator composes it."""
    role = str(path[-1])
    own: Path = (*path, "template")
    template = copy.deepcopy(read_field(document, own, dict, {}))
    metadata = template["metadata"] = dict(read_field(document, (*own, "metadata"), dict, {}))
    spec = template["spec"] = dict(read_field(document, (*own, "spec"), dict, {}))
    for name in ("labels", "annotations"):
        stated = read_field(document, (*own, "metadata", name), dict, {})
        metadata[name] = {**stated, **read_field(document, (*path, name), dict, {})}
    selector = read_field(document, (*own, "spec", "nodeSelector"), dict, {})
    spec["nodeSelector"] = {**selector, **_node_selector(document, path)}
    for name in ("tolerations", "initContainers"):
        spec[name] = [*read_entries(document, (*own, "spec", name)), *read_entries(document, (*path, name))]
    if priority_class := read_field(document, (*path, "priorityClassName"), str, ""):
        spec["priorityClassName"] = priority_class
    containers = copy.deepcopy(read_entries(document, (*own, "spec", "containers"))) or [
        {"name": _CONTAINER[role]}
    ]
    container = next((each for each in containers if each.get("name") == _CONTAINER[role]), containers[0])
    resources = container.get("resources")
    own_resources = resources if isinstance(resources, dict) else {}
    container["resources"] = merged(own_resources, _resources(document, path))
    spec["containers"] = [*containers, *read_entries(document, (*path, "sidecars"))]
    return template


def _resources(document: Json, path: Path) -> Json:
    def text(name: str) -> str:
        return read_field(document, (*path, name), str, "")

    cores = text("coreRequest") or str(read_count(document, (*path, "cores"), _CORES))
    requests = {"cpu": cores, "memory": _memory_with_overhead(document, path, text("memory"))}
    limits = {"cpu": text("coreLimit"), "memory": _memory(text("memoryLimit"))}
    gpu = read_field(document, (*path, "gpu", "name"), str, "")
    quantity = read_field(document, (*path, "gpu", "quantity"), int, 0)
    if gpu and quantity > 0:
        limits[gpu] = str(quantity)
    parts = {"requests": requests, "limits": limits}
    stated = {part: {name: each for name, each in of.items() if each} for part, of in parts.items()}
    return {part: of for part, of in stated.items() if of}


def _memory(text: str) -> str:
    """Convert Java's notation, in which ``512m`` and ``512`` mean 512 MiB, to that of Kubernetes."""
    parsed = _JAVA_MEMORY.fullmatch(text)
    return text if parsed is None else parsed[1] + _JAVA_UNITS[parsed[2].lower()]


def _memory_with_overhead(document: Json, path: Path, text: str) -> str:
    """Return the memory that Spark requests for a pod; empty if none is stated.

    Spark counts in whole MiB.  Without a stated overhead it adds a part of the memory, at least 384 MiB.
    """
    if not text:
        return ""
    memory_mib = _mebibytes((*path, "memory"), text)
    if stated := read_field(document, (*path, "memoryOverhead"), str, ""):
        return f"{memory_mib + _mebibytes((*path, 'memoryOverhead'), stated)}Mi"
    overhead_mib = int(memory_mib * _overhead_factor(document, path))
    return f"{memory_mib + max(overhead_mib, _LEAST_OVERHEAD_MIB)}Mi"


def _mebibytes(path: Path, text: str) -> int:
    try:
        return parse_quantity(_memory(text)).units // _MEBIBYTE
    except InvalidQuantity as invalid:
        raise InvalidTemplate(path, str(invalid)) from invalid


def _overhead_factor(document: Json, path: Path) -> Fraction:
    own: Path = (*path, "memoryOverheadFactor")
    common: Path = ("spec", "memoryOverheadFactor")
    text = read_field(document, own, str, "") or read_field(document, common, str, "")
    if not text:
        is_jvm = look_up(document, ("spec", "type")) not in ("Python", "R")
        return _OVERHEAD_FACTOR if is_jvm else _OVERHEAD_FACTOR_OUTSIDE_JVM
    if _FACTOR.fullmatch(text) is None:
        raise InvalidTemplate(common, f"is {text!r}, not a decimal number such as 0.1")
    return Fraction(text)


def _selector_path(document: Json, path: Path) -> Path:
    """Return the path of the common node selector if ``document`` has one, otherwise ``path``."""
    return _SELECTOR if look_up(document, _SELECTOR) is not None else (*path, "nodeSelector")


def _divide_common_selector(document: Json) -> None:
    """Give driver and executors their own node selectors, which a common one excludes: flavors may differ."""
    common = look_up(document, _SELECTOR)
    if common is not None:
        write_field(document, _SELECTOR, None)
        for path in (_DRIVER, _EXECUTOR):
            write_field(document, (*path, "nodeSelector"), dict(common))


def _node_selector(document: Json, path: Path) -> Json:
    return read_field(document, _selector_path(document, path), dict, {})


def _injection_path(spec: PodSetSpec) -> Path:
    assert spec.injection_path is not None, f"{spec.name} has no fields of its own"
    return spec.injection_path


def _view(document: Json, spec: PodSetSpec) -> Json:
    """Return the fields that admission changes in the form of a pod template."""
    path = _injection_path(spec)
    return {
        "metadata": {
            name: read_field(document, (*path, name), dict, {}) for name in ("labels", "annotations")
        },
        "spec": {
            "nodeSelector": _node_selector(document, path),
            "tolerations": read_entries(document, (*path, "tolerations")),
            "schedulingGates": read_entries(document, (*path, *_GATES)),
        },
    }


def _write(document: Json, spec: PodSetSpec, view: Json) -> None:
    path = _injection_path(spec)
    metadata, template_spec = view.get("metadata", {}), view.get("spec", {})
    for name in ("labels", "annotations"):
        write_field(document, (*path, name), metadata.get(name) or None)
    write_field(document, (*path, "tolerations"), template_spec.get("tolerations") or None)
    write_field(document, _selector_path(document, path), template_spec.get("nodeSelector") or None)
    _write_gates(document, path, template_spec.get("schedulingGates") or None)


def _write_gates(document: Json, path: Path, gates: list[Json] | None) -> None:
    """Write scheduling gates, which only a template can have; one made for them ends with them."""
    own: Path = (*path, "template")
    if gates is None and look_up(document, (*path, *_GATES)) is None:
        return
    made = {"containers": [{"name": _CONTAINER[str(path[-1])]}]}  # a template needs one
    if look_up(document, own) is None:
        write_field(document, own, {"spec": dict(made)})
    write_field(document, (*path, *_GATES), gates)
    if look_up(document, own) == {"spec": {**made, "schedulingGates": None}}:
        write_field(document, own, None)


def _findings(job: UnstructuredJob) -> Iterator[Finding]:
    mode = look_up(job.document, ("spec", "mode"))
    if mode != "cluster":
        yield Finding("spec.mode", mode, "only Cluster mode is supported for a kueue managed job")
    if look_up(job.document, (*_DYNAMIC, "enabled")):
        rule = "a kueue managed job should not use dynamicAllocation: its executors are admitted together"
        yield Finding("spec.dynamicAllocation.enabled", True, rule)
