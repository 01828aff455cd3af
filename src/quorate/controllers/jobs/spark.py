"""sparkoperator.k8s.io SparkApplication: a driver and its executors.

There are no complete pod templates.  The template of the pods is composed, as the operator does it, of the
optional template of the driver or executor, of the fields beside it and of Spark's properties.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from quorate.api.field_path import Path, look_up, read_count, read_entries, read_field, write_field
from quorate.api.findings import Finding
from quorate.api.kueue import PodSet
from quorate.controllers.jobframework.interface import EndStatus, Outcome, ValidationScope
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject, read_template
from quorate.controllers.jobs.spark_properties import (
    DRIVER,
    DYNAMIC,
    EXECUTOR,
    least_executors,
    most_executors,
    properties_below,
    resources,
)
from quorate.controllers.jobs.unstructured import (
    PodSetSpec,
    UnstructuredJob,
    UnstructuredJobKind,
    raw,
    unstructured_resource,
)
from quorate.kube.patches import merged
from quorate.kube.resources import Json

_CONTAINER: Final = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
_SELECTOR: Final[Path] = ("spec", "nodeSelector")
_RESTART_POLICY: Final[Path] = ("spec", "restartPolicy")
_GATES: Final[Path] = ("template", "spec", "schedulingGates")
_STATE: Final[Path] = ("status", "applicationState", "state")
# States in which the application may have pods, or is submitted; a suspension ends in SUSPENDED.
_ACTIVE: Final = frozenset(
    {
        "SUBMITTED", "RUNNING", "SUCCEEDING", "FAILING", "INVALIDATING", "SUSPENDING", "UNKNOWN",
        "RESUMING", "PENDING_RERUN",
    }
)  # fmt: skip


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
                (*DRIVER, "template"),
                1,
                effective_template=_template(job.document, DRIVER),
                injection_path=DRIVER,
            ),
            PodSetSpec(
                "executor",
                (*EXECUTOR, "template"),
                most_executors(job.document),
                count_field=(*EXECUTOR, "instances"),
                effective_template=_template(job.document, EXECUTOR),
                injection_path=EXECUTOR,
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
        ready = sum(1 for state in states.values() if state in ("RUNNING", "COMPLETED"))
        return _state(job) == "RUNNING" and ready >= least_executors(job.document)

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
    spec["nodeSelector"] = {
        **read_field(document, (*own, "spec", "nodeSelector"), dict, {}),
        **properties_below(document, "spark.kubernetes.node.selector."),
        **properties_below(document, f"spark.kubernetes.{role}.node.selector."),
        **_node_selector(document, path),
    }
    tolerations = read_entries(document, (*own, "spec", "tolerations"))
    spec["tolerations"] = [*tolerations, *read_entries(document, (*path, "tolerations"))]
    spec["initContainers"] = _with_containers(
        read_entries(document, (*own, "spec", "initContainers")), document, (*path, "initContainers")
    )
    if priority_class := read_field(document, (*path, "priorityClassName"), str, ""):
        spec["priorityClassName"] = priority_class
    containers = copy.deepcopy(read_entries(document, (*own, "spec", "containers"))) or [
        {"name": _CONTAINER[role]}
    ]
    container = next((entry for entry in containers if entry.get("name") == _CONTAINER[role]), containers[0])
    template_resources = container.get("resources")
    own_resources = template_resources if isinstance(template_resources, dict) else {}
    stated = resources(document, path)
    if look_up(own_resources, ("limits", "memory")) is not None:  # Spark replaces it by the request
        stated = merged({"limits": {"memory": stated["requests"]["memory"]}}, stated)
    container["resources"] = merged(own_resources, stated)
    spec["containers"] = _with_containers(containers, document, (*path, "sidecars"))
    return template


def _with_containers(containers: list[Json], document: Json, path: Path) -> list[Json]:
    """Return ``containers`` and those at ``path``; the operator adds none with a name and image there are."""
    present = {(container.get("name"), container.get("image")) for container in containers}
    added = read_entries(document, path)
    return [
        *containers,
        *(entry for entry in added if (entry.get("name"), entry.get("image")) not in present),
    ]


def _selector_path(document: Json, path: Path) -> Path:
    """Return the path of the common node selector if ``document`` has one, otherwise ``path``."""
    return _SELECTOR if look_up(document, _SELECTOR) is not None else (*path, "nodeSelector")


def _divide_common_selector(document: Json) -> None:
    """Give driver and executors their own node selectors, which a common one excludes: flavors may differ."""
    common = look_up(document, _SELECTOR)
    if common is not None:
        write_field(document, _SELECTOR, None)
        for path in (DRIVER, EXECUTOR):
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
    if look_up(job.document, (*DYNAMIC, "enabled")):
        rule = "a kueue managed job should not use dynamicAllocation: its executors are admitted together"
        yield Finding("spec.dynamicAllocation.enabled", True, rule)
