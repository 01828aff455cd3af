"""Structs encode and decode without loss, and agree with the CRDs."""

from importlib.resources import files
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import batch, codec, core, kueue, quorate, volcano
from quorate.api.batch import Job, decode_template
from quorate.api.core import pod, scheduling, volumes
from quorate.api.crds import KUEUE_FIELDS, QUORATE_FIELDS, VOLCANO_FIELDS, custom_resource_definitions
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta
from quorate.api.volcano import job as volcano_job
from tests.api.objects import instances
from tests.search import examples

KINDS = [
    batch.Job, core.Pod, core.Node, core.Namespace, core.LimitRange, core.PriorityClass,
    core.ResourceQuota, core.RuntimeClass,
    kueue.AdmissionCheck, kueue.ClusterQueue, kueue.Cohort, kueue.LocalQueue, kueue.ResourceFlavor,
    kueue.Workload, kueue.WorkloadPriorityClass, scheduling.Node, pod.Pod,
    volumes.CSINode, volumes.PersistentVolume, volumes.PersistentVolumeClaim, volumes.StorageClass,
    volcano.PodGroup, volcano.Queue, volcano_job.Command, volcano_job.Job,
]  # fmt: skip
QUEUEING_KINDS = [kind for kind in KINDS if kind.__module__ == kueue.__name__]
GANG_KINDS = [volcano.PodGroup, volcano.Queue, volcano_job.Command, volcano_job.Job]
SCHEMAS = {
    definition["spec"]["names"]["kind"]: definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for field_list in (KUEUE_FIELDS, QUORATE_FIELDS, VOLCANO_FIELDS)
    for definition in custom_resource_definitions(
        (files("quorate.api.crds") / field_list).read_text(encoding="utf-8")
    )
}


@examples(30)
@given(st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_encoding_then_decoding_is_the_identity(kind: Any, data: st.DataObject) -> None:
    thing = data.draw(instances(kind))
    assert codec.decode(kind, codec.encode(thing)) == thing
    assert codec.convert(kind, codec.to_builtins(thing)) == thing


@pytest.mark.parametrize("kind", KINDS)
def test_null_equals_absent(kind: Any) -> None:
    """Servers written in other languages send null for empty values."""
    nulls = dict.fromkeys(("labels", "annotations", "finalizers", "ownerReferences", "creationTimestamp"))
    body: dict[str, Any] = {"metadata": {"name": "x", **nulls}, "spec": None, "status": None}
    if kind is kueue.WorkloadPriorityClass:
        body["value"] = 1
        body["description"] = None
    bare = {name: value for name, value in body.items() if name in ("metadata", "value")}
    assert codec.convert(kind, body) == codec.convert(kind, bare | {"metadata": {"name": "x"}})


def test_nulls_are_ignored_at_every_depth() -> None:
    text = """{"metadata": {"name": "x"}, "status": {"conditions": null, "active": 3},
               "spec": {"template": {"spec": {"containers": [{"name": "a", "resources": {"requests": null},
               "ratio": 1.50}], "nodeSelector": null, "volumes": null}}}}"""
    job = codec.decode(Job, text)
    assert (job.status.active, job.status.conditions) == (3, ())
    assert bytes(job.spec.template) == (b'{"spec":{"containers":[{"name":"a","resources":{},"ratio":1.50}]}}')
    assert decode_template(job.spec.template).spec.node_selector == {}


def test_a_wrong_shape_is_rejected_with_its_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Expected `int`, got `str` - at `\$\.status\.active`"):
        codec.decode(Job, b'{"metadata": {"labels": null}, "status": {"active": "many"}}')


def test_a_pod_template_is_copied_with_all_fields() -> None:
    page = b'{"metadata": {"name": "x"}, "spec": {"template": {"spec": {"hostUsers": false}}}}'
    job = codec.decode(Job, page)
    assert bytes(job.spec.template) == b'{"spec": {"hostUsers": false}}'
    assert codec.to_builtins(job)["spec"]["template"] == {"spec": {"hostUsers": False}}


def test_the_controller_is_the_controlling_owner() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": name == "b"}
        for name in "abc"
    ]
    metadata = codec.convert(ObjectMeta, {"ownerReferences": owners})
    assert metadata.controller is not None
    assert metadata.controller.name == "b"
    assert ObjectMeta().controller is None


