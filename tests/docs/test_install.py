"""Run the commands of ``docs/tasks/install.md`` in order on a local cluster."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.commands import ROOT, cluster, needs_kubectl

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "tasks" / "install.md"


class CommandRunner:
    """Run commands of the page next to ``data_dir`` as the administrator of its cluster."""

    def __init__(self, data_dir: Path) -> None:
        self._directory = data_dir.parent
        self._environment = {
            **os.environ, "KUBECONFIG": str(data_dir / "kubeconfig"), "HOME": str(self._directory),
            "COLUMNS": "200",
        }  # fmt: skip

    def run(self, command: str, given: str = "") -> subprocess.CompletedProcess[str]:
        arguments = shlex.split(command)
        if arguments[0] == "quorate":
            arguments[:1] = [sys.executable, "-m", "quorate"]
        return subprocess.run(
            arguments, env=self._environment, cwd=self._directory, input=given,
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    def output_of(self, command: str, given: str = "") -> str:
        done = self.run(command, given)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


def section_of(heading: str) -> str:
    return PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


def commands(heading: str) -> list[str]:
    return [line.strip() for line in section_of(heading).splitlines() if line.startswith("    ")]


def supported_objects(shell: CommandRunner, manifests: str) -> str:
    """Return the objects of kinds that this cluster serves; some built-in kinds may be missing."""
    kinds = set(shell.output_of("kubectl api-resources --no-headers --output name").split())
    supported = [
        each
        for each in yaml.load_all(manifests, Loader=yaml.CSafeLoader)
        if any(kind.startswith(each["kind"].lower()) for kind in kinds)
    ]
    return yaml.safe_dump_all(supported)


@needs_kubectl(21)  # its kustomize supports patches
def test_the_manifests_install_sufficient_roles_and_users_can_be_authorized(tmp_path: Path) -> None:
    data_dir = tmp_path / "cluster"
    build, write, apply, check = commands("With kubectl")
    assert build.startswith("docker build -f deploy/Dockerfile")
    assert (ROOT / "deploy" / "Dockerfile").exists()
    with cluster(data_dir, "--without-controllers"):
        shell = CommandRunner(data_dir)
        shell.output_of(write)
        assert apply == "kubectl apply --server-side -k install"
        manifests = supported_objects(shell, shell.output_of("kubectl kustomize install"))
        shell.output_of("kubectl apply --server-side --force-conflicts -f -", manifests)

        report = json.loads(shell.run(f"{check} --output json").stdout)
        permissions = [each for each in report["remarks"] if each["about"].startswith("permissions of")]
        assert [each["says"] for each in permissions] == ["they suffice to run the controllers"]
        # No webhooks are served here, which preflight must report.
        missing = [each["about"] for each in report["remarks"] if each["severity"] == "error"]
        assert {"webhooks quorate-mutating-webhook-configuration"} <= {*missing}

        admins, users, scraper, *checks = commands("Grant access")
        shell.output_of("kubectl create namespace team-a")
        for command in (admins, users, scraper):
            shell.output_of(command)
        command_line = (
            "kubectl auth can-i {} --as=stranger --as-group={} --as-group=system:authenticated -n team-a"
        )
        for group, question, answer in (
            ("platform", "create clusterqueues", "yes"),
            ("team-a", "list workloads", "yes"),
            ("team-a", "create clusterqueues", "no"),
        ):
            assert until(shell, command_line.format(question, group), answer) == answer
        scrapes = "kubectl auth can-i get /metrics --as=system:serviceaccount:{}:prometheus"
        assert until(shell, scrapes.format("monitoring"), "yes") == "yes"
        assert shell.run(scrapes.format("team-a")).stdout.strip() == "no"
        for command in checks[:1]:
            shell.output_of(command)


def test_the_page_applies_the_written_gang_scheduler_manifests(tmp_path: Path) -> None:
    write, definitions, rest, process = commands("The gang scheduler")
    shell = CommandRunner(tmp_path / "cluster")
    shell.output_of(write)
    applied = [shlex.split(each)[-1] for each in (definitions, rest)]
    assert applied == ["install/crds/gang", "install/gang"]
    assert len(list((tmp_path / applied[0]).glob("*.yaml"))) == 5
    assert (tmp_path / applied[1] / "kustomization.yaml").exists()
    name, *_ = shlex.split(process)
    assert name == "quorate"
    listed = re.findall(r"^\| `([\w./-]+\.yaml)` \|", section_of("The gang scheduler"), re.MULTILINE)
    written = {
        str(path.relative_to(tmp_path / "install/gang"))
        for path in tmp_path.rglob("gang/**/*.yaml")
        if "crds" not in path.parts
    }
    assert written - {"kustomization.yaml", "namespace.yaml"} == {*listed}


def until(shell: CommandRunner, command: str, want: str) -> str:
    """Repeat the command until it prints ``want``: a controller fills aggregated roles later."""
    output = ""
    for _ in range(20):
        output = shell.run(command).stdout.strip()
        if output == want:
            break
    return output
