"""Helm on a local cluster: a release from its install to its uninstall."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from quorate.testing.server import LocalCluster
from tests.clients.environments import run

BESIDE_PYTHON = Path(sys.executable).parent  # make helm
HELM = shutil.which("helm", path=f"{BESIDE_PYTHON}{os.pathsep}{os.environ['PATH']}")
QUEUED = "labels: {kueue.x-k8s.io/queue-name: research}"
POD = (
    "spec: {restartPolicy: Never, containers: [{name: main, image: train, resources: {requests: {cpu: 1}}}]}"
)
FILES = {
    "Chart.yaml": "{apiVersion: v2, name: train, version: 1.0.0}",
    "values.yaml": "{color: red, completions: 1}",
    "templates/settings.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: "{{ .Values.color }}"}
""",
    "templates/prepare.yaml": f"""
apiVersion: batch/v1
kind: Job
metadata:
  name: prepare
  annotations: {{helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}}
  {QUEUED}
spec: {{template: {{{POD}}}}}
""",
    "templates/train.yaml": f"""
apiVersion: batch/v1
kind: Job
metadata:
  name: train-{{{{ .Values.color }}}}
  {QUEUED}
spec: {{completions: {{{{ .Values.completions }}}}, template: {{{POD}}}}}
""",
}

pytestmark = [
    pytest.mark.skipif(HELM is None, reason="there is no helm (run: make helm)"),
    pytest.mark.quorate(speed=2),
]


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "train" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "train"


def test_a_release_is_installed_upgraded_rolled_back_and_uninstalled(
    chart: Path, queue: LocalCluster
) -> None:
    def helm(*arguments: str | Path) -> str:
        assert HELM is not None
        return run([HELM, *arguments], queue.environment)

    def color() -> Any:
        return queue.get("configmap", "settings")["data"]["color"]

    waiting = ("--wait", "--wait-for-jobs", "--timeout", "90s")
    helm("install", "nightly", chart, *waiting)
    assert color() == "red"
    assert queue.get("job", "prepare")["status"]["succeeded"] == 1
    assert queue.get("job", "train-red")["status"]["succeeded"] == 1

    helm("upgrade", "nightly", chart, "--set", "color=blue,completions=2", *waiting)
    assert color() == "blue"
    assert [each["metadata"]["name"] for each in queue.list("job")] == ["prepare", "train-blue"]
    assert queue.get("job", "train-blue")["status"]["succeeded"] == 2

    helm("rollback", "nightly", "1", *waiting)
    assert color() == "red"
    history = json.loads(helm("history", "nightly", "--output", "json"))
    assert [each["status"] for each in history] == ["superseded", "superseded", "deployed"]
    (release,) = json.loads(helm("list", "--output", "json"))
    assert (release["name"], release["revision"]) == ("nightly", "3")

    helm("uninstall", "nightly", *waiting[:1])
    assert json.loads(helm("list", "--all-namespaces", "--output", "json")) == []
    assert [each["metadata"]["name"] for each in queue.list("job")] == ["prepare"]  # a hook stays
    assert "settings" not in [each["metadata"]["name"] for each in queue.list("configmap")]
