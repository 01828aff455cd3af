"""Cells of tables, by the recorded behavior of a real API server."""

from typing import Any

import pytest

from quorate.api.codec import Json
from quorate.api.human_duration import human_duration
from quorate.local.objects.crd.definition import Column
from quorate.local.objects.tables.builtin import builtin_layout, rules
from quorate.local.objects.tables.cells import CELLS, TIMED_CELLS, selector_text
from quorate.local.objects.tables.layout import custom_layout, partial_object_list, table

CREATED = "2024-01-01T00:00:00Z"
NOW = 1_704_067_200.0 + 90
"""90 seconds after CREATED"""


def named(**parts: Any) -> Json:
    return {"metadata": {"name": "a", "creationTimestamp": CREATED}, **parts}


def cells(group: str, kind: str, obj: Json) -> list[Any]:
    return builtin_layout(group, kind).cells(obj, NOW)


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (252, "4m12s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (15_000, "4h10m"),
        (28_800, "8h"),
        (172_800, "2d"),
        (190_800, "2d5h"),
        (8 * 86_400, "8d"),
        (2 * 365 * 86_400, "2y"),
        (775 * 86_400, "2y45d"),
        (9 * 365 * 86_400, "9y"),
    ],
)
def test_human_durations(seconds: int, want: str) -> None:
    assert human_duration(seconds) == want


def a_status(name: str, state: str, restarts: int = 0) -> Json:
    """Build a container status from `run`, `wait:Reason`, `end:Reason`, `exit:3` or `signal:9`."""
    sort, _, detail = state.partition(":")
    states: dict[str, Json] = {
        "run": {"running": {}},
        "wait": {"waiting": {"reason": detail}},
        "end": {"terminated": {"exitCode": 0, "reason": detail}},
        "exit": {"terminated": {"exitCode": int(detail) if sort == "exit" else 1}},
        "signal": {"terminated": {"exitCode": 9, "signal": 9}},
    }
    return {"name": name, "ready": sort == "run", "restartCount": restarts, "state": states[sort]}


def a_pod(states: str = "", initial: str = "", **status: Any) -> Json:
    """Build a pod with containers x and y, and init container i, in these states."""
    statuses = [a_status(name, state) for name, state in zip("xy", states.split(), strict=False)]
    starting = [a_status("i", state) for state in initial.split()]
    spec = {"containers": [{"name": "x"}, {"name": "y"}], "initContainers": [{"name": "i"}]}
    return named(
        spec=spec, status={"containerStatuses": statuses, "initContainerStatuses": starting, **status}
    )


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(phase="Pending"), "0/2 Pending", id="no status"),
        pytest.param(a_pod("run run", phase="Running"), "2/2 Running", id="running"),
        pytest.param(
            a_pod("run wait:CrashLoopBackOff", phase="Running"),
            "1/2 CrashLoopBackOff",
            id="one container waits",
        ),
        pytest.param(
            a_pod("end:Completed end:Completed", phase="Succeeded"), "0/2 Completed", id="completed"
        ),
        pytest.param(
            a_pod("end:Error signal:9", phase="Failed"),
            "0/2 Error",
            id="the first container determines the reason",
        ),
        pytest.param(a_pod("signal:9", phase="Failed"), "0/2 Signal:9", id="killed"),
        pytest.param(a_pod("exit:3", phase="Failed"), "0/2 ExitCode:3", id="an exit code without a reason"),
        pytest.param(
            a_pod("end:Completed run", phase="Running"), "1/2 NotReady", id="one completed, one running"
        ),
        pytest.param(a_pod(phase="Failed", reason="Evicted"), "0/2 Evicted", id="the reason of the pod"),
        pytest.param(a_pod(initial="run", phase="Pending"), "0/2 Init:0/1", id="initializing"),
        pytest.param(
            a_pod(initial="wait:ErrImagePull", phase="Pending"),
            "0/2 Init:ErrImagePull",
            id="an init container waits",
        ),
        pytest.param(
            a_pod(initial="exit:2", phase="Failed"), "0/2 Init:ExitCode:2", id="an init container failed"
        ),
        pytest.param(
            a_pod("run run", initial="end:Completed", phase="Running"), "2/2 Running", id="initialized"
        ),
        pytest.param(
            a_pod(
                phase="Pending",
                conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            ),
            "0/2 SchedulingGated",
            id="gated",
        ),
    ],
)
def test_the_status_of_a_pod(pod: Json, want: str) -> None:
    _, ready, word, *_ = cells("", "Pod", pod)
    assert f"{ready} {word}" == want


