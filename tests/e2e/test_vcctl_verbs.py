"""``quorate vcjob`` and ``quorate vcqueue`` against a cluster with running controllers."""

from pathlib import Path

import pytest

from quorate.api import codec
from quorate.api.core import PodTemplate
from quorate.api.meta import Key
from quorate.kube.resources import QUEUES, VOLCANO_JOBS
from tests.e2e.verbs import CommandLine, cells
from tests.e2e.volcano import Gangs, run_story
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow


def test_jobs_are_listed_suspended_resumed_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(gangs: Gangs) -> None:
        command = CommandLine(gangs.world, tmp_path, monkeypatch)
        in_namespace = ("-n", NAMESPACE)
        await gangs.job("train", "worker=2", queue="research")
        await gangs.job("other", "worker=1")
        await gangs.until_job("train", "Pending")
        listed = await command.output_of("vcjob", "list", "--queue", "research", *in_namespace)
        assert [line[:5] for line in cells(listed)] == [["train", "research", "Pending", "2", "2"]]
        named = await command.output_of("vcjob", "list", "--selector", "oth", "-o", "name", *in_namespace)
        assert named == "job.batch.volcano.sh/other\n"

        done = await command.output_of("vcjob", "suspend", "-N", "train", *in_namespace)
        assert done == "job.batch.volcano.sh/train suspended\n"
        await gangs.until_job("train", "Aborted")
        shown = await command.output_of("vcjob", "view", "train", *in_namespace)
        assert "AbortJob by command train-abortjob-" in shown
        await command.output_of("vcjob", "resume", "train", *in_namespace)
        await gangs.until_job("train", "Pending")
        await command.output_of("vcjob", "delete", "train", *in_namespace)
        missing = await command("vcjob", "view", "train", *in_namespace)
        assert (missing.code, "not found" in missing.err) == (2, True)
        unnamed = await command("vcjob", "suspend", *in_namespace)
        assert "NAME and -N NAME are missing" in unnamed.err

    run_story(story)


def test_jobs_are_created_from_options_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(gangs: Gangs) -> None:
        command = CommandLine(gangs.world, tmp_path, monkeypatch)
        in_namespace = ("-n", NAMESPACE)
        run = ("vcjob", "run", *in_namespace)
        shape = ("-i", "trainer:1", "-r", "3", "-m", "2", "-R", "cpu=2,memory=1Gi", "-L", "", "-S", "quorate")
        done = await command.output_of(*run, "-N", "train", *shape)
        assert done == "job.batch.volcano.sh/train created\n"
        await gangs.until_job("train", "Pending")
        job = await gangs.client.get(VOLCANO_JOBS, Key(NAMESPACE, "train"))
        (task,) = job.spec.tasks
        assert (task.replicas, job.spec.min_available, job.spec.scheduler_name) == (3, 2, "quorate")
        template = codec.decode(PodTemplate, task.template)
        assert template.metadata.labels["job.volcano.sh"] == "train"
        (container,) = template.spec.containers
        assert (container.image, container.resources.limits) == ("trainer:1", {})
        assert {name: str(each) for name, each in container.resources.requests.items()} == {
            "cpu": "2",
            "memory": "1Gi",
        }

        shown = await command.output_of(*run, "train2", "--dry-run", "client", "-o", "yaml")
        assert "cpu: 1000m" in shown
        path = tmp_path / "job.yaml"
        path.write_text(shown, encoding="utf-8")
        assert (
            await command.output_of("vcjob", "run", "-f", str(path))
            == "job.batch.volcano.sh/train2 created\n"
        )
        twice = await command("vcjob", "run", "-f", str(path))
        assert (twice.code, "already exists" in twice.err) == (2, True)
        for arguments, problem in (
            (("-n", "other", "-f", str(path)), f"has namespace {NAMESPACE}"),
            (("train3", "-R", "cpu"), "--requests: 'cpu' is not NAME=AMOUNT"),
            (("-f", str(tmp_path / "none.yaml")), "no such file"),
            ((), "NAME and -N NAME are missing"),
        ):
            refused = await command("vcjob", "run", *arguments)
            assert (refused.code, problem in refused.err) == (2, True), refused.err

    run_story(story)


def test_queues_are_created_operated_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(gangs: Gangs) -> None:
        command = CommandLine(gangs.world, tmp_path, monkeypatch)

        async def until_state(state: str) -> None:
            async def found() -> bool:
                queue = await gangs.client.get(QUEUES, Key("", "lab"))
                return queue.status.state == state

            await gangs.world.until(f"the queue is {state}", found)

        await command.output_of("vcqueue", "create", "-n", "lab", "-w", "3")
        await until_state("Open")
        await command.output_of("vcqueue", "operate", "lab", "-a", "close")
        await until_state("Closed")
        await command.output_of("vcqueue", "operate", "lab", "--action", "update", "--weight", "5")
        (line,) = cells(await command.output_of("vcqueue", "get", "lab"))
        assert line[:4] == ["lab", "5", "Closed", "root"]
        refused = await command("vcqueue", "operate", "lab", "-a", "open", "-w", "2")
        assert "--weight is for --action update" in refused.err
        await command.output_of("vcqueue", "operate", "lab", "-a", "open")
        await until_state("Open")
        await command.output_of("vcqueue", "delete", "lab")
        await command.output_of("vcqueue", "create", "lab", "--state", "Closed")
        await until_state("Closed")
        await command.output_of("vcqueue", "delete", "lab")
        assert "lab" not in await command.output_of("vcqueue", "list", "-o", "name")

    run_story(story)
