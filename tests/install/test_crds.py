"""``quorate crds`` writes the files of ``deploy/crds``."""

from pathlib import Path
from typing import Any

import pytest
from cel_expr_python import cel
from cel_expr_python.ext import ext_optional

from quorate.cli.install import crds
from quorate.install.crds import (
    ALLOW_DELETION,
    deletion_policy,
    gang_definitions,
    queueing_definitions,
)

SHIPPED = Path(__file__).parents[2] / "deploy" / "crds"


def test_the_command_writes_and_names_the_shipped_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crds(tmp_path / "new", conversion_webhook=True)
    written = sorted((tmp_path / "new").rglob("*.yaml"))
    assert sorted(capsys.readouterr().out.splitlines()) == [str(path) for path in written]
    assert [(path.relative_to(tmp_path / "new"), path.read_bytes()) for path in written] == [
        (path.relative_to(SHIPPED), path.read_bytes()) for path in sorted(SHIPPED.rglob("*.yaml"))
    ]


def evaluate(expression: str, definition: dict[str, Any]) -> Any:
    environment = cel.NewEnv(variables={"oldObject": cel.Type.DYN}, extensions=[ext_optional.ExtOptional()])
    return environment.compile(expression).eval(data={"oldObject": definition}).value()


@pytest.mark.parametrize(
    "definition",
    [*queueing_definitions(), *gang_definitions()],
    ids=lambda each: str(each["metadata"]["name"]),
)
def test_the_policy_refuses_to_delete_each_definition_until_it_is_annotated(
    definition: dict[str, Any],
) -> None:
    policy, binding = deletion_policy()
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    (condition,), (rule,) = policy["spec"]["matchConditions"], policy["spec"]["validations"]
    assert evaluate(condition["expression"], definition) is True
    metadata = definition["metadata"]
    others = metadata | {"annotations": {"example.com/a": "b", ALLOW_DELETION: "false"}}
    allowed = metadata | {"annotations": {ALLOW_DELETION: "true"}}
    given = (metadata, others, allowed)
    assert [evaluate(rule["expression"], definition | {"metadata": each}) for each in given] == [
        False,
        False,
        True,
    ]
    kind, name = definition["spec"]["names"]["kind"], metadata["name"]
    assert evaluate(rule["messageExpression"], definition) == (
        f"with this definition every {kind} of the cluster is deleted (to allow it: kubectl annotate crd "
        f"{name} quorate.dev/allow-deletion=true)"
    )


def test_the_policy_does_not_concern_other_definitions() -> None:
    policy = next(deletion_policy())
    (condition,) = policy["spec"]["matchConditions"]
    other = {"metadata": {"name": "as.example.com"}, "spec": {"group": "example.com"}}
    assert evaluate(condition["expression"], other) is False