def test_a_pod_that_is_being_deleted_is_terminating() -> None:
    pod = a_pod("run run", phase="Running")
    pod["metadata"]["deletionTimestamp"] = CREATED
    assert cells("", "Pod", pod)[2] == "Terminating"


def test_restarts_show_the_age_of_the_last_one() -> None:
    pod = a_pod("run run", phase="Running")
    pod["status"]["containerStatuses"][0] |= {
        "restartCount": 3,
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": CREATED}},
    }
    assert cells("", "Pod", pod)[3] == "3 (90s ago)"


def test_a_finished_pod_has_a_row_condition() -> None:
    layout = builtin_layout("", "Pod")
    rows = table(layout, [a_pod(phase="Failed")], NOW, metadata={})["rows"]
    assert rows[0]["conditions"][0]["message"] == "The pod failed."


NODE_INFO = ["<unknown>", "6 (amd64)", "<unknown>"]
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}


def a_job(conditions: str = "", spec: Json | None = None, **status: Any) -> Json:
    holding = [{"type": name, "status": "True"} for name in conditions.split()]
    return named(
        spec={"parallelism": 1, "completions": 1, "template": TEMPLATE} | (spec or {}),
        status={"conditions": holding} | status,
    )


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(a_job(), "Running 0/1 ", id="new"),
        pytest.param(a_job(startTime=CREATED), "Running 0/1 90s", id="started"),
        pytest.param(
            a_job(
                "SuccessCriteriaMet Complete",
                startTime=CREATED,
                completionTime="2024-01-01T00:00:10Z",
                succeeded=1,
            ),
            "Complete 1/1 10s",
            id="complete",
        ),
        pytest.param(a_job("FailureTarget Failed"), "Failed 0/1 ", id="failed"),
        pytest.param(a_job("Suspended"), "Suspended 0/1 ", id="suspended"),
        pytest.param(
            a_job(spec={"completions": None, "parallelism": 3}),
            "Running 0/1 of 3 ",
            id="a work queue with workers",
        ),
    ],
)
def test_jobs(job: Json, want: str) -> None:
    _, state, completions, duration, *_ = cells("batch", "Job", job)
    assert f"{state} {completions} {duration}" == want


@pytest.mark.parametrize(
    ("group", "kind", "obj", "want"),
    [
        ("", "ConfigMap", named(data={"k": "v"}, binaryData={"b": ""}), ["a", 2, "90s"]),
        ("", "Secret", named(type="Opaque", data={"p": ""}), ["a", "Opaque", 1, "90s"]),
        ("", "Namespace", named(status={"phase": "Active"}), ["a", "Active", "90s"]),
        ("", "ServiceAccount", named(), ["a", "90s"]),
        ("coordination.k8s.io", "Lease", named(spec={"holderIdentity": "me"}), ["a", "me", "90s"]),
        (
            "scheduling.k8s.io",
            "PriorityClass",
            named(value=100, preemptionPolicy="Never"),
            ["a", 100, False, "90s", "Never"],
        ),
        ("apiextensions.k8s.io", "CustomResourceDefinition", named(), ["a", CREATED]),
        (
            "",
            "ResourceQuota",
            named(status={"hard": {"limits.cpu": "2", "pods": "5"}, "used": {"pods": "1"}}),
            ["a", "pods: 1/5", "limits.cpu: 0/2", "90s"],
        ),
        (
            "",
            "PersistentVolume",
            named(
                spec={
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                    "capacity": {"storage": "5Gi"},
                    "claimRef": {"namespace": "team", "name": "data"},
                    "storageClassName": "fast",
                    "persistentVolumeReclaimPolicy": "Retain",
                    "volumeMode": "Block",
                },
                status={"phase": "Bound"},
            ),
            ["a", "5Gi", "RWO,RWX", "Retain", "Bound", "team/data", "fast", "<unset>", "", "90s", "Block"],
        ),
        (
            "",
            "PersistentVolumeClaim",
            named(
                spec={"volumeName": "v", "storageClassName": "fast"},
                status={
                    "phase": "Bound",
                    "capacity": {"storage": "5Gi"},
                    "accessModes": ["ReadWriteOncePod"],
                },
            ),
            ["a", "Bound", "v", "5Gi", "RWOP", "fast", "<unset>", "90s", "<unset>"],
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            named(provisioner="p", reclaimPolicy="Delete", volumeBindingMode="Immediate"),
            ["a", "p", "Delete", "Immediate", False, "90s"],
        ),
        ("storage.k8s.io", "CSINode", named(spec={"drivers": [{"name": "d"}]}), ["a", 1, "90s"]),
        (
            "",
            "Service",
            named(
                spec={"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30080}]}
            ),
            ["a", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP", "90s", "<none>"],
        ),
        (
            "",
            "Node",
            named(
                spec={"unschedulable": True},
                status={
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
                    "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "amd64"},
                },
            ),
            ["a", "Ready,SchedulingDisabled", "<none>", "90s", "v1", "10.0.0.9", "<none>", *NODE_INFO],
        ),
        (
            "events.k8s.io",
            "Event",
            named(
                type="Warning",
                reason="R",
                note="hello ",
                regarding={"kind": "Pod", "name": "p"},
                reportingController="test",
                eventTime=CREATED,
            ),
            ["90s", "Warning", "R", "pod/p", "", "test", "hello", "90s", 1, "a"],
        ),
    ],
)
def test_rows_of_other_kinds(group: str, kind: str, obj: Json, want: list[Any]) -> None:
    layout = builtin_layout(group, kind)
    got = layout.cells(obj, NOW)
    assert got == want
    assert len(layout.columns) == len(got)


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        (None, "<none>"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["y", "x"]}]}, "k in (x,y)"),
        ({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, "!k"),
    ],
)
def test_selectors_as_text(selector: Json | None, want: str) -> None:
    assert selector_text(selector) == want


