"""Validation of the pod template of a Volcano Job's task, about which the CRD's schema knows nothing.

Only what no pod may lack: the API server validates all of it when it gets the pods, but then the job exists
and waits.  Source: the validation of pod templates in Kubernetes (1.36), which Volcano's webhook (1.15) runs.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from quorate.api.batch import decode_template
from quorate.api.core import Container, PodTemplate
from quorate.api.findings import Finding
from quorate.api.quantity import Quantity
from quorate.api.syntax import is_dns_label
from quorate.api.validation.fields import Findings, template_resources
from quorate.api.validation.pod_groups import amount_findings

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_ONE_CPU: Final = Quantity(1_000_000_000)


def pod_template_findings(path: str, raw: msgspec.Raw) -> Findings:
    """Validate containers, restart policy and amounts of the template at ``path``."""
    try:
        template = decode_template(raw)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        yield Finding(f"{path}{place.rstrip('`')}", None, f"cannot be read: {problem}")
        return
    yield from _containers(f"{path}.spec", template)
    if template.spec.restart_policy not in RESTART_POLICIES:
        rule = f"is not a restart policy of pods (write {', '.join(RESTART_POLICIES)})"
        yield Finding(f"{path}.spec.restartPolicy", template.spec.restart_policy, rule)
    for where, resources in template_resources(path, template):
        yield from amount_findings(f"{where}.requests", resources.requests)
        yield from amount_findings(f"{where}.limits", resources.limits)


def whole_cpu_findings(path: str, raw: msgspec.Raw) -> Findings:
    """Validate that each container requests whole CPUs, as NUMA nodes are chosen for such pods only."""
    try:
        template = decode_template(raw)
    except msgspec.ValidationError:
        return  # ``pod_template_findings`` reports it
    for where, container in _all_containers(f"{path}.spec", template):
        resources = container.resources
        cpu = (resources.requests or resources.limits).get("cpu", Quantity(0))
        if not cpu.nanos or cpu.nanos % _ONE_CPU.nanos:
            rule = "must be whole CPUs for a topologyPolicy (write 1, 2, ... or leave topologyPolicy out)"
            yield Finding(f"{where}.resources.requests.cpu", str(cpu), rule)


def _containers(path: str, template: PodTemplate) -> Findings:
    if not template.spec.containers:
        yield Finding(f"{path}.containers", [], "is empty, must list at least one container")
    seen: dict[str, str] = {}
    for where, container in _all_containers(path, template):
        name = container.name
        if not is_dns_label(name):
            rule = "is not the name of a container (at most 63 lower case letters, digits and '-')"
            yield Finding(f"{where}.name", name, rule)
        elif name in seen:
            yield Finding(f"{where}.name", name, f"is given already in {seen[name]} (name it otherwise)")
        seen.setdefault(name, where)
        if not container.image.strip():
            yield Finding(f"{where}.image", container.image, "is missing (write the image to run)")


def _all_containers(path: str, template: PodTemplate) -> Iterable[tuple[str, Container]]:
    for field, containers in (
        ("initContainers", template.spec.init_containers),
        ("containers", template.spec.containers),
    ):
        for at, container in enumerate(containers):
            yield f"{path}.{field}[{at}]", container
