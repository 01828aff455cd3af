"""``quorate workload explain``, and errors, against a running cluster."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from quorate.api.configuration import DEFAULT_NAMESPACE, default_configuration
from quorate.api.meta import Key
from quorate.api.names.volcano import GROUP_NAME
from quorate.cli.verbs.explain.command import follow
from quorate.cli.verbs.options import Output
from quorate.controllers.unserved import NOT_QUEUED
from quorate.inspect.cluster_model import effective_configuration
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.targets import OfObject, named_targets
from quorate.install import scheduler
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    PODS,
    WORKLOADS,
    Resource,
    untyped,
)
from quorate.local.nodes import NodePool
from tests.e2e.service_accounts import as_account
from tests.e2e.verbs import (
    CommandLine,
    RunWithCommands,
    name_of,
    story_runner,
)
from tests.e2e.world import NAMESPACE, World

pytestmark = [pytest.mark.slow, pytest.mark.measured]

OTHERS_FIRST = "provided that the other workload pending in its cluster queue or cohorts cannot start first"
DEPLOYMENTS = untyped("apps", "v1", "deployments", "Deployment", True)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_with_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWithCommands:
    return story_runner(tmp_path, monkeypatch)


def test_explain_states_the_missing_quota_its_holders_and_what_helps(
    run_with_commands: RunWithCommands,
) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train", pods=3)
        await world.until_admitted("train")
        await world.job("big", pods=2)
        await world.until_condition("big", "QuotaReserved", "False", "WaitingForQuota")
        await world.job("huge", pods=5)
        await world.until_condition("huge", "QuotaReserved", "False", "ExceedsMaxQuota")
        train, big = await name_of(world, "train"), await name_of(world, "big")

        explanation = json.loads(await command.output_of("workload", "explain", "job/big", "-o", "json"))
        shortage = "insufficient unused quota for cpu in flavor default, 1 more needed"
        for timed in (explanation, *explanation["reasons"]):
            assert timed.pop("since").endswith("Z")
        enough = "1 more cpu of flavor default must become free"
        assert explanation == {
            "apiVersion": "visibility.quorate.dev/v1beta1",
            "kind": "Explanation",
            "object": {"kind": "Workload", "name": big, "namespace": NAMESPACE},
            "state": "Queued",
            "code": "QuotaShort",
            "message": f"couldn't assign flavors to pod set main: {shortage}",
            "localQueue": "queue",
            "clusterQueue": "research",
            "ahead": 0,
            "reasons": [
                {
                    "code": "QuotaShort", "text": shortage, "podSet": "main", "flavor": "default",
                    "object": {"kind": "ClusterQueue", "name": "research"},
                    "resource": "cpu", "needed": "2", "free": "1", "shortBy": "1", "atMost": "4",
                    "enough": enough,
                    "heldBy": [
                        {"workload": f"{NAMESPACE}/{train}", "clusterQueue": "research", "amount": "3"}
                    ],
                }
            ],
            "enough": [
                f"either {enough}",
                "or let each pod of pod set main request at most 500m cpu",
                OTHERS_FIRST,
                "a higher priority does not help: withinClusterQueue of cluster queue research is Never",
            ],
            "remedies": [
                {
                    "pods": 2,
                    "allOf": [
                        {
                            "action": "FreeQuota", "text": enough, "flavor": "default", "resource": "cpu",
                            "object": {"kind": "ClusterQueue", "name": "research"}, "amount": "1",
                        }
                    ],
                },
                {
                    "pods": 2,
                    "allOf": [
                        {
                            "action": "LowerRequests", "podSet": "main", "resource": "cpu", "amount": "500m",
                            "text": "let each pod of pod set main request at most 500m cpu",
                        }
                    ],
                },
            ],
            "rivals": 1,
        }  # fmt: skip

        explanation = json.loads(await command.output_of("workload", "explain", "job/huge", "-o", "json"))
        assert (explanation["state"], explanation["canNeverFit"]) == ("NeverFits", True)
        assert explanation["message"] == (
            "it can never start with the current configuration, even if every other workload finishes: "
            "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, "
            "previously considered podsets requests (0) + current podset request (5) > maximum capacity (4)"
        )
        assert explanation["ahead"] == 1
        assert explanation["firstAhead"] == [f"{NAMESPACE}/{big}"]
        assert explanation["enough"] == [
            "either raise nominalQuota of cpu of flavor default in cluster queue research by 1 and "
            "3 more cpu of flavor default must become free",
            "or let each pod of pod set main request at most 200m cpu",
            OTHERS_FIRST,
        ]

        output = await command.output_of("workload", "explain", big)
        assert "Numbers:" in output
        assert "- either 1 more cpu of flavor default must become free" in output

    run_with_commands(story)


def test_states_of_jobs_pods_and_queues_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, command: CommandLine) -> None:
        async def explained(*arguments: str) -> dict[str, Any]:
            found: dict[str, Any] = json.loads(await command.output_of("explain", *arguments, "-o", "json"))
            return found

        async def is_running() -> bool:
            found = await explained("job/train")
            return bool(found["state"] == "Running" and found["pods"]["running"] == 1)

        async def wide() -> dict[str, Any] | None:
            found = await explained("job/wide")
            return (
                found if any(each["code"] == "NodesLackRoom" for each in found.get("reasons", ())) else None
            )

        assert (await explained("cq/research"))["state"] == "Active"
        local = await explained("lq/queue")
        assert (local["state"], local["reasons"][0]["atMost"]) == ("Active", "4")
        await world.job("train", cpu="1", runs="1h")
        watched = await command("explain", "job/train", "--watch")
        assert watched.code == 0, watched.err
        await world.until("it runs", is_running)
        (pod,) = (await world.client.list(PODS, NAMESPACE)).items
        assert (await explained(f"pod/{pod.metadata.name}"))["message"] == "its phase is Running"
        assert (await command("explain", f"pod/{pod.metadata.name}", "--watch")).code == 0

        await world.job("wide", cpu="3")  # has quota, and no node can ever hold its pod
        found = await world.until("its pod has no node", wide)
        assert (found["state"], found["code"]) == ("Stuck", "NodesLackRoom")
        (lack,) = [each for each in found["reasons"] if each["code"] == "NodesLackRoom"]
        assert (lack["resource"], lack["needed"], lack["atMost"]) == ("cpu", "3", "2")
        assert (await command("explain", "job/wide", "--watch")).code == 3

        await command.output_of("workload", "stop", "job/wide")
        found = await explained("job/wide")
        assert found["state"] == "Deactivated"
        assert found["enough"][-1].startswith("quorate workload resume")
        assert (await command("explain", "job/wide", "--watch")).code == 3
        done = await command("explain", "pg/none")
        assert (done.code, "podgroups: default/none does not exist" in done.err) == (2, True)

    story_runner(tmp_path, monkeypatch, NodePool(1, cpu="2"))(story)


@pytest.mark.parametrize("name", ["cq/research", "lq/queue"])
def test_watch_follows_a_queue(
    run_with_commands: RunWithCommands, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    async def story(world: World, _: CommandLine) -> None:
        connection = Connection(world.client, NAMESPACE)
        (target,) = await named_targets(connection, name)
        first = await Answers(connection, None).of(target)
        assert first.state == "Active"
        following = asyncio.create_task(follow(connection, None, name, [first], Output.JSON))
        stopped = {"spec": {"stopPolicy": "Hold"}}
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), stopped)
        printed = ""

        async def is_told() -> bool:
            nonlocal printed
            printed += capsys.readouterr().out
            return '"state": "Inactive"' in printed

        await world.until("the change is printed", is_told)
        assert not following.done()
        following.cancel()

    run_with_commands(story)


def test_explain_reports_missing_and_stopped_queues(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("lost", queue="nowhere")
        await world.until_condition("lost", "QuotaReserved", "False", "Misconfigured")
        output = await command.output_of("workload", "explain", "job/lost")
        assert f"create the LocalQueue {NAMESPACE}/nowhere" in output
        await command.output_of("queue", "stop", "research", "--yes")
        await world.job("train")
        await world.until_condition("train", "QuotaReserved", "False", "Suspended")
        output = await command.output_of("workload", "explain", "job/train")
        assert "resume cluster queue research, which is stopped (quorate queue resume research)" in output

    run_with_commands(story)


def test_explain_says_why_a_job_has_no_workload(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train", labels={"kueue.x-k8s.io/priority-class": "urgent"})
        why = 'it has no Workload yet: WorkloadPriorityClass "urgent" not found'
        enough = "create the class, or name another in the label kueue.x-k8s.io/priority-class"

        async def explained() -> bool:
            output = await command.output_of("explain", "job/train")
            text = " ".join(output.split())
            return why in text and enough in text

        await world.until("the explanation", explained)
        await world.job("alone", queue="", suspend=True)
        assert "is suspended: nothing will start it" in await command.output_of("explain", "job/alone")

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

        served = "not explained by the controllers: the cluster does not serve explanations of it\n"
        missing = "no ConfigMap kueue-system/quorate-configuration; --config FILE sets another"
        assert await origin() == f"evaluated with the defaults ({missing})\n{served}"
        await world.create(NAMESPACES, "kueue-system")
        data = {"controller_manager_config.yaml": CONFIGURATION}
        for installed in ("kueue-manager-config", "quorate-configuration"):
            await world.create(CONFIG_MAPS, installed, "kueue-system", data=data)
            assert await origin() == f"evaluated with ConfigMap kueue-system/{installed}\n{served}"
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


def test_explain_names_the_permission_that_is_missing(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        async with as_account(world.client, "tenant", "team", ()) as client:
            answers = Answers(Connection(client, "team"), None)
            with pytest.raises(UsageError) as refused:
                await answers.of(OfObject("localqueues", Key("team", "queue")))
        text = str(refused.value)
        assert text.startswith(
            "not explained by the controllers: this needs the permission to get localqueues/explanation in "
            "group visibility.quorate.dev; nor from the objects of the cluster: "
        )
        assert text.endswith("(a Role or ClusterRole must allow this verb on this resource)")

    run_with_commands(story)


CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


MISTAKES = (
    ("queue stop queue -n default", "-n is for local queues"),
    ("queue list -A", "-A is for local queues"),
    ("queue list pods", "'pods' is no kind of queue"),
    ("queue resume --local cq/a", "cq selects cluster queues"),
    ("queue list -c research", "-c is for local queues"),
    ("queue create lq/a", "a local queue needs a cluster queue (write -c NAME)"),
    ("queue create lq/a -c b --cohort c", "a local queue has no quota"),
    ("queue create a -c b", "-c is for local queues"),
    ("queue stop none", 'clusterqueues.kueue.x-k8s.io "none" not found\n'),
    ("queue resume reserch", 'clusterqueues.kueue.x-k8s.io "reserch" not found (did you mean research?)'),
    ("workload explain none", "no workload or job 'none' in namespace default (quorate status"),
    ("queue describe lq/", "localqueues.kueue.x-k8s.io: '' is no name"),
    ("reservation delete ..", "reservations.quorate.dev: '..' is no name"),
    ("explain podgroup/", "podgroups: default/ does not exist, or may not be read"),
    ("explain wl/", "workloads.kueue.x-k8s.io: '' is no name"),
    ("workload explain job/none", 'jobs.batch "none" not found in namespace default\n'),
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


@pytest.mark.parametrize("written", ["train", "job/train"])
def test_a_job_may_be_named_as_the_lists_name_it(run_with_commands: RunWithCommands, written: str) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train", runs="10m")
        await world.until_admitted("train")
        await world.job("unmanaged", queue="")
        name = await name_of(world, "train")

        explained = await command.output_of("explain", written, "-o", "json")
        assert json.loads(explained)["object"]["name"] == name
        assert name in await command.output_of("workload", "describe", written)
        assert "train-" in await command.output_of("workload", "pods", written, "-o", "name")
        stopped = await command.output_of("workload", "stop", written)
        assert stopped == f"workload.kueue.x-k8s.io/{name} stopped\n"

        unmanaged = await command.output_of("explain", written.replace("train", "unmanaged"), "-o", "json")
        assert json.loads(unmanaged)["state"] == "NotQueued"

    run_with_commands(story)


def test_a_job_of_a_kind_that_is_not_queued_has_an_event_and_an_explanation(
    run_with_commands: RunWithCommands,
) -> None:
    labelled = {"name": "labelled", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    pod = {"spec": {"containers": [{"name": "c", "image": "quorate:1"}]}}
    template = {"metadata": {"labels": {"a": "b"}}, **pod}
    deployment = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}

    jobs: list[tuple[Resource[Any], Any]] = [
        (DEPLOYMENTS, deployment),
        (PODS, pod["spec"]),
    ]

    async def story(world: World, command: CommandLine) -> None:
        for resource, spec in jobs:
            await world.client.create(resource, {"metadata": labelled, "spec": spec}, NAMESPACE)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "labelled", "controller": True}
        owner["uid"] = (await world.client.get(PODS, Key(NAMESPACE, "labelled"))).metadata.uid
        controlled = labelled | {"name": "controlled", "ownerReferences": [owner]}
        await world.client.create(PODS, {"metadata": controlled, "spec": pod["spec"]}, NAMESPACE)

        async def find() -> dict[str, str] | None:
            events = [
                each
                for each in (await world.client.list(EVENTS, NAMESPACE)).items
                if each.reason == NOT_QUEUED
            ]
            notes = {
                f"{each.regarding.kind} {each.regarding.name}": each.note
                for each in events
                if each.regarding is not None
            }
            return notes if len(notes) == 2 and {each.type for each in events} == {"Warning"} else None

        notes = await world.until("an event about each job", find)
        assert notes.keys() == {"Deployment labelled", "Pod labelled"}
        assert (
            "the integration deployment is off (add it to integrations.frameworks"
            in (notes["Deployment labelled"])
        )
        done = await command("workload", "explain", "deployment/labelled")
        assert done.code == 0
        assert "NotQueued" in done.out
        assert "the integration deployment is off (add it" in done.out
        alone = json.loads(await command.output_of("explain", "pod/labelled", "-o", "json"))
        assert [each["code"] for each in alone["reasons"]] == ["KindNotQueued", "QueueMissing"]
        orphan = {"name": "orphan", "annotations": {GROUP_NAME: "absent"}}
        await world.client.create(
            PODS, {"metadata": orphan, "spec": {**pod["spec"], "schedulerName": "volcano"}}, NAMESPACE
        )
        of_orphan = json.loads(await command.output_of("explain", "pod/orphan", "-o", "json"))
        assert (of_orphan["state"], of_orphan["code"]) == ("Held", "PodGroupNotFound")

    run_with_commands(story)
