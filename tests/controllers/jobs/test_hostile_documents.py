"""A kind refuses a document without its structure with ``InvalidTemplate``, which becomes an event."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core import Toleration
from quorate.api.field_path import InvalidTemplate
from quorate.api.kueue import PodSet
from quorate.api.names.kueue import QUEUE_NAME, TOPOLOGY_GATE
from quorate.api.quantity import parse_quantity
from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.controllers.jobframework.construct_workload import Priority, construct_workload
from quorate.controllers.jobframework.ensure_one_workload import is_equivalent
from quorate.controllers.jobframework.interface import JobKind, ValidationScope
from quorate.controllers.jobframework.job_plan import JobOptions, ReconcileContext
from quorate.controllers.jobframework.podset_info import PodSetInfo
from quorate.controllers.jobframework.rules import decide
from tests.e2e.kinds import EXAMPLES
from tests.fuzz.mutations import mutate
from tests.fuzz.schemas import ANY

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

Json = dict[str, Any]

DOCUMENTS = 60
ADDED: Json = {"labels": {"a": "b"}, "node_selector": {"pool": "spot"}, "tolerations": (Toleration(key="x"),)}
ADDED["scheduling_gates"] = (TOPOLOGY_GATE,)
OPTIONS = JobOptions(topology=TopologyGates())
CONTEXT = ReconcileContext(
    namespace_managed=True, flavors={}, workload_classes={}, pod_classes={}, ancestor_workloads=None
)


def documents(name: str, spec: Json, status: Json) -> Iterator[Json]:
    """Yield objects with mutated fields, and with the original ones first."""
    metadata = {"name": "train", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    for number in range(DOCUMENTS):
        rng = random.Random(f"{name} {number}")
        fields = {"spec": spec, "status": status}
        yield mutate(fields, ANY, rng, number % 4) | {"metadata": {**metadata, "labels": labels}}


@pytest.mark.parametrize("name", FRAMEWORK_KINDS)
def test_no_document_raises_anything_else(name: str) -> None:
    kind: JobKind[Any] = FRAMEWORK_KINDS[name]
    (example,) = (each for each in EXAMPLES if each.resource == kind.resource)
    originals: tuple[PodSet, ...] | None = None
    planned = 0
    for document in documents(name, example.spec, example.runs):
        try:
            job = codec.convert(kind.resource.type, document)
        except (msgspec.ValidationError, UnicodeError):  # the informer reports it, or no server stores it
            continue
        planned += decide(kind, job, (), CONTEXT, OPTIONS, 0.0) is not None
        with contextlib.suppress(InvalidTemplate):
            originals = originals or kind.pod_sets(job)
        with contextlib.suppress(InvalidTemplate):
            kind.stop(job, originals)
        with contextlib.suppress(InvalidTemplate):
            kind.start(job, [PodSetInfo(name=each.name, count=1, **ADDED) for each in kind.pod_sets(job)])
    assert planned > DOCUMENTS // 3


def as_a_client_with_types_may_not_write(value: Any) -> Any:
    """Return ``value`` with empty fields in each pod spec and container, and its amounts in another form."""
    if isinstance(value, list):
        return [as_a_client_with_types_may_not_write(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {
        name: {resource: other_form(amount) for resource, amount in item.items()}
        if name in ("requests", "limits")
        else as_a_client_with_types_may_not_write(item)
        for name, item in value.items()
    }
    if "containers" in value:
        return {"initContainers": [], "affinity": None, "overhead": {}, "hostNetwork": False} | fields
    return (
        {"env": [], "command": None, "tty": False, "securityContext": {}} | fields
        if "image" in value
        else fields
    )


def other_form(amount: Any) -> Any:
    nanos = parse_quantity(amount).nanos
    return nanos / 10**9 if nanos % 10**9 else nanos // 10**9


@pytest.mark.parametrize("name", sorted(FRAMEWORK_KINDS.keys() - {"trainer.kubeflow.org/trainjob"}))
def test_empty_fields_and_amounts_in_another_form_are_no_change(name: str) -> None:
    kind: JobKind[Any] = FRAMEWORK_KINDS[name]
    (example,) = (each for each in EXAMPLES if each.resource == kind.resource)
    metadata = {"name": "train", "namespace": "default", "uid": "u", "labels": {QUEUE_NAME: "queue"}}
    old, new = (
        codec.convert(kind.resource.type, {"metadata": metadata, "spec": spec, "status": {}})
        for spec in (example.spec, as_a_client_with_types_may_not_write(example.spec))
    )
    workload = construct_workload(kind.resource, old.metadata, kind.pod_sets(old), Priority(0, None), ())
    assert is_equivalent(workload, kind.pod_sets(new), None, suspended=True, placement=True)
    scope = ValidationScope(queued=True, elastic=False)
    assert set(kind.findings(old, new, scope)) == set(kind.findings(old, old, scope))
