"""``quorate submit``, ``logs`` and ``cancel``: from the command line to pods that run, and back."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from quorate.api.meta import Key
from quorate.kube.clock import WallClock
from quorate.kube.resources import JOBS, SERVICES, WORKLOAD_PRIORITY_CLASSES
from quorate.local.nodes import NodePool
from quorate.local.nodes.fleet import register
from tests.e2e.commands import ROOT, cluster, kubectl, needs_kubectl
from tests.e2e.queue_manifests import queue_of_one_cpu
from tests.e2e.verbs import CommandLine, story_runner
from tests.e2e.world import NAMESPACE, World
from tests.forked_command import forked_command
from tests.local.runtime.world import runs_processes

pytestmark = pytest.mark.slow


def test_a_command_becomes_a_job_in_the_only_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, command: CommandLine) -> None:
        where = ("-n", NAMESPACE)
        printed = await command.output_of("submit", *where, "--name", "train", "--nodes", "2", "--", "./run")
        assert printed == "job.batch/train created\n"
        await world.until_admitted("train")
        job = await world.client.get(JOBS, Key(NAMESPACE, "train"))
        service = await world.client.get(SERVICES, Key(NAMESPACE, "train"))
        assert service["metadata"]["ownerReferences"][0]["uid"] == job.metadata.uid

        await world.client.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 5})
        wrong = await command("submit", *where, "--priority", "urgnt", "--", "./run")
        assert (wrong.code, wrong.out) == (2, "")
        message = "error: --priority urgnt: no WorkloadPriorityClass of that name (did you mean urgent?)\n"
        assert wrong.err == message
        wrong = await command("submit", "-n", "defaults", "--priority", "urgent", "--", "./run")
        assert wrong.err == "error: namespace defaults does not exist (did you mean default?)\n"

        again = await command("submit", *where, "--name", "train", "--", "./run")
        assert again.code == 2
        assert "quorate cancel train first" in again.err
        assert await command.output_of("cancel", *where, "train") == "job.batch/train cancelled\n"

        async def is_gone() -> bool:
            return not (await world.client.list(JOBS, NAMESPACE)).items

        await world.until("the job is gone", is_gone)
        missing = await command("logs", *where, "train")
        assert (missing.code, missing.out) == (2, "")
        assert "no workload or job 'train' in namespace default (quorate status" in missing.err

    story_runner(tmp_path, monkeypatch)(story)


def test_a_dry_run_says_whether_and_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, command: CommandLine) -> None:
        line = ("submit", "-n", NAMESPACE, "--dry-run", "--name", "train", "-o", "yaml")
        fits = await command(*line, "--cpus", "4", "--", "./run")
        assert (fits.code, fits.err) == (0, "it would start now, with quota of research\n")
        assert [document["kind"] for document in yaml.safe_load_all(fits.out)] == ["Job"]

        await world.job("holder", cpu="3", runs="1h")
        await world.until_admitted("holder")
        waits = await command(*line, "--cpus", "4", "--", "./run")
        assert waits.code == 0
        assert "it would wait: " in waits.err
        assert "3 more cpu of flavor default must become free" in waits.err
        assert "it would start in half of the runs within" in waits.err

        never = await command(*line, "--cpus", "5", "--", "./run")
        assert never.code == 1
        assert "it can never start" in never.err
        assert "let each pod of pod set main request at most 1 cpu" in never.err
        assert [job.metadata.name for job in (await world.client.list(JOBS, NAMESPACE)).items] == ["holder"]

        await register(world.client, WallClock(), NodePool(1, cpu="8"), "node-1", "10.0.1.1")
        await world.cluster_queue("1000", "large")
        await world.local_queue("large", "large")
        too_large = await command(*line, "-q", "large", "--cpus", "900", "--", "./run")
        assert too_large.code == 1
        assert "it would never start as the cluster is now: 1 of 1 pods fits no node: cpu: " in too_large.err

    story_runner(tmp_path, monkeypatch)(story)


def test_a_queue_that_does_not_exist_is_refused_with_a_suggestion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World, command: CommandLine) -> None:
        for options, message in (
            (("-q", "queeu"), "-q queeu: no local queue of that name in namespace"),
            (
                ("-q", "queeu"),
                "(did you mean queue?)",
            ),
            (("-q", "x"), "(there are: queue)"),
            (("--mem", "lots"), "--mem lots: is no quantity (write 2, 500m or 16Gi)"),
        ):
            refused = await command("submit", "-n", NAMESPACE, *options, "--", "./run")
            assert refused.code == 2
            assert message in refused.err
        nowhere = await command("submit", "-n", "kube-system", "--", "./run")
        assert (
            "no local queues in namespace kube-system (an administrator makes one: quorate queue"
            in nowhere.err
        )
        await world.local_queue("other", cluster_queue="research")
        several = await command("submit", "-n", NAMESPACE, "--", "./run")
        assert "choose one with -q: other, queue" in several.err

    story_runner(tmp_path, monkeypatch)(story)


def test_a_job_without_its_service_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World, command: CommandLine) -> None:
        taken = {"metadata": {"name": "taken"}, "spec": {"ports": [{"port": 80}]}}
        await world.client.create(SERVICES, taken, NAMESPACE)
        for options in (("--dry-run",), ()):
            refused = await command(
                "submit", "-n", NAMESPACE, "--name", "taken", "--nodes", "2", *options, "--", "./run"
            )
            assert (refused.code, refused.out) == (2, "")
            assert 'services "taken" already exists' in refused.err

        async def is_gone() -> bool:
            return not (await world.client.list(JOBS, NAMESPACE)).items

        await world.until("the job is gone", is_gone)

    story_runner(tmp_path, monkeypatch)(story)


def test_options_mean_the_same_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, command: CommandLine) -> None:
        script = tmp_path / "1_count.sh"
        script.write_text("#QUORATE --nodes 2\necho\n")
        submit = ("submit", "-n", NAMESPACE, "--dry-run")
        attached = await command(*submit, f"-f{script}", "-o", "yaml")
        job, _ = yaml.safe_load_all(attached.out)
        assert job["spec"]["completions"] == 2
        assert job["metadata"]["name"].startswith("count-")
        assert (await command.output_of(*submit, "--", "./bin/Train")).startswith("job.batch/train-")
        limited = await command(
            *submit, "--gang", "--time", "2h", "-q", "queue", "--name", "g", "--", "./run"
        )
        assert (limited.code, limited.out) == (0, "job.batch.volcano.sh/g (dry run)\n")
        assert await command.completes(f"submit -n {NAMESPACE} -f missing -q que") == ["queue"]
        for verb in ("cancel", "logs"):
            nameless = await command(verb, "-n", NAMESPACE, "")
            assert (nameless.code, nameless.err) == (
                2, "error: '' is no job (write NAME or TYPE/NAME, such as job/train)\n"
            )  # fmt: skip

    story_runner(tmp_path, monkeypatch)(story)


SCRIPT = """#!/bin/sh
#SBATCH --job-name=count --array=5-6
#SBATCH --mail-type=END
#QUORATE --cpus 100m -q lab
echo "task $ARRAY_TASK_ID of $1 $(echo $$ | tr -d 0-9)"
test $ARRAY_TASK_ID = "$2" && exit 3
exit 0
"""


@runs_processes
@needs_kubectl(21)
def test_a_script_runs_and_its_output_is_shown(tmp_path: Path) -> None:
    directory, script = tmp_path / "cluster", tmp_path / "count.sh"
    script.write_text(SCRIPT)
    manifests = tmp_path / "queues.yaml"
    manifests.write_text(queue_of_one_cpu("lab"))
    with cluster(directory, "--runtime", "process"):
        environment = {**os.environ, "KUBECONFIG": str(directory / "kubeconfig")}

        def quorate(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [forked_command(), *arguments], capture_output=True, text=True, timeout=100, check=False,
                cwd=ROOT, env=environment,
            )  # fmt: skip

        kubectl(directory, "apply", "-f", str(manifests))
        done = quorate("submit", "-f", str(script), "--logs", "--", "two")
        assert done.returncode == 0, done.stderr
        first, *lines = done.stdout.splitlines()
        assert first == "job.batch/count created"
        assert sorted(lines) == ["[0] task 5 of two ", "[1] task 6 of two "]
        assert "#SBATCH --mail-type has no meaning here" in done.stderr
        assert "\nsucceeded" in done.stderr
        assert quorate("logs", "count").stdout.splitlines() == sorted(lines)

        failing = quorate("submit", "-f", str(script), "--name", "fails", "--wait", "--", "two", "6")
        assert failing.returncode == 1
        assert "failed: " in failing.stderr
