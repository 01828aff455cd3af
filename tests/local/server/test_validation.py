"""What the built-in kinds refuse: each case names the field and the kind of finding."""

from typing import Any

import pytest

from quorate.local.server.defaults import jobs as job_defaults
from quorate.local.server.defaults import pods as pod_defaults
from quorate.local.server.errors import Cause
from quorate.local.server.kinds import Kind
from quorate.local.server.validation import jobs, limits, metadata, names, pod_updates, pods

Json = dict[str, Any]


def show(causes: list[Cause]) -> list[str]:
    return [f"{cause.field} {cause.reason.removeprefix('FieldValue')}" for cause in causes]


def a_pod(*containers: Json, **spec: Any) -> Json:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": list(containers) or [a_container()], **spec}}
    pod_defaults.default(pod)
    return pod


def a_container(name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": "b", **fields}


def asking(requests: Json, limits: Json | None = None) -> Json:
    return a_container(resources={"requests": requests} | ({"limits": limits} if limits else {}))


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(), [], id="nothing wrong"),
        pytest.param({"spec": {}}, ["spec.containers Required"], id="no containers"),
        pytest.param(a_pod({"name": "a"}), ["spec.containers[0].image Required"], id="no image"),
        pytest.param(
            a_pod(a_container("a"), a_container("a")),
            ["spec.containers[1].name Duplicate"],
            id="one name twice",
        ),
        pytest.param(
            a_pod(initContainers=[a_container()]),
            ["spec.initContainers[0].name Duplicate"],
            id="init containers share the names",
        ),
        pytest.param(
            a_pod(asking({"cpu": "2"}, {"cpu": "1"})),
            ["spec.containers[0].resources.requests Invalid"],
            id="more asked for than allowed",
        ),
        pytest.param(
            a_pod(asking({"example.com/gpu": "1"})),
            ["spec.containers[0].resources.limits Required"],
            id="a device without a limit",
        ),
        pytest.param(
            a_pod(asking({"example.com/gpu": "500m"}, {"example.com/gpu": "500m"})),
            [
                "spec.containers[0].resources.limits[example.com/gpu] Invalid",
                "spec.containers[0].resources.requests[example.com/gpu] Invalid",
            ],
            id="half a device",
        ),
        pytest.param(
            a_pod(a_container(volumeMounts=[{"name": "v", "mountPath": "/v"}])),
            ["spec.containers[0].volumeMounts[0].name NotFound"],
            id="a mount of no volume",
        ),
        pytest.param(
            a_pod(tolerations=[{"operator": "Equal"}]),
            ["spec.tolerations[0].operator Invalid"],
            id="equal to no key",
        ),
        pytest.param(
            a_pod(restartPolicy="Sometimes", hostname="Has.Dots", activeDeadlineSeconds=0),
            [
                "spec.restartPolicy NotSupported",
                "spec.activeDeadlineSeconds Invalid",
                "spec.hostname Invalid",
            ],
            id="every finding is reported",
        ),
    ],
)
def test_a_pod(pod: Json, want: list[str]) -> None:
    assert show(pods.validate(pod)) == want


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param({}, {"nodeName": "n"}, ["spec Forbidden"], id="only a binding places a pod"),
        pytest.param({}, {"activeDeadlineSeconds": 9}, [], id="a deadline may be set"),
        pytest.param(
            {"activeDeadlineSeconds": 8},
            {"activeDeadlineSeconds": 9},
            ["spec.activeDeadlineSeconds Invalid"],
            id="and not be put off",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "g"}]},
            {"schedulingGates": [], "nodeSelector": {"a": "b"}},
            [],
            id="a gated pod may be narrowed and released",
        ),
        pytest.param(
            {},
            {"schedulingGates": [{"name": "g"}]},
            ["spec.schedulingGates Forbidden"],
            id="no gate is added",
        ),
        pytest.param(
            {}, {"nodeSelector": {"a": "b"}}, ["spec Forbidden"], id="one that is not gated may not"
        ),
    ],
)
def test_a_pods_update(before: Json, after: Json, want: list[str]) -> None:
    assert show(pod_updates.validate_update(a_pod(**(before | after)), a_pod(**before))) == want


