"""kubectl on a local cluster: service accounts, RBAC, explain and strict validation."""

import json
import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import ROOT, cluster, kubectl, needs_kubectl, poll, quorate

pytestmark = [
    pytest.mark.slow,
    needs_kubectl(),
]

PAGE = ROOT / "docs" / "tasks" / "local-cluster.md"
WITHIN_S = 20.0
ROBOT = "system:serviceaccount:default:robot"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the data directory of a cluster that tests share, each with separate objects."""
    data_dir = tmp_path_factory.mktemp("shared") / "cluster"
    with cluster(data_dir, "--without-controllers"):
        yield data_dir


def test_a_conversion_webhook_is_installed_and_survives_a_restart(tmp_path: Path) -> None:
    data_dir = tmp_path / "cluster"
    strategies = ("get", "crd", "-o", "jsonpath={.items[*].spec.conversion.strategy}")
    definitions = tmp_path / "crds"
    assert quorate("crds", "--conversion-webhook", "--output", str(definitions)).returncode == 0
    with cluster(data_dir, "--without-controllers"):
        assert set(kubectl(data_dir, *strategies).split()) == {"None"}
        kubectl(data_dir, "apply", "--server-side", "-f", str(definitions))
        installed = kubectl(data_dir, *strategies)
        assert set(installed.split()) == {"None", "Webhook"}
    with cluster(data_dir, "--without-controllers"):
        assert kubectl(data_dir, *strategies) == installed


def test_pods_of_the_default_scheduler_are_placed_by_the_gang_scheduler(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster", "--scheduling", "gang", "--nodes", "1"):
        kubectl(tmp_path / "cluster", "run", "plain", "--image=x")
        node = ("get", "pod", "plain", "-o", "jsonpath={.spec.nodeName}")
        poll(lambda: kubectl(tmp_path / "cluster", *node), bool, WITHIN_S)


@pytest.mark.parametrize(
    ("name", "group"), [("podgroups", "scheduling.volcano.sh"), ("workloads", "kueue.x-k8s.io")]
)
def test_names_of_two_kinds_are_those_of_volcano_and_kueue(running: Path, name: str, group: str) -> None:
    assert group in kubectl(running, "explain", name)
    assert "scheduling.k8s.io" in kubectl(running, "explain", f"{name}.scheduling.k8s.io")


def can(data_dir: Path, *question: str) -> bool:
    try:
        return kubectl(data_dir, "auth", "can-i", *question, f"--as={ROBOT}").strip() == "yes"
    except AssertionError:  # the command fails on "no"
        return False


@needs_kubectl(24)  # create token
def test_a_service_account_has_its_roles_and_keeps_its_token_across_a_restart(tmp_path: Path) -> None:
    data_dir = tmp_path / "cluster"
    with cluster(data_dir, "--without-controllers"):
        kubectl(data_dir, "create", "serviceaccount", "robot")
        token = kubectl(data_dir, "create", "token", "robot", "--duration=1h").strip()
        refusal = subprocess.run(
            ["kubectl", "--kubeconfig", str(data_dir / "kubeconfig"), f"--token={token}", "get", "jobs"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert f'User "{ROBOT}" cannot list resource "jobs"' in refusal.stderr
        kubectl(data_dir, "create", "role", "worker", "--verb=list,create", "--resource=jobs.batch")
        kubectl(
            data_dir, "create", "rolebinding", "worker", "--role=worker", "--serviceaccount=default:robot"
        )
        assert can(data_dir, "list", "jobs")
        assert not can(data_dir, "delete", "jobs")

        # An aggregated role adds its rules to each subject of `view`.
        kubectl(
            data_dir, "create", "rolebinding", "v", "--clusterrole=view", "--serviceaccount=default:robot"
        )
        poll(lambda: can(data_dir, "watch", "pods"), bool, WITHIN_S)
        assert not can(data_dir, "list", "leases")
        kubectl(
            data_dir, "create", "clusterrole", "v", "--verb=list", "--resource=leases.coordination.k8s.io"
        )
        kubectl(data_dir, "label", "clusterrole", "v", "rbac.authorization.k8s.io/aggregate-to-view=true")
        poll(lambda: can(data_dir, "list", "leases"), bool, WITHIN_S)
    with cluster(data_dir, "--without-controllers"):
        assert kubectl(data_dir, f"--token={token}", "get", "jobs", "-o", "name") == ""


@needs_kubectl(24)  # create token
@pytest.mark.parametrize("section", ["Accounts and rights", "Webhooks"])
def test_the_commands_of_the_page_work(section: str, running: Path) -> None:
    for block in shell_blocks(PAGE.read_text(), section):
        done = subprocess.run(
            ["sh", "-e", "-c", block],
            env={**os.environ, "KUBECONFIG": str(running / "kubeconfig"), "HOME": str(running)},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def shell_blocks(page: str, section: str) -> list[str]:
    """Return the indented blocks of one section."""
    text = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n?)+", text, re.MULTILINE)
    assert blocks, section
    return [textwrap.dedent(block) for block in blocks]


@needs_kubectl(27)  # explain by OpenAPI v3
def test_kubectl_explains_kinds_and_rejects_unknown_fields(running: Path, tmp_path: Path) -> None:
    explained = kubectl(running, "explain", "clusterqueue.spec.preemption")
    assert "KIND:       ClusterQueue" in explained
    assert "reclaimWithinCohort\t<string>\n  enum: Never, LowerPriority, Any" in explained
    for text in ("Which admitted workloads a pending workload", "Which workloads of the same queue"):
        assert text in explained
    assert "completionMode\t<string>" in kubectl(running, "explain", "job.spec")
    manifest = tmp_path / "queue.json"
    queue = {"metadata": {"name": "q"}, "spec": {"clusterQueue": "c", "colour": "red"}}
    manifest.write_text(json.dumps({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"} | queue))
    with pytest.raises(AssertionError, match=r'unknown field "spec.colour"'):
        kubectl(running, "apply", "-f", str(manifest))
