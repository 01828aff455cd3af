"""A process beside the controllers estimates when waiting workloads start, and commands show it."""

import re
from pathlib import Path

import pytest

from tests.e2e.commands import cluster, kubectl, needs_kubectl, poll, quorate
from tests.e2e.queue_manifests import queue_of_one_cpu

pytestmark = [pytest.mark.slow, needs_kubectl()]

WITHIN_S = 240.0  # ten seconds of waiting come first, then the start of a process with a lower priority
JOB = """---
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: default, labels: {kueue.x-k8s.io/queue-name: main}}
spec:
  suspend: true
  template:
    metadata: {annotations: {simulate.quorate.dev/duration: forever}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "train:1", resources: {requests: {cpu: 1}}}]
"""


def test_a_job_that_waits_has_an_estimate(tmp_path: Path) -> None:
    data_dir, manifests = tmp_path / "data", tmp_path / "world.yaml"
    manifests.write_text(queue_of_one_cpu("main") + JOB % "first" + JOB % "second")
    with cluster(data_dir):
        kubectl(data_dir, "apply", "--filename", str(manifests))

        with_estimate = re.compile(r"Starts: +P50 .*, P90 ")

        def explained() -> str:
            return command(data_dir, "explain", "job/first", "job/second")

        poll(explained, lambda text: with_estimate.search(text) is not None, WITHIN_S)
        assert (
            "run times of default/main: workloads that have finished: none; 3600 s is assumed" in explained()
        )
        (line,) = (row for row in command(data_dir, "workload", "list").splitlines() if "PENDING" in row)
        assert re.search(r" \d+m\w*-\d+m", line), line


def command(data_dir: Path, *arguments: str) -> str:
    done = quorate(*arguments, "--kubeconfig", str(data_dir / "kubeconfig"))
    assert done.returncode == 0, done.stderr
    return done.stdout
