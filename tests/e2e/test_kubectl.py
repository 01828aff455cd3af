"""What kubectl can do with a local cluster: accounts and their rights, explanations, strict checks."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.commands import cluster, kubectl, poll

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine"),
]

WITHIN_S = 20.0
ROBOT = "system:serviceaccount:default:robot"


def can(data_dir: Path, *question: str) -> bool:
    try:
        return kubectl(data_dir, "auth", "can-i", *question, f"--as={ROBOT}").strip() == "yes"
    except AssertionError:  # the command fails when the answer is no
        return False


def test_an_account_may_do_what_its_roles_say_and_keeps_its_token_over_a_restart(tmp_path: Path) -> None:
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

        # What a role adds to `view` reaches everybody who may view.
        kubectl(
            data_dir, "create", "rolebinding", "v", "--clusterrole=view", "--serviceaccount=default:robot"
        )
        poll(lambda: can(data_dir, "watch", "pods"), bool, WITHIN_S)
        assert not can(data_dir, "list", "workloads")
        kubectl(data_dir, "create", "clusterrole", "v", "--verb=list", "--resource=workloads.kueue.x-k8s.io")
        kubectl(data_dir, "label", "clusterrole", "v", "rbac.authorization.k8s.io/aggregate-to-view=true")
        poll(lambda: can(data_dir, "list", "workloads"), bool, WITHIN_S)
    with cluster(data_dir, "--without-controllers"):
        assert kubectl(data_dir, f"--token={token}", "get", "jobs", "-o", "name") == ""


def test_kubectl_explains_kinds_and_refuses_fields_that_do_not_exist(tmp_path: Path) -> None:
    data_dir = tmp_path / "cluster"
    with cluster(data_dir, "--without-controllers"):
        explained = kubectl(data_dir, "explain", "clusterqueue.spec.preemption")
        assert "KIND:       ClusterQueue" in explained
        assert "reclaimWithinCohort\t<string>\n  enum: Never, LowerPriority, Any" in explained
        assert "completionMode\t<string>" in kubectl(data_dir, "explain", "job.spec")
        manifest = tmp_path / "queue.json"
        queue = {"metadata": {"name": "q"}, "spec": {"clusterQueue": "c", "colour": "red"}}
        manifest.write_text(
            json.dumps({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"} | queue)
        )
        with pytest.raises(AssertionError, match=r'unknown field "spec.colour"'):
            kubectl(data_dir, "apply", "-f", str(manifest))