def a_job(
    suspend: bool = False, status: Json | None = None, template: Json | None = None, **spec: Any
) -> Json:
    pod_spec = {"containers": [a_container()], "restartPolicy": "Never"} | (template or {})
    job = {
        "metadata": {"name": "j", "uid": "u"},
        "spec": {"suspend": suspend, "template": {"spec": pod_spec}} | spec,
    }
    job_defaults.default(job)
    job_defaults.begin(job)
    return job | {"status": status or {}}


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(a_job(), [], id="nothing wrong"),
        pytest.param(
            a_job(template={"restartPolicy": "Always"}),
            ["spec.template.spec.restartPolicy Required"],
            id="pods that never end",
        ),
        pytest.param(
            a_job(completionMode="Indexed", parallelism=2),
            ["spec.completions Required"],
            id="how many indexes",
        ),
        pytest.param(a_job(parallelism=-1), ["spec.parallelism Invalid"], id="negative"),
        pytest.param(
            a_job(backoffLimitPerIndex=1),
            ["spec.backoffLimitPerIndex Invalid"],
            id="indexes of no indexed job",
        ),
    ],
)
def test_a_job(job: Json, want: list[str]) -> None:
    assert show(jobs.validate(job)) == want


ELSEWHERE: Json = {"nodeSelector": {"zone": "b"}}
INDEXED: Json = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(
            a_job(suspend=True),
            a_job(suspend=False, template=ELSEWHERE),
            [],
            id="a suspended job is sent elsewhere as it starts",
        ),
        pytest.param(
            a_job(),
            a_job(template=ELSEWHERE),
            ["spec.template Invalid"],
            id="a started job stays where it is",
        ),
        pytest.param(
            a_job(suspend=True, status={"startTime": "2024-01-01T00:00:00Z", "active": 1}),
            a_job(suspend=True, template=ELSEWHERE),
            ["spec.template Invalid"],
            id="and one whose pods still run",
        ),
        pytest.param(
            a_job(suspend=True),
            a_job(suspend=True, template={"containers": [a_container(image="c")]}),
            ["spec.template.spec Invalid"],
            id="what runs never changes",
        ),
        pytest.param(
            a_job(**INDEXED),
            a_job(**INDEXED | {"completions": 5, "parallelism": 5}),
            [],
            id="an indexed job grows",
        ),
        pytest.param(
            a_job(**INDEXED),
            a_job(**INDEXED | {"completions": 5}),
            ["spec.completions Invalid"],
            id="with its parallelism only",
        ),
    ],
)
def test_a_jobs_update(old: Json, new: Json, want: list[str]) -> None:
    assert show(jobs.validate_update(new, old)) == want


@pytest.mark.parametrize(
    ("item", "want"),
    [
        pytest.param({"min": {"cpu": "1"}, "max": {"cpu": "2"}}, [], id="in order"),
        pytest.param(
            {"min": {"cpu": "2"}, "max": {"cpu": "1"}}, ["spec.limits[0].min[cpu] Invalid"], id="turned round"
        ),
        pytest.param(
            {"defaultRequest": {"cpu": "500m"}, "default": {"cpu": "0.1"}},
            ["spec.limits[0].defaultRequest[cpu] Invalid"],
            id="more asked for than allowed",
        ),
    ],
)
def test_a_limit_range(item: Json, want: list[str]) -> None:
    assert show(limits.limit_range({"spec": {"limits": [{"type": "Container"} | item]}})) == want


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("a", True),
        ("example.com/a.b_c", True),
        ("", False),
        ("bad key!", False),
        ("/a", False),
        ("a/b/c", False),
        ("x" * 63, True),
        ("x" * 64, False),
        ("UPPER.com/a", False),
    ],
)
def test_a_label_key(key: str, good: bool) -> None:
    assert (list(names.qualified(key)) == []) is good


def test_metadata_reports_every_finding() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    meta = {
        "name": "Bad_Name",
        "labels": {"bad key!": "v", "a": "bad value!"},
        "finalizers": ["no-domain"],
        "ownerReferences": [owner, owner | {"uid": ""}],
    }
    kind = Kind("", "v1", "ConfigMap", "configmaps", True)
    assert show(metadata.validate(kind, {"metadata": meta})) == [
        "metadata.name Invalid",
        "metadata.labels Invalid",
        "metadata.labels Invalid",
        "metadata.finalizers[0] Invalid",
        "metadata.ownerReferences.uid Invalid",
        "metadata.ownerReferences Invalid",
    ]


def test_an_object_that_is_being_deleted_takes_no_new_finalizer() -> None:
    kind = Kind("", "v1", "ConfigMap", "configmaps", True)
    old = {"metadata": {"name": "a", "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a.b/c"]}}
    new = {"metadata": old["metadata"] | {"finalizers": ["a.b/c", "a.b/d"]}}
    assert show(metadata.validate_update(kind, new, old)) == ["metadata.finalizers Forbidden"]
    assert metadata.validate_update(kind, old, old) == []
