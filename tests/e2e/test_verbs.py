"""``quorate queue`` and ``quorate workload`` against a running cluster."""

import json
from pathlib import Path

import pytest
import yaml

from quorate import __version__
from quorate.api.meta import Key, LabelSelector, ObjectMeta
from quorate.install.preflight.installation_objects import DEPLOYMENTS
from quorate.kube.resources import (
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    WORKLOADS,
)
from tests.e2e.verbs import (
    CommandLine,
    RunWithCommands,
    cells,
    name_of,
    queue_of,
    story_runner,
    titles,
    until_counted,
)
from tests.e2e.world import NAMESPACE, World

pytestmark = pytest.mark.slow


@pytest.fixture
def run_with_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWithCommands:
    return story_runner(tmp_path, monkeypatch)


def test_the_lists_have_the_columns_of_kueuectl(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.cluster_queue("1", name="idle", cohortName="science", flavor="none")
        await world.job("train", pods=4)
        await world.until_admitted("train")
        await world.job("evaluate")
        await world.until_condition("evaluate", "QuotaReserved", "False", "WaitingForQuota")
        await until_counted(world, pending=1, admitted=1)

        listed = await command.output_of("queue", "list")
        assert titles(listed) == [
            "NAME", "COHORT", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE", "CPU"
        ]  # fmt: skip
        rows = [line.split() for line in listed.splitlines()[1:]]
        assert [[*row[:-2], row[-1]] for row in rows] == [
            ["idle", "science", "0", "0", "false", "0/1"],
            ["research", "1", "1", "true", "4/4"],
        ]
        assert "research" not in await command.output_of("queue", "list", "--active", "false")

        listed = await command.output_of("queue", "list", "lq", "--all-namespaces")
        assert titles(listed) == [
            "NAMESPACE", "NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE"
        ]  # fmt: skip
        assert [line.split()[:-1] for line in listed.splitlines()[1:]] == [
            [NAMESPACE, "queue", "research", "1", "1", "true"]
        ]
        await world.local_queue("lost", cluster_queue="absent")
        inactive = ("queue", "list", "lq", "--active", "false", "-o", "wide")

        async def lost_is_listed() -> bool:
            return "ClusterQueueDoesNotExist" in (await command(*inactive)).out

        await world.until("the reason is listed", lost_is_listed)
        listed = await command.output_of(*inactive)
        assert titles(listed)[-3:] == ["STOP POLICY", "REASON", "WHY INACTIVE"]
        assert [line.split()[0] for line in listed.splitlines()[1:]] == ["lost"]
        assert "lost" not in await command.output_of("queue", "list", "lq", "--active", "true")
        assert (await command("queue", "list", "--local", "-c", "idle")).err == (
            f"No resources found in {NAMESPACE} namespace.\n"
        )

        listed = await command.output_of("workload", "list")
        assert titles(listed) == [
            "NAME", "JOB TYPE", "JOB NAME", "LOCALQUEUE", "CLUSTERQUEUE", "STATUS", "POSITION IN QUEUE",
            "STARTS IN P50-P90", "EXEC TIME", "AGE", "STATE", "REASON",
        ]  # fmt: skip
        train, evaluate = await name_of(world, "train"), await name_of(world, "evaluate")
        rows = [line.split() for line in listed.splitlines()[1:]]
        assert [row[:6] for row in rows] == [
            [evaluate, "job.batch", "evaluate", "queue", "research", "PENDING"],
            [train, "job.batch", "train", "queue", "research", "ADMITTED"],
        ]
        head, *lines = listed.splitlines()
        start, end, states = (head.index(title) for title in ("EXEC TIME", "AGE", "STATE"))
        times = [line[start:end].strip() for line in lines]
        assert [bool(time) for time in times] == [False, True], "only what was admitted has an execution time"
        assert lines[0][states:].split() == ["Queued", "QuotaShort"]
        for options, want in (
            (("--status", "pending"), [evaluate]),
            (("--status", "admitted", "--status", "finished"), [train]),
            (("--for", "job/train"), [train]),
            (("--for", "jobs.batch/evaluate"), [evaluate]),
            (("-q", "other"), []),
            (("-c", "research", "-n", NAMESPACE), [evaluate, train]),
            (("--field-selector", f"metadata.name={train}"), [train]),
        ):
            done = await command("workload", "list", "-o", "name", *options)
            assert done.out.split() == [f"workload.kueue.x-k8s.io/{name}" for name in want], options
        wide = cells(await command.output_of("workload", "list", "-o", "wide", "--status", "pending"))
        assert (
            wide[0][-1].strip().endswith("insufficient unused quota for cpu in flavor default, 1 more needed")
        )

    run_with_commands(story)


def test_yaml_and_json_output_is_decodable(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        listed = json.loads(await command.output_of("queue", "list", "-o", "json"))
        assert [
            (each["apiVersion"], each["kind"], each["spec"]["stopPolicy"]) for each in listed["items"]
        ] == [("kueue.x-k8s.io/v1beta2", "ClusterQueue", "None")]
        listed = yaml.safe_load(await command.output_of("queue", "list", "lq", "-o", "yaml"))
        assert [each["metadata"]["name"] for each in listed["items"]] == ["queue"]
        one = yaml.safe_load(await command.output_of("queue", "describe", "lq/queue", "-o", "yaml"))
        assert one["spec"]["clusterQueue"] == "research"
        names = (await command.output_of("queue", "list", "-o", "name")).split()
        assert await command.output_of("queue", "describe", *names, "-o", "name")

    run_with_commands(story)


def test_a_stopped_queue_evicts_its_workloads_and_a_resumed_one_admits_them(
    run_with_commands: RunWithCommands,
) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train")
        await world.until_admitted("train")

        for rehearsal in ("client", "server"):
            done = await command("queue", "stop", "research", "--dry-run", rehearsal)
            assert done.out == f"clusterqueue.kueue.x-k8s.io/research stopped ({rehearsal} dry run)\n"
            shown = await command.output_of("queue", "stop", "research", "--dry-run", rehearsal, "-o", "json")
            assert json.loads(shown)["spec"]["stopPolicy"] == "HoldAndDrain"
        assert (await queue_of(world)).spec.stop_policy == "None"

        output = await command.output_of("queue", "stop", "research", "--keep-already-running")
        assert output == "clusterqueue.kueue.x-k8s.io/research stopped\n"
        assert (await queue_of(world)).spec.stop_policy == "Hold"
        assert await world.admitted() == {"train"}

        await until_counted(world, pending=0, admitted=1)
        for answer in ("n", ""):
            kept = await command("queue", "stop", "research", given=answer)
            assert kept.code == 1
            assert "This evicts 1 workload" in kept.err
        assert (await queue_of(world)).spec.stop_policy == "Hold"
        await command.output_of("queue", "stop", "research", "--yes")
        await world.until_condition("train", "Evicted", reason="ClusterQueueStopped")
        await world.until_condition("train", "QuotaReserved", "False")
        output = await command.output_of("queue", "resume", "cq/research")
        assert output == "clusterqueue.kueue.x-k8s.io/research resumed\n"
        await world.until_admitted("train")

        output = await command.output_of("queue", "stop", "queue", "--local", "-n", NAMESPACE, "-y")
        assert output == "localqueue.kueue.x-k8s.io/queue stopped\n"
        await world.until_condition("train", "Evicted", reason="LocalQueueStopped")
        await command.output_of("queue", "resume", "localqueue.kueue.x-k8s.io/queue")
        assert (await world.client.get(LOCAL_QUEUES, Key(NAMESPACE, "queue"))).spec.stop_policy == "None"

    run_with_commands(story)


def test_a_stopped_workload_waits_until_it_is_resumed(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train")
        await world.until_admitted("train")
        name = await name_of(world, "train")
        output = await command.output_of("workload", "stop", "job/train")
        assert output == f"workload.kueue.x-k8s.io/{name} stopped\n"
        await world.until_condition("train", "Evicted", reason="Deactivated")
        assert "quorate workload resume" in await command.output_of("workload", "explain", name)
        output = await command.output_of("workload", "resume", name)
        assert output == f"workload.kueue.x-k8s.io/{name} resumed\n"
        await world.until_admitted("train")
        assert (await world.client.get(WORKLOADS, Key(NAMESPACE, name))).spec.active

    run_with_commands(story)


def test_describe_prints_spec_status_and_events(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train", pods=3)
        await world.until_admitted("train")
        await until_counted(world, pending=0, admitted=1)
        output = await command.output_of("queue", "describe", "research")
        assert "Workloads:    0 pending, 1 with quota, 1 admitted" in output
        assert ["default", "cpu", "4", "any", "all", "3", "3", "0"] in [
            line.split() for line in output.splitlines()
        ]
        assert [NAMESPACE, "queue", "0", "1"] in [line.split() for line in output.splitlines()]
        output = await command.output_of("queue", "describe", "lq/queue")
        assert ["default", "cpu", "3", "3"] in [line.split() for line in output.splitlines()]
        output = await command.output_of("workload", "describe", "job/train")
        assert "Status:         ADMITTED" in output
        assert ["main", "3", "3", "3", "cpu:", "default"] in [line.split() for line in output.splitlines()]
        assert "QuotaReserved   True" in output

    run_with_commands(story)


def test_create_commands_create_queues_and_flavors(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        made = await command.output_of("flavor", "create", "spot", "--node-labels", "capacity=spot")
        assert made == "resourceflavor.kueue.x-k8s.io/spot created\n"
        rows = cells(await command.output_of("flavor", "list"))
        assert [row[:2] for row in rows if row[0] == "spot"] == [["spot", "capacity=spot"]]

        quota = ("--nominal-quota", "spot:cpu=3", "--borrowing-limit", "spot:cpu=1", "--cohort", "science")
        policies = ("--queuing-strategy", "StrictFIFO", "--reclaim-within-cohort", "Any")
        rehearsed = await command.output_of(
            "queue", "create", "made", *quota, *policies, "--dry-run", "client", "-o", "json"
        )
        assert json.loads(rehearsed)["spec"]["queueingStrategy"] == "StrictFIFO"
        assert "made" not in await command.output_of("queue", "list")
        await command.output_of("queue", "create", "made", *quota, *policies, "--dry-run", "server")
        assert "made" not in await command.output_of("queue", "list")
        made = await command.output_of("queue", "create", "made", *quota, *policies)
        assert made == "clusterqueue.kueue.x-k8s.io/made created\n"
        spec = (await queue_of(world, "made")).spec
        assert (spec.cohort_name, spec.queueing_strategy) == ("science", "StrictFIFO")
        assert spec.preemption.reclaim_within_cohort == "Any"
        assert spec.namespace_selector == LabelSelector()

        failed = await command("queue", "create", "lq/mine", "-c", "typo")
        assert failed.code == 2
        assert 'clusterqueues.kueue.x-k8s.io "typo" not found' in failed.err
        await command.output_of("queue", "create", "lq/mine", "-c", "typo", "-i", "--dry-run", "server")
        await command.output_of("queue", "create", "lq/mine", "-c", "made")
        await world.job("train", pods=3, queue="mine")
        await world.until_admitted("train")

    run_with_commands(story)


def test_delete_asks_before_it_deletes_a_workload_with_its_job(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        for job in ("train", "test"):
            await world.job(job)
        await world.until_admitted("train", "test")
        name = await name_of(world, "train")
        failed = await command("workload", "delete", name, given="n\n")
        assert failed.code == 1
        assert f"- job.batch/train, with workload {name}\n" in failed.out
        for rehearsal in ("client", "server"):
            output = await command.output_of("workload", "delete", name, "--dry-run", rehearsal)
            assert output == f"job.batch/train deleted ({rehearsal} dry run)\n"
        assert await world.admitted() == {"train", "test"}
        assert (await command("workload", "delete", name, given="y\n")).out.endswith(
            "job.batch/train deleted\n"
        )
        await until_workloads(world, 1)

        lonely = {"podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]}
        await world.create(WORKLOADS, "lonely", NAMESPACE, spec=lonely)
        # Without a job, only the workload is deleted, so there is no prompt.
        output = await command.output_of("workload", "delete", "lonely")
        assert output == "workload.kueue.x-k8s.io/lonely deleted\n"
        assert await command.output_of("workload", "delete", "--all", "--yes") == "job.batch/test deleted\n"
        await until_workloads(world, 0)
        assert (
            await command("workload", "delete", "--all")
        ).err == "No resources found in default namespace.\n"

    run_with_commands(story)


async def until_workloads(world: World, count: int) -> None:
    async def found() -> bool:
        return len((await world.client.list(WORKLOADS, NAMESPACE)).items) == count

    await world.until(f"{count} workloads", found)


def test_the_pods_of_a_job_are_found_through_their_owners(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train", pods=2, suspend=True)
        await world.job("other", pods=1, suspend=True)
        found = await pods_of(world, "train", 2)
        child = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": found[0].name,
            "uid": found[0].uid,
            "controller": True,
        }
        metadata = {"name": "executor", "ownerReferences": [child]}
        await world.client.create(PODS, {"metadata": metadata, "spec": {"containers": [MAIN]}}, NAMESPACE)

        shown = await command.output_of("workload", "pods", "job/train")
        assert titles(shown) == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert {row[0] for row in cells(shown)} == {"executor", *(each.name for each in found)}
        assert "NODE" in titles(await command.output_of("workload", "pods", "job/train", "-o", "wide"))
        named = await command.output_of("workload", "pods", await name_of(world, "other"), "-o", "name")
        assert named == f"pod/{(await pods_of(world, 'other', 1))[0].name}\n"

    run_with_commands(story)


MAIN = {"name": "main", "image": "busybox"}


async def pods_of(world: World, job: str, count: int) -> list[ObjectMeta]:
    async def find() -> list[ObjectMeta] | None:
        pods = (await world.client.list(PODS, NAMESPACE)).items
        made = [pod.metadata for pod in pods if pod.metadata.name.startswith(f"{job}-")]
        return made if len(made) == count else None

    return await world.until(f"{count} pods of {job}", find)


def test_version_prints_client_server_and_controllers(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        client, cluster, controllers = (await command.output_of("version")).splitlines()
        assert client == f"quorate      {__version__}"
        assert cluster.startswith("cluster      v1.")
        assert cluster.endswith(world.client.config.server)
        assert controllers.startswith("controllers  none in namespace kueue-system")
        found = json.loads(await command.output_of("version", "-o", "json"))
        assert list(found) == ["quorate", "cluster", "controllers"]
        await world.create(NAMESPACES, "batch")
        pod = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "quorate:1"}]},
        }
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pod, "replicas": 0}
        await world.create(DEPLOYMENTS, "quorate-controllers", "batch", spec=spec)
        output = await command.output_of("version", "-n", "batch")
        assert "controllers  quorate:1 (batch/quorate-controllers, 0 of 0 ready)" in output

    run_with_commands(story)
