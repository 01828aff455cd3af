"""Decoding and validation of declared job kinds."""

import json
from typing import Any

import pytest

from quorate.api.configuration import load_configuration
from quorate.api.configuration.integrations import DeclaredFramework, PodSetPaths, StatusCheck, SuspendField
from quorate.api.decoding.strict import InvalidConfiguration

ABSENT = object()
PLACE = "integrations.declaredFrameworks[0]"


def training(**fields: Any) -> dict[str, Any]:
    """Return a valid declaration with some fields replaced."""
    declared = {
        "apiVersion": "example.com/v1",
        "kind": "Training",
        "plural": "trainings",
        "suspend": "spec.paused",
        "podSets": [{"name": "main", "template": "spec.template", "count": "spec.size"}],
        "ready": {"condition": "Ready"},
        "succeeded": {"field": "status.phase", "equals": "Done"},
    }
    return {name: value for name, value in (declared | fields).items() if value is not ABSENT}


def load(*declared: Any, frameworks: tuple[str, ...] = ("batch/job",)) -> tuple[DeclaredFramework, ...]:
    integrations = {"frameworks": frameworks, "declaredFrameworks": declared}
    head = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    text = json.dumps({**head, "integrations": integrations})
    return load_configuration(text).configuration.integrations.declared


def refusals(*declared: Any, frameworks: tuple[str, ...] = ("batch/job",)) -> list[str]:
    with pytest.raises(InvalidConfiguration) as refusal:
        load(*declared, frameworks=frameworks)
    return [str(finding).removeprefix("line 1: ") for finding in refusal.value.findings]


def test_a_declared_kind_is_decoded() -> None:
    groups = {"each": "spec.groups", "nameFrom": "name", "template": "pods", "count": "n", "minCount": "min"}
    assert load(training(podSets=[groups], active="status.active", failed={"condition": "Failed"})) == (
        DeclaredFramework(
            group="example.com",
            version="v1",
            kind="Training",
            plural="trainings",
            suspend=SuspendField(field=("spec", "paused")),
            pod_sets=(
                PodSetPaths(
                    each=("spec", "groups"),
                    name_from=("name",),
                    template=("pods",),
                    count=("n",),
                    min_count=("min",),
                ),
            ),
            active=("status", "active"),
            ready=StatusCheck(condition="Ready"),
            succeeded=StatusCheck(field=("status", "phase"), values=("Done",)),
            failed=StatusCheck(condition="Failed"),
        ),
    )


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"suspend": ABSENT}, ".suspend: is missing (write spec.suspend)", id="no suspend"),
        pytest.param({"podSets": []}, ".podSets: [] has 0 entries, must have at least 1", id="no pods"),
        pytest.param(
            {"suspend": "spec..paused"},
            ".suspend: 'spec..paused' is not a path "
            "(write names joined by dots, such as spec.groups[0].size)",
            id="not a path",
        ),
        pytest.param(
            {"suspend": "status.paused"},
            ".suspend: 'status.paused' does not lead into spec (write spec, a dot and names)",
            id="a path in the status for a written field",
        ),
        pytest.param(
            {"apiVersion": "v1"},
            ".apiVersion: 'v1' is not the apiVersion of a custom resource (write example.com/v1)",
            id="the core group",
        ),
        pytest.param(
            {"podSets": [{"each": "spec.groups", "name": "a", "template": "t"}]},
            ".podSets[0].name: 'a' contradicts each, which makes several pod sets (write nameFrom)",
            id="one name for many pod sets",
        ),
        pytest.param(
            {"podSets": [{"name": "a", "nameFrom": "b", "template": "spec.t"}]},
            ".podSets[0].nameFrom: 'b' belongs to each (write name)",
            id="nameFrom without each",
        ),
        pytest.param(
            {"podSets": [{"name": "a", "template": "spec.t", "minCount": "spec.n"}]},
            ".podSets[0].minCount: 'spec.n' needs count, where the number of admitted pods is written",
            id="minCount without count",
        ),
        pytest.param(
            {"ready": {"condition": "Ready", "field": "status.a", "equals": 1}},
            '.ready: {"condition": "Ready", "field": "status.a", "equals": 1} '
            "must have either condition or field",
            id="condition and field",
        ),
        pytest.param(
            {"ready": {"field": "status.a"}},
            '.ready: {"field": "status.a"} must have equals, in or equalsField with field, and none without',
            id="field without a value",
        ),
        pytest.param(
            {"ready": {"field": "status.a", "equals": [1]}},
            ".ready.equals: [1] is not text, a whole number or a boolean",
            id="a list as a status check",
        ),
        pytest.param(
            {"ready": {"condition": "Ready", "message": "status.a"}},
            ".ready.message: 'status.a' belongs to field (a condition has a message of its own)",
            id="a condition with a message path",
        ),
        pytest.param(
            {"suspend": {"field": "spec.a", "stopped": "Off"}},
            ".suspend.running: is missing (write Running)",
            id="an incomplete suspend field",
        ),
        pytest.param(
            {"suspend": {"field": "spec.a", "stopped": "Off", "running": "Off"}},
            '.suspend: {"field": "spec.a", "stopped": "Off", "running": "Off"} '
            "has the same value for stopped and running",
            id="equal values for stopped and running",
        ),
        pytest.param(
            {"podSets": [{"each": "spec.l", "nameFrom": "n", "template": "t", "done": "status.d"}]},
            ".podSets[0].done: 'status.d' belongs to one pod set, not to each (leave it out)",
            id="done with each",
        ),
        pytest.param(
            {"suspended": "spec.a"},
            ".suspended: 'spec.a' is in an unknown field (did you mean suspend?)",
            id="an unknown field",
        ),
    ],
)  # fmt: skip
def test_an_invalid_declaration_is_rejected(fields: dict[str, Any], want: str) -> None:
    assert PLACE + want in refusals(training(**fields))


@pytest.mark.parametrize("missing", ["apiVersion", "kind", "plural", "suspend", "podSets", "ready"])
def test_required_fields_of_a_declaration(missing: str) -> None:
    (finding,) = refusals(training(**{missing: ABSENT}))
    assert finding.startswith(f"{PLACE}.{missing}: is missing (write ")


def test_a_kind_declared_twice_is_rejected() -> None:
    assert refusals(training(), training(apiVersion="example.com/v2")) == [
        "integrations.declaredFrameworks[1].kind: 'Training' makes example.com/training, "
        "which is queued already (keep one)"
    ]


def test_a_built_in_kind_cannot_be_declared() -> None:
    job_set = training(apiVersion="jobset.x-k8s.io/v1alpha2", kind="JobSet", plural="jobsets")
    assert load(job_set) != ()  # a built-in kind that is not enabled may be declared
    assert refusals(job_set, frameworks=("jobset.x-k8s.io/jobset",)) == [
        f"{PLACE}.kind: 'JobSet' makes jobset.x-k8s.io/jobset, which is queued already (keep one)"
    ]
