"""Queue positions read with kubectl through the API server of a local cluster."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import cluster, kubectl, needs_kubectl, poll, quorate

pytestmark = [
    pytest.mark.slow,
    needs_kubectl(),
]

POSITIONS = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/default/localqueues/team/pendingworkloads"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec: {namespaceSelector: {}, stopPolicy: Hold}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: research}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: default}
"""
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenant, namespace: default}
rules:
- {apiGroups: [kueue.x-k8s.io], resources: [workloads], verbs: [get, list]}
- {apiGroups: [batch], resources: [jobs], verbs: [get]}
- {apiGroups: [visibility.quorate.dev], resources: [workloads/explanation, jobs/explanation], verbs: [get]}
- {apiGroups: [visibility.quorate.dev], resources: [explanations], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{kind: ServiceAccount, name: robot, namespace: default}]
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: team}}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
"""


def test_queue_positions_are_served_through_the_api_server_to_authorized_users(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    (tmp_path / "queues.yaml").write_text(QUEUES)
    for name in ("first", "second"):
        (tmp_path / f"{name}.yaml").write_text(JOB % name)
    with cluster(data_dir):
        for name in ("queues", "first", "second"):
            kubectl(data_dir, "create", "-f", str(tmp_path / f"{name}.yaml"))

        def positions() -> list[tuple[str, int]]:
            items = json.loads(kubectl(data_dir, "get", "--raw", POSITIONS))["items"]
            return [
                (each["metadata"]["ownerReferences"][0]["name"], each["positionInLocalQueue"])
                for each in items
            ]

        poll(positions, lambda seen: sorted(position for _, position in seen) == [0, 1], within_s=20)
        assert {name for name, _ in positions()} == {"first", "second"}
        robot = ("--token", _token(data_dir, "robot"), "--kubeconfig", _without_credentials(data_dir))
        with pytest.raises(AssertionError, match="robot"):
            kubectl(data_dir, *robot, "get", "--raw", POSITIONS)
        _explain_as_tenant(data_dir, tmp_path)


def _explain_as_tenant(data_dir: Path, tmp_path: Path) -> None:
    """A tenant without cluster rights gets an answer by the controllers, with their Configuration."""
    (tmp_path / "role.yaml").write_text(ROLE)
    (tmp_path / "lost.yaml").write_text(JOB.replace("queue-name: team", "queue: none") % "lost")
    kubectl(data_dir, "create", "-f", str(tmp_path / "role.yaml"))
    kubectl(data_dir, "create", "-f", str(tmp_path / "lost.yaml"))
    config = _without_credentials(data_dir)
    token = _token(data_dir, "robot")
    for change in (
        ("set-credentials", "robot", f"--token={token}"),
        ("set-context", "--current", "--user=robot"),
    ):
        kubectl(data_dir, "--kubeconfig", config, "config", *change)

    def explain(*names: str) -> tuple[str, dict[str, Any]]:
        done = quorate("explain", *names, "-o", "json", "--kubeconfig", config)
        assert done.returncode == 0, done.stderr
        return done.stderr, json.loads(done.stdout)

    def answers() -> tuple[str, dict[str, Any]]:
        return explain("job/second")

    poll(answers, lambda found: "explained by the controllers" in found[0], within_s=30)
    _, found = answers()
    assert (found["state"], found["message"]) == ("Held", "ClusterQueue research is inactive")
    assert found["reasons"][0]["object"] == {"kind": "ClusterQueue", "name": "research"}
    origin, lost = explain("job/lost")
    assert "explained by the controllers" in origin
    assert (lost["state"], lost["reasons"][0]["code"]) == ("NotQueued", "NoQueueName")
    _list_explanations(data_dir, config)
    kubectl(data_dir, "delete", "apiservice", "v1beta1.visibility.quorate.dev")

    poll(answers, lambda found: "from the status of the workload" in found[0], within_s=30)
    assert answers()[1]["message"] == "ClusterQueue research is inactive"


def _list_explanations(data_dir: Path, config: str) -> None:
    """``kubectl get explanations`` prints a table with the state and the reason of each workload."""
    tenant = ("--kubeconfig", config, "get", "explanations")
    head, *lines = kubectl(data_dir, *tenant).splitlines()
    assert head.split() == ["NAME", "STATE", "REASON", "SINCE", "MESSAGE"]
    assert [line.split()[1:3] for line in lines] == [["Held", "QueueInactive"]] * 2
    assert all(line.endswith("ClusterQueue research is inactive") for line in lines)
    wide = kubectl(data_dir, *tenant, "-o", "wide").splitlines()
    assert wide[0].split()[-1] == "ENOUGH"
    items = json.loads(kubectl(data_dir, *tenant, "-o", "json"))["items"]
    assert [item["code"] for item in items] == ["QueueInactive"] * 2
    available = ("-o", 'jsonpath={.status.conditions[?(@.type=="Available")].status}')
    assert kubectl(data_dir, "get", "apiservice", "v1beta1.visibility.quorate.dev", *available) == "True"
    in_all = kubectl(data_dir, "get", "explanations", "--all-namespaces")
    assert in_all.split()[:2] == ["NAMESPACE", "NAME"]
    with pytest.raises(AssertionError, match="Forbidden"):
        kubectl(data_dir, *tenant, "--all-namespaces")
    with pytest.raises(AssertionError, match="Forbidden"):
        kubectl(data_dir, *tenant, "--field-selector", "kind=PodGroup")
    kubectl(data_dir, "get", "explanations", "--field-selector", "kind=PodGroup")


def _token(data_dir: Path, account: str) -> str:
    """Request a token for the account; older kubectl has no ``create token``."""
    wish = data_dir.parent / "wish.json"
    wish.write_text('{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}')
    path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
    answer = json.loads(kubectl(data_dir, "create", "--raw", path, "-f", str(wish)))
    return str(answer["status"]["token"])


def _without_credentials(data_dir: Path) -> str:
    """Return the administrator's kubeconfig without its user: its token would override the given one."""
    path = data_dir.parent / "robot"
    shutil.copy(data_dir / "kubeconfig", path)
    names = kubectl(data_dir, "config", "view", "-o", "jsonpath={.users[*].name}").split()
    for name in names:
        command = ["kubectl", "config", "unset", f"users.{name}", "--kubeconfig", str(path)]
        subprocess.run(command, check=True, capture_output=True)
    return str(path)
