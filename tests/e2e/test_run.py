"""``quorate local run`` on the all-or-nothing example, with and without waitForPodsReady."""

import re
import shutil
from pathlib import Path

import pytest

from quorate.cli.run.demo import ATTEMPTS
from tests.e2e.commands import EXAMPLE, quorate

pytestmark = pytest.mark.slow

PODS, CAPACITY = 10, 12  # of each of the two jobs, and of the two nodes
# By file: a part of it and what replaces the part.
SMALLER = {
    "1-quick-job.yaml": ("s: 50\n", "s: 4\n"),
    "2-job1.yaml": ("s: 20\n", f"s: {PODS}\n"),
    "3-job2.yaml": ("s: 20\n", f"s: {PODS}\n"),
    "cluster.yaml": ("memory: 4315648Ki", "memory: 1900Mi"),
}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Return a copy of the example with a quarter of its pods; the task page is about all of them."""
    copy = shutil.copytree(EXAMPLE, tmp_path / "example")
    for name, (part, replacement) in SMALLER.items():
        text = (copy / name).read_text()
        assert part in text, name
        (copy / name).write_text(text.replace(part, replacement))
    return copy


def test_quota_without_gangs_deadlocks_and_the_report_names_holders_and_waiters(example: Path) -> None:
    for _ in range(ATTEMPTS):  # rarely, one job gets all its nodes before the other starts
        done = quorate("local", "run", str(example), "--config", str(example / "without-pods-ready.yaml"))
        if done.returncode != 0:
            break
    assert done.returncode == 3, done.stdout + done.stderr
    report = re.findall(
        rf"(job\d) runs (\d+) of {PODS} pods and holds memory (\d+)Mi; (\d+) more pods? needs? memory 316Mi",
        done.stdout,
    )
    assert [job for job, *_ in report] == ["job1", "job2"]
    running, held, missing = ([int(numbers[column]) for _, *numbers in report] for column in range(3))
    assert sum(running) == CAPACITY
    assert held == [316 * count for count in running]
    assert missing == [PODS - count for count in running]
    assert "deadlock: nothing can make progress any more" in done.stdout
    assert done.stderr == ""


def time_of(output: str, job: str, stage: str) -> float:
    """Return when ``job`` was first shown in ``stage``, in seconds."""
    shown = re.search(rf"([\d.]+) s  {job}: {stage}", output)
    assert shown is not None, output
    return float(shown[1])


@pytest.mark.parametrize("speed", ["4", "40"])  # all pods of a job run together for 2.5 s and for 0.25 s
def test_wait_for_pods_ready_completes_the_jobs_one_after_another(example: Path, speed: str) -> None:
    done = quorate(
        "local", "run", str(example), "--config", str(example / "with-pods-ready.yaml"), "--speed", speed
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout[done.stdout.index("JOB ") :].splitlines()
    results = {row.split()[0]: row.split()[-1] for row in table[1:4]}
    assert results == {"job1": "completed", "job2": "completed", "quick-job": "completed"}
    assert table[5] == "every job completed"
    started = sorted((time_of(done.stdout, job, "(?:Starting|Running)"), job) for job in ("job1", "job2"))
    (_, first), (second_started, second) = started
    assert time_of(done.stdout, second, f"Running, {PODS} ready") >= second_started
    # Both may appear in the same observation.
    assert time_of(done.stdout, first, f"Running, {PODS} ready") <= second_started, done.stdout
    assert done.stderr == ""


JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  labels: {{kueue.x-k8s.io/queue-name: user-queue}}
spec:
  suspend: true
  backoffLimit: 0
  template:
    metadata:
      annotations: {{simulate.quorate.dev/start-delay: 100ms, simulate.quorate.dev/exit-code: "{exit_code}"}}
    spec:
      restartPolicy: Never
      containers:
      - {{name: main, image: "busybox", resources: {{requests: {{memory: {memory}}}}}}}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "queues.yaml").write_text((EXAMPLE / "cluster-queues.yaml").read_text())
    return tmp_path


def test_a_failed_job_is_reported_with_its_reason(directory: Path) -> None:
    (directory / "bad.yaml").write_text(JOB.format(name="bad", exit_code=3, memory="1Mi"))
    (directory / "good.yaml").write_text(JOB.format(name="good", exit_code=0, memory="1Mi"))
    done = quorate("local", "run", str(directory), "--speed", "5")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "bad failed: BackoffLimitExceeded: " in done.stdout


def test_a_job_above_the_quota_of_its_queue_is_reported_with_the_amounts(directory: Path) -> None:
    (directory / "big.yaml").write_text(JOB.format(name="big", exit_code=0, memory="20Gi"))
    done = quorate("local", "run", str(directory))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "no progress: nothing can make progress any more" in done.stdout
    assert "memory" in done.stdout
    assert "16858Mi" in done.stdout


def test_a_run_ends_at_its_time_limit(directory: Path) -> None:
    (directory / "slow.yaml").write_text(
        JOB.format(name="slow", exit_code=0, memory="1Mi").replace("100ms,", "60s,")
    )
    done = quorate("local", "run", str(directory), "--timeout", "2")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "not finished within 2 s: slow (allow more with --timeout)" in done.stdout


def test_a_manifest_rejected_by_the_server_is_reported_with_its_location(directory: Path) -> None:
    (directory / "a.yaml").write_text("apiVersion: batch/v1\nkind: Jobb\nmetadata: {name: a}\n")
    job = JOB.format(name="Not_A_Name", exit_code=0, memory="1Mi")
    (directory / "b.yaml").write_text(job)
    done = quorate("local", "run", str(directory))
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert first == f"error: {directory}/a.yaml:2: kind: 'Jobb' is no kind of batch/v1 (did you mean Job?)"
    assert second.startswith(f"error: {directory}/b.yaml:2: Job Not_A_Name: ")
    assert "metadata.name" in second