def test_printer_columns_of_a_custom_resource() -> None:
    layout = custom_layout(
        [
            Column("Size", "integer", ".spec.size"),
            Column("Flag", "boolean", ".spec.flag", priority=1),
            Column("When", "date", ".spec.when"),
            Column("Any", "string", ".spec.any"),
        ]
    )
    spec = {"size": 2.0, "flag": True, "when": CREATED, "any": {"k": [1]}}
    got = table(layout, [named(spec=spec), named(spec={"size": "x"})], NOW, metadata={}, include="None")
    assert [(c["name"], c["priority"]) for c in got["columnDefinitions"]] == [
        ("Name", 0),
        ("Size", 0),
        ("Flag", 1),
        ("When", 0),
        ("Any", 0),
    ]
    assert [row["cells"] for row in got["rows"]] == [
        ["a", 2, True, "90s", '{"k":[1]}'],
        ["a", None, None, None, None],
    ]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(
            {"b": 1, "a": "<&>"}, '{"a":"\\u003c\\u0026\\u003e","b":1}', id="a map, sorted, safe in HTML"
        ),
        pytest.param([1, 2.5, None], "[1,2.5,null]", id="a list"),
        pytest.param(True, "true", id="a boolean"),
        pytest.param(2.0, "2", id="a number without fraction"),
        pytest.param(None, "<no value>", id="null"),
        pytest.param("", "", id="an empty text"),
    ],
)
def test_the_text_of_a_value_in_a_column_of_strings(value: Any, want: str) -> None:
    layout = custom_layout([Column("Any", "string", ".spec.any")])
    assert layout.cells(named(spec={"any": value}), NOW) == ["a", want]


def test_columns_end_before_the_first_that_is_no_json_path() -> None:
    layout = custom_layout(
        [Column(name, "string", path) for name, path in (("A", ".a"), ("B", ".b["), ("C", ".c"))]
    )
    assert [column.name for column in layout.columns] == ["Name", "A"]
    text = "Custom resource definition column (in JSONPath format): .a"
    assert layout.columns[1].description == text
    assert layout.cells(named(a="1", b="2", c="3"), NOW) == ["a", "1"]


def test_a_custom_resource_without_columns_shows_its_age() -> None:
    assert custom_layout([]).cells(named(), NOW) == ["a", "90s"]


@pytest.mark.parametrize(
    ("include", "want"),
    [
        ("None", None),
        ("Object", named(data={"k": "v"})),
        (
            "Metadata",
            {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1beta1",
                "metadata": named()["metadata"],
            },
        ),
    ],
)
def test_a_row_includes_the_requested_object(include: str, want: Json | None) -> None:
    layout = builtin_layout("", "ConfigMap")
    obj = named(data={"k": "v"})
    got = table(layout, [obj], NOW, metadata={"resourceVersion": "5"}, include=include, version="v1beta1")
    assert got["apiVersion"] == "meta.k8s.io/v1beta1"
    assert got["rows"][0]["object"] == want


def test_a_list_of_metadata() -> None:
    got = partial_object_list([named(spec={})], metadata={"resourceVersion": "5"})
    assert [set(item) for item in got["items"]] == [{"kind", "apiVersion", "metadata"}]


def test_every_cell_of_the_table_of_columns_has_a_function_and_every_function_is_named() -> None:
    named = {rule.cell for row in rules().values() for rule in row if rule.cell}
    assert named == CELLS.keys() | TIMED_CELLS.keys()
