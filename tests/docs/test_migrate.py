"""Run the commands of ``docs/tasks/migrate-from-kueue.md`` on a local cluster with objects of Kueue."""

import json
from pathlib import Path

import pytest

from tests.docs.test_install import CommandRunner
from tests.e2e.commands import ROOT, cluster

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "tasks" / "migrate-from-kueue.md"
KUEUE = (ROOT / "tests/newcomer/given/kueue.yaml").read_text()


def command(prefix: str) -> str:
    found = {line.strip() for line in PAGE.read_text().splitlines() if line.strip().startswith(prefix)}
    assert len(found) == 1, found
    return found.pop()


def test_the_migration_steps_work(tmp_path: Path) -> None:
    data_dir = tmp_path / "cluster"
    with cluster(data_dir, "--without-controllers"):
        shell = CommandRunner(data_dir)
        shell.output_of("kubectl apply -f -", KUEUE)

        def deployment_remarks() -> list[str]:
            report = json.loads(shell.run("quorate preflight --output json").stdout)
            return [each["says"] for each in report["remarks"] if each["about"].startswith("deployment ")]

        (remark,) = deployment_remarks()
        assert remark.startswith("Kueue is installed, ")

        save, _, file = command("kubectl get configmap").partition(" > ")
        (tmp_path / file).write_text(shell.output_of(save))
        done = shell.run(command("quorate controllers --config"))
        assert done.returncode == 0, done.stderr
        *findings, last = done.stdout.splitlines()
        assert last == f"{file}: valid"
        assert all(finding.startswith(f"warning: {file}: ") for finding in findings), findings

        shell.output_of(command("kubectl scale deployment kueue-controller-manager"))
        assert deployment_remarks() == []
