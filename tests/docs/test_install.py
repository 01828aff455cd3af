"""Run the commands of ``docs/tasks/install.md`` in order on a local cluster."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.commands import ROOT, cluster, needs_kubectl, poll
from tests.forked_command import forked_command
from tests.install.helm import PROGRAM, needs_helm
from tests.observe.listening import free_port

pytestmark = pytest.mark.slow

PORTS = ("8081", "8082", "8443", "9443")
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
            arguments[0] = str(forked_command())
        return subprocess.run(
            arguments, env=self._environment, cwd=self._directory, input=given,
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    @contextmanager
    def running(self, command: str) -> Iterator[None]:
        """Run a process while the block lasts."""
        arguments = [str(forked_command()), *shlex.split(command)[1:]]
        with (
            (self._directory / "process.log").open("w") as log,
            subprocess.Popen(
                arguments, env=self._environment, cwd=self._directory, stdout=log, stderr=log
            ) as process,
        ):
            try:
                yield
            finally:
                process.terminate()

    def output_of(self, command: str, given: str = "") -> str:
        done = self.run(command, given)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


def section_of(heading: str) -> str:
    return PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


def commands(heading: str) -> list[str]:
    return [line.strip() for line in section_of(heading).splitlines() if line.startswith("    ")]


@needs_kubectl(21)  # its kustomize supports patches
def test_the_manifests_install_sufficient_roles_and_users_can_be_authorized(tmp_path: Path) -> None:
    data_dir = tmp_path / "cluster"
    build, write, apply, check = commands("With kubectl")
    assert build.startswith("make image IMAGE=")
    assert (ROOT / "deploy" / "Dockerfile").exists()
    with cluster(data_dir, "--without-controllers"):
        shell = CommandRunner(data_dir)
        shell.output_of(write)
        assert apply == "kubectl apply --server-side -k install"
        shell.output_of(apply)
        shell.output_of(apply)  # an upgrade applies them again

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


@needs_kubectl(21)
def test_the_installed_process_serves_the_local_cluster_as_typed(tmp_path: Path) -> None:
    data_dir = tmp_path / "cluster"
    write, *steps, process = commands("On a local cluster")
    with cluster(data_dir, "--without-controllers"):
        shell = CommandRunner(data_dir)
        shell.output_of(write)
        use_free_ports(tmp_path / "install")
        script = "\n".join(steps)
        shell.output_of(f"bash -euc {shlex.quote(script)}")
        with shell.running(process):
            poll(lambda: remarks(shell), lambda found: not found, 60)
            refused = shell.run("kubectl apply -f -", FLAVOR_WITH_A_MISTAKE)
            assert "admission webhook" in refused.stderr
            assert "nodeLabels" in refused.stderr
            shell.output_of("kubectl apply --server-side -k install")  # what the process wrote stays
            pending = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/none/pendingworkloads"
            poll(
                lambda: shell.run(f"kubectl get --raw {pending}"), lambda done: "not found" in done.stderr, 20
            )


@needs_kubectl(21)
@needs_helm
def test_helm_installs_the_chart_on_a_local_cluster_as_typed(tmp_path: Path) -> None:
    data_dir = tmp_path / "cluster"
    install, *_ = commands("With Helm")
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    shell = CommandRunner(data_dir)
    with cluster(data_dir):  # which provides roles
        shell.output_of("kubectl get clusterrole kueue-batch-admin-role")
    with cluster(data_dir, "--without-controllers"):
        shell.output_of(install.replace("helm", str(PROGRAM), 1))
        shell.output_of("kubectl get clusterrole kueue-batch-admin-role")


@needs_kubectl(21)
def test_definitions_of_the_page_replace_those_of_the_local_cluster_for_good(tmp_path: Path) -> None:
    data_dir = tmp_path / "cluster"
    write, apply, _ = commands("As a plain process")
    shell = CommandRunner(data_dir)
    with cluster(data_dir):
        shell.output_of("kubectl get clusterrole kueue-batch-admin-role")
    schema = "kubectl get crd workloads.kueue.x-k8s.io -o jsonpath={.spec.versions[1].schema}"
    with cluster(data_dir, "--without-controllers"):
        assert shell.output_of("kubectl get apiservices --output name") == ""
        assert "NotFound" in shell.run("kubectl get clusterrole kueue-batch-admin-role").stderr
        provided = shell.output_of(schema)
        shell.output_of(write)
        shell.output_of(apply)
        applied = shell.output_of(schema)
        assert applied != provided
        shell.output_of(apply)
    with cluster(data_dir, "--without-controllers"):
        assert shell.output_of(schema) == applied
        shell.output_of("kubectl delete crd topologies.kueue.x-k8s.io")
    with cluster(data_dir, "--without-controllers"):
        shell.output_of("kubectl get topologies")  # what is missing is provided again
        shell.output_of(apply)


FLAVOR_WITH_A_MISTAKE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: wrong}
spec: {nodeLabels: {"a b": c}}
"""


def use_free_ports(manifests: Path) -> None:
    """Replace the ports of the process, which other tests may use at the same time."""
    free = {port: str(free_port()) for port in PORTS}
    for path in manifests.glob("*.yaml"):
        written = re.sub(rf"\b({'|'.join(PORTS)})\b", lambda port: free[port[0]], path.read_text())
        path.write_text(written)


def remarks(shell: CommandRunner) -> list[str]:
    """Return the errors and warnings of preflight."""
    report = json.loads(shell.run("quorate preflight --output json").stdout)
    return [str(each) for each in report["remarks"] if each["severity"] != "info"]


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
