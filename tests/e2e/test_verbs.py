"""``quorate queue`` and ``quorate workload`` against a running cluster."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate import __version__
from quorate.api.configuration import DEFAULT_NAMESPACE, default_configuration
from quorate.api.kueue import ClusterQueue
from quorate.api.meta import Key, LabelSelector, ObjectMeta
from quorate.cli.deployment import scheduler
from quorate.cli.preflight.installation_objects import DEPLOYMENTS
from quorate.cli.verbs.cluster_model import effective_configuration
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    WORKLOADS,
    untyped,
)
from tests.e2e.service_accounts import as_account
from tests.e2e.verbs import CommandLine, cells, titles
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
Story = Callable[[World, CommandLine], Awaitable[None]]
RunWithCommands = Callable[[Story], None]


@pytest.fixture
def run_with_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWithCommands:
    """Run a story with controllers, a cluster queue of 4 cpus and a command line."""

    def run(story: Story) -> None:
        async def with_commands(world: World) -> None:
            await world.queues(cpu="4")
            await story(world, CommandLine(world, tmp_path, monkeypatch))

        run_story(with_commands, default_configuration())

    return run


async def name_of(world: World, job: str) -> str:
    workload = await world.workload(job)
    assert workload is not None
    return workload.metadata.name


async def queue_of(world: World, name: str = "research") -> ClusterQueue:
    return await world.client.get(CLUSTER_QUEUES, Key("", name))


async def until_counted(world: World, pending: int, admitted: int) -> None:
    """Wait for workload counts in the cluster queue and in its local queues."""

    async def counted() -> bool:
        queue = await queue_of(world)
        locals_ = (await world.client.list(LOCAL_QUEUES)).items
        statuses = [each.status for each in locals_ if each.spec.cluster_queue == queue.metadata.name]
        below = (
            sum(each.pending_workloads for each in statuses),
            sum(each.admitted_workloads for each in statuses),
        )
        above = queue.status.pending_workloads, queue.status.admitted_workloads
        return above == below == (pending, admitted)

    await world.until(f"{pending} pending and {admitted} admitted are counted", counted)


def test_the_lists_have_the_columns_of_kueuectl(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.cluster_queue("1", name="idle", cohortName="science", flavor="none")
        await world.job("train", pods=4)
        await world.until_admitted("train")
        await world.job("evaluate")
        await world.until_condition("evaluate", "QuotaReserved", "False", "Pending")
        await until_counted(world, pending=1, admitted=1)

        listed = await command.output_of("queue", "list")
        assert titles(listed) == [
            "NAME", "COHORT", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE"
        ]  # fmt: skip
        rows = [line.split() for line in listed.splitlines()[1:]]
        assert [row[:-1] for row in rows] == [
            ["idle", "science", "0", "0", "false"],
            ["research", "1", "1", "true"],
        ]
        assert "research" not in await command.output_of("queue", "list", "--active", "false")

        listed = await command.output_of("queue", "list", "lq", "--all-namespaces")
        assert titles(listed) == [
            "NAMESPACE", "NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "AGE"
        ]  # fmt: skip
        assert [line.split()[:-1] for line in listed.splitlines()[1:]] == [
            [NAMESPACE, "queue", "research", "1", "1"]
        ]
        assert (await command("queue", "list", "--local", "-c", "idle")).err == (
            f"No resources found in {NAMESPACE} namespace.\n"
        )

        listed = await command.output_of("workload", "list")
        assert titles(listed) == [
            "NAME", "JOB TYPE", "JOB NAME", "LOCALQUEUE", "CLUSTERQUEUE", "STATUS", "POSITION IN QUEUE",
            "EXEC TIME", "AGE",
        ]  # fmt: skip
        train, evaluate = await name_of(world, "train"), await name_of(world, "evaluate")
        rows = [line.split() for line in listed.splitlines()[1:]]
        assert [row[:6] for row in rows] == [
            [evaluate, "job.batch", "evaluate", "queue", "research", "PENDING"],
            [train, "job.batch", "train", "queue", "research", "ADMITTED"],
        ]
        assert (len(rows[0]), len(rows[1])) == (7, 8), "only what was admitted has an execution time"
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

        await command.output_of("queue", "stop", "research")
        await world.until_condition("train", "Evicted", reason="ClusterQueueStopped")
        await world.until_condition("train", "QuotaReserved", "False")
        output = await command.output_of("queue", "resume", "cq/research")
        assert output == "clusterqueue.kueue.x-k8s.io/research resumed\n"
        await world.until_admitted("train")

        output = await command.output_of("queue", "stop", "queue", "--local", "-n", NAMESPACE)
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


def test_explain_states_the_missing_quota_its_holders_and_what_helps(
    run_with_commands: RunWithCommands,
) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train", pods=3)
        await world.until_admitted("train")
        await world.job("big", pods=2)
        await world.until_condition("big", "QuotaReserved", "False", "Pending")
        await world.job("huge", pods=5)
        await world.until_condition("huge", "QuotaReserved", "False", "Pending")
        train, big = await name_of(world, "train"), await name_of(world, "big")

        explanation = json.loads(await command.output_of("workload", "explain", "job/big", "-o", "json"))
        shortage = "insufficient unused quota for cpu in flavor default, 1 more needed"
        assert explanation == {
            "workload": f"{NAMESPACE}/{big}",
            "standing": "waits",
            "says": f"couldn't assign flavors to pod set main: {shortage}",
            "localQueue": "queue",
            "clusterQueue": "research",
            "ahead": 0,
            "reasons": [
                {
                    "cause": "QuotaShort", "text": shortage, "podSet": "main", "flavor": "default",
                    "resource": "cpu", "needed": "2", "free": "1", "shortBy": "1", "atMost": "4",
                }
            ],
            "heldBy": [
                {
                    "workload": f"{NAMESPACE}/{train}", "clusterQueue": "research", "flavor": "default",
                    "resource": "cpu", "amount": "3",
                }
            ],
            "wouldTake": ["1 more cpu of flavor default must become free"],
        }  # fmt: skip

        explanation = json.loads(await command.output_of("workload", "explain", "job/huge", "-o", "json"))
        assert explanation["canNeverFit"]
        assert explanation["says"] == (
            "it can never start with the current configuration, even if every other workload finishes"
        )
        assert explanation["ahead"] == 1
        assert explanation["firstAhead"] == [f"{NAMESPACE}/{big}"]
        (advice,) = explanation["wouldTake"]
        assert advice.startswith("request 1 less cpu of flavor default")

        output = await command.output_of("workload", "explain", big)
        assert "Quota:" in output
        assert "- 1 more cpu of flavor default must become free" in output

    run_with_commands(story)


def test_explain_reports_missing_and_stopped_queues(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("lost", queue="nowhere")
        await world.until_condition("lost", "QuotaReserved", "False", "Inadmissible")
        output = await command.output_of("workload", "explain", "job/lost")
        assert f"create the LocalQueue {NAMESPACE}/nowhere" in output
        await command.output_of("queue", "stop", "research")
        await world.job("train")
        await world.until_condition("train", "QuotaReserved", "False", "Inadmissible")
        output = await command.output_of("workload", "explain", "job/train")
        assert (
            "make cluster queue research active again: is stopped (quorate queue resume research)" in output
        )

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
        assert ["main", "3", "3", "cpu", "3", "cpu:", "default"] in [
            line.split() for line in output.splitlines()
        ]
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


def test_explain_uses_the_configuration_of_the_controllers(
    run_with_commands: RunWithCommands, tmp_path: Path
) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train", pods=9)
        name = (await world.until_condition("train", "QuotaReserved", "False")).metadata.name

        async def origin(*options: str) -> str:
            done = await command("workload", "explain", name, *options)
            assert done.code == 0
            return done.err

        missing = "no ConfigMap kueue-system/quorate-configuration; --config FILE sets another"
        assert await origin() == f"evaluated with the defaults ({missing})\n"
        await world.create(NAMESPACES, "kueue-system")
        data = {"controller_manager_config.yaml": CONFIGURATION}
        for installed in ("kueue-manager-config", "quorate-configuration"):
            await world.create(CONFIG_MAPS, installed, "kueue-system", data=data)
            assert await origin() == f"evaluated with ConfigMap kueue-system/{installed}\n"
        report = json.loads((await command("preflight", "-o", "json")).out)
        (remark,) = [each for each in report["remarks"] if each["about"] == "configuration"]
        assert remark["says"] == "evaluated with ConfigMap kueue-system/quorate-configuration"
        given = tmp_path / "given.yaml"
        given.write_text(CONFIGURATION)
        assert await origin("--config", str(given)) == f"evaluated with {given}\n"
        key = Key("kueue-system", "quorate-configuration")
        broken = {"data": {"controller_manager_config.yaml": f"{CONFIGURATION}health: 5\n"}}
        await world.client.patch(CONFIG_MAPS, key, broken)
        assert (await origin()).startswith(f"evaluated with the defaults (ConfigMap {key}: ")

    run_with_commands(story)


def test_explain_uses_the_defaults_without_access_to_the_configuration(
    run_with_commands: RunWithCommands,
) -> None:
    async def story(world: World, command: CommandLine) -> None:
        # An account for the gang scheduler may not read the configuration of the controllers.
        roles = scheduler.roles(DEFAULT_NAMESPACE)
        async with as_account(world.client, scheduler.ACCOUNT, DEFAULT_NAMESPACE, roles) as client:
            used = await effective_configuration(client, None)
        assert used.configuration == default_configuration()
        assert "no permission to get ConfigMap kueue-system/quorate-configuration" in used.origin

    run_with_commands(story)


CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def test_the_shell_completes_the_names_of_objects(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train", suspend=True)
        await world.until_admitted("train")
        name = await name_of(world, "train")
        for line, offered in (
            ("work", "workload"),
            ("workload describe job-tr", name),
            ("queue stop re", "research"),
            ("queue stop lq/", "lq/queue"),
            ("queue describe --local q", "queue"),
            ("workload list -n def", "default"),
            ("workload list --localqueue ", "queue"),
            ("workload describe -n nowhere job", ""),
            ("workload describe --context nowhere job", ""),
        ):
            assert await command.completes(line) == offered.split(), line
        os.environ["KUBECONFIG"] = "/nonexistent"
        assert await command.completes("workload describe job-tr") == []

    run_with_commands(story)


MISTAKES = (
    ("queue stop queue -n default", "-n is for local queues"),
    ("queue list -A", "-A is for local queues"),
    ("queue list pods", "'pods' is no kind of queue"),
    ("queue resume --local cq/a", "cq selects cluster queues"),
    ("queue list lq --active true", "--active is for cluster queues"),
    ("queue list -c research", "-c is for local queues"),
    ("queue create lq/a", "a local queue needs a cluster queue (write -c NAME)"),
    ("queue create lq/a -c b --cohort c", "a local queue has no quota"),
    ("queue create a -c b", "-c is for local queues"),
    ("queue stop none", 'PATCH /apis/kueue.x-k8s.io/v1beta2/clusterqueues/none: 404 NotFound: '
                        'clusterqueues.kueue.x-k8s.io "none" not found'),
    ("workload explain none", "GET /apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads/none: 404"),
    ("workload explain job/none", "GET /apis/batch/v1/namespaces/default/jobs/none: 404 NotFound"),
    ("workload delete", "names of workloads or --all are needed"),
    ("workload delete a --all", "--all and names exclude each other"),
    ("workload describe job/unmanaged", "job/unmanaged in namespace default has no workload"),
    ("workload list --for train", "'train' is no job (write TYPE/NAME"),
    ("workload list --for cow/train", "{server} serves no namespaced kind 'cow'"),
    ("workload list -A --for job/unmanaged", "a job needs one namespace"),
    ("workload list -A -n default", "-n and -A exclude each other"),
    ("workload list --context nowhere", "{kubeconfig}: contexts: there is no context 'nowhere'"),
)  # fmt: skip


def test_an_error_is_one_message(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("unmanaged", queue="")
        known = {"server": world.client.config.server, "kubeconfig": os.environ["KUBECONFIG"]}
        for line, message in MISTAKES:
            done = await command(*line.split())
            assert (done.code, done.out) == (2, ""), line
            assert done.err.startswith(f"error: {message.format(**known)}"), line
            assert done.err.count("\n") == 1, line
        done = await command("workload", "list", "--status", "asleep")
        assert done.code == 2
        assert "'asleep' is no status" in done.err

    run_with_commands(story)


def test_other_job_kinds_are_found_by_each_of_their_names(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train")
        await world.until_admitted("train")
        name = await name_of(world, "train")
        # Any kind may own a workload; the label names the owner without an owner reference.
        config_maps = untyped("", "v1", "configmaps", "ConfigMap", True)
        owner = await world.client.create(config_maps, {"metadata": {"name": "train"}}, NAMESPACE)
        labels = {"kueue.x-k8s.io/job-uid": owner["metadata"]["uid"]}
        await world.client.patch(WORKLOADS, Key(NAMESPACE, name), {"metadata": {"labels": labels}})
        for written in ("cm/train", "configmap/train", "configmaps/train", "ConfigMap/train"):
            output = await command.output_of("workload", "list", "--for", written, "-o", "name")
            assert output == f"workload.kueue.x-k8s.io/{name}\n"

    run_with_commands(story)


def test_the_command_runs_as_a_kubectl_plugin(run_with_commands: RunWithCommands, tmp_path: Path) -> None:
    entries: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert entries["kubectl-quorate"] == entries["quorate"]
    module, function = entries["kubectl-quorate"].split(":")
    script = tmp_path / "bin" / "kubectl-quorate"  # as an installer writes it
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)

    async def story(world: World, command: CommandLine) -> None:
        environment = {**os.environ, "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}"}

        async def kubectl(*arguments: str) -> str:
            done = await asyncio.to_thread(
                subprocess.run, ["kubectl", *arguments], env=environment, capture_output=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout.decode()

        assert str(script) in await kubectl("plugin", "list")
        listed = await kubectl("quorate", "queue", "list")
        assert [line.split()[0] for line in listed.splitlines()] == ["NAME", "research"]

    run_with_commands(story)