def disagreements(type_: Any, schema: dict[str, Any], path: str) -> list[str]:
    """Return differences between a struct and the CRD of its kind."""
    arguments = get_args(type_)
    match get_origin(type_):
        case origin if origin is Literal:
            return [] if set(arguments) == set(schema["enum"]) else [f"{path}: other words"]
        case origin if origin in (Union, UnionType):
            return [line for each in arguments for line in disagreements(each, schema, path)]
        case origin if origin is tuple:
            return disagreements(arguments[0], schema["items"], f"{path}[]")
    if not (isinstance(type_, type) and issubclass(type_, msgspec.Struct)) or type_ is ObjectMeta:
        return []
    found = []
    for field in msgspec.structs.fields(type_):
        name, below = field.encode_name, f"{path}.{field.encode_name}"
        if name not in schema["properties"]:
            found.append(f"{below}: unknown to the CRD")
            continue
        inner = schema["properties"][name]
        # In the schema a quantity may be a number, and an empty object gets the defaults of its fields.
        if inner.get("default") not in (None, {}) and str(field.default) != str(inner["default"]):
            found.append(f"{below}: other default")
        found += disagreements(field.type, inner, below)
    return found


@pytest.mark.parametrize("kind", [*QUEUEING_KINDS, *GANG_KINDS, quorate.Reservation])
def test_structs_agree_with_the_crds(kind: Any) -> None:
    found = disagreements(kind, SCHEMAS[kind.__name__], kind.__name__)
    # One type serves both queues, but only cluster queues borrow. Volcano's older CRD of jobs has no default
    # queue, so readers set it.
    known = (".borrowed: unknown to the CRD", "Job.spec.queue: other default")
    assert [line for line in found if not line.endswith(known)] == []


def missing(value: Any, schema: dict[str, Any], path: str) -> list[str]:
    """Return the required fields that ``value`` lacks."""
    if isinstance(value, list):
        return [line for item in value for line in missing(item, schema["items"], f"{path}[]")]
    if not isinstance(value, dict):
        return []
    absent = [f"{path}.{name}" for name in schema.get("required", ()) if name not in value]
    inner = schema.get("properties", {})
    return absent + [
        line
        for name, item in value.items()
        if name in inner and name != "metadata"
        for line in missing(item, inner[name], f"{path}.{name}")
    ]


@examples(30)
@given(st.data())
@pytest.mark.parametrize("kind", [kueue.Workload, kueue.LocalQueue, kueue.ClusterQueue])
def test_required_status_fields_are_encoded(kind: Any, data: st.DataObject) -> None:
    status = next(field for field in msgspec.structs.fields(kind) if field.name == "status")
    written = codec.to_builtins(data.draw(instances(status.type)))
    found = missing(written, SCHEMAS[kind.__name__]["properties"]["status"], "status")
    # The writer must set times and reasons, for which no default is correct.
    assert [line for line in found if not line.endswith((".lastTransitionTime", ".reason"))] == []


def test_defaults_of_a_new_workload_are_not_encoded() -> None:
    workload = Workload(metadata=ObjectMeta(name="x"), spec=kueue.WorkloadSpec(pod_sets=(kueue.PodSet(),)))
    assert codec.encode(workload) == (
        b'{"metadata":{"name":"x"},"spec":{"podSets":[{"name":"main","count":1,"template":{}}]}}'
    )


def test_equal_templates_share_memory() -> None:
    """Both are decoded from different responses, which must not stay in memory."""

    def template(job: str, image: str) -> object:
        text = (
            f'{{"metadata": {{"name": "{job}"}}, "spec": {{"template": {{"spec": {{"image": "{image}"}}}}}}}}'
        )
        return codec.decode(Job, text.encode()).spec.template

    assert template("a", "same") is template("b", "same")
    assert template("a", "same") is not template("a", "other")
