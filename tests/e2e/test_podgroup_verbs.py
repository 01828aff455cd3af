"""``quorate podgroup`` against a cluster with a running gang scheduler."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from quorate.api.meta import Key
from quorate.api.scheduler_configuration.in_force import NAME
from quorate.cli.exit_codes import Exit
from quorate.cli.verbs.explain.command import follow
from quorate.cli.verbs.options import Output
from quorate.inspect import gang_model
from quorate.inspect.connection import Connection
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.targets import named_targets
from quorate.kube.resources import (
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    NATIVE_POD_GROUPS,
    PLACEABLE_PODS,
    POD_GROUPS,
)
from quorate.local.nodes import NodePool
from tests.e2e.gangs import GangWorld, run_gang_story
from tests.e2e.verbs import CommandLine, cells, titles
from tests.e2e.world import NAMESPACE, WITHIN_S

pytestmark = pytest.mark.slow


def test_explain_states_the_decision_of_the_scheduler_for_a_pending_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: GangWorld) -> None:
        command = CommandLine(world, tmp_path, monkeypatch)
        await world.group("first", 2, {"cpu": "3"})
        await world.until_phase("first", "Inqueue")
        await world.group("second", 2, {"cpu": "2"})
        await world.group("huge", 2, {"cpu": "9"})
        await world.until_waits("second", "NotEnoughResources")
        await world.until_waits("huge", "NotEnoughResources")

        listed = await command.output_of("podgroup", "list", "-n", NAMESPACE)
        assert titles(listed) == ["NAME", "QUEUE", "PHASE", "MIN", "RUNNING", "AGE", "STATE", "REASON"]
        lines = {line[0]: [*line[1:5], *line[6:]] for line in cells(listed)}
        assert lines == {
            "first": ["default", "Inqueue", "2", "0", "Admitted", "NotEnoughTasks"],
            "second": ["default", "Pending", "2", "0", "Queued", "NotEnoughResources"],
            "huge": ["default", "Pending", "2", "0", "NeverFits", "NotEnoughResources"],
        }

        explanation = await command.output_of("podgroup", "explain", "second", "-n", NAMESPACE)
        assert "1 of 2 waiting" in explanation or "2 of 2 waiting" in explanation
        # Of 4 cpus times the factor 1.2, 3 are reserved.
        assert "cluster: cpu: need 2, have 1800m now (1 without overcommit)" in explanation
        assert "queue default: cpu: need 2, have 1 now" in explanation
        typed = json.loads(await command.output_of("explain", "pg/second", "-n", NAMESPACE, "-o", "json"))
        (short,) = typed["reasons"]
        assert (typed["state"], short["code"]) == ("Queued", "NotEnoughResources")
        names = ("resource", "needed", "free", "shortBy", "atMost")
        assert [short[name] for name in names] == ["cpu", "2", "1800m", "200m", "4800m"]
        assert typed["message"].endswith("cluster: cpu: need 2, have 1800m now (1 without overcommit)")
        actions = [[change["action"] for change in each["allOf"]] for each in typed["remedies"]]
        assert (actions, typed["rivals"]) == ([["ProvideNodes"], ["LowerMinMember"]], 1)
        assert typed["enough"] == [
            "either 1 more node must have 1 cpu free",
            "or lower minMember to 1",
            "provided that the other pod group that waits cannot start first",
        ]
        with monkeypatch.context() as fewer:
            fewer.setattr(gang_model, "MAX_PODS", 0)
            of_status = json.loads(
                await command.output_of("explain", "pg/second", "-n", NAMESPACE, "-o", "json")
            )
        assert [of_status[name] for name in ("state", "message", "code")] == [
            typed[name] for name in ("state", "message", "code")
        ]
        assert "remedies" not in of_status
        template = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
        job = await world.client.create(
            JOBS, {"metadata": {"name": "owner"}, "spec": {"suspend": True, "template": template}}, NAMESPACE
        )
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": job.metadata.uid}
        references = {"metadata": {"ownerReferences": [owner | {"controller": True}]}}
        await world.client.patch_for_version(POD_GROUPS, Key(NAMESPACE, "second"), references)
        of_job = json.loads(await command.output_of("explain", "job/owner", "-n", NAMESPACE, "-o", "json"))
        assert (of_job["object"], of_job["reasons"]) == (typed["object"], typed["reasons"])
        (capacity,) = (
            check
            for check in json.loads(
                await command.output_of("podgroup", "explain", "huge", "-n", NAMESPACE, "-o", "json")
            )["checks"]
            if check["name"] == "room"
        )
        assert capacity["never"]
        assert "4800m at most (4 without overcommit), so it can never fit" in capacity["says"]

        assert (
            "evaluated with the defaults (no ConfigMap"
            in (await command("podgroup", "explain", "huge", "-n", NAMESPACE)).err
        )
        await world.client.create(NAMESPACES, {"metadata": {"name": "quorate-system"}})
        installed = {"metadata": {"name": "quorate-scheduler-configuration"}}
        data = {"volcano-scheduler.conf": 'actions: "enqueue, allocate, backfill"\n'}
        await world.client.create(CONFIG_MAPS, {**installed, "data": data}, "quorate-system")
        done = await command("podgroup", "explain", "huge", "-n", NAMESPACE)
        assert done.code == 0
        assert done.err == ("evaluated with ConfigMap quorate-system/quorate-scheduler-configuration\n")
        await world.client.create(CONFIG_MAPS, {"metadata": {"name": NAME}, "data": data}, "kube-public")
        done = await command("podgroup", "explain", "huge", "-n", NAMESPACE)
        assert done.err == (f"evaluated with ConfigMap kube-public/{NAME}\n")

        first = await command.output_of("podgroup", "explain", "first", "-n", NAMESPACE)
        assert "its pods may be created: 0 of 2 exist" in first
        by_kubectl = "podgroup.scheduling.volcano.sh/first"
        assert await command.output_of("podgroup", "explain", by_kubectl, "-n", NAMESPACE) == first
        jobless = await command("podgroup", "explain", "job/absent", "-n", NAMESPACE)
        assert (jobless.code, "absent" in jobless.err) == (2, True)
        missing = await command("podgroup", "explain", "absent", "-n", NAMESPACE)
        assert (missing.code, missing.err.strip()) == (
            2,
            f"error: no pod group absent in namespace {NAMESPACE}",
        )

    run_gang_story(story, NodePool(1, cpu="4"))


def test_watch_follows_a_pod_group_until_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(world: GangWorld) -> None:
        await world.group("first", 2, {"cpu": "4"})
        await world.pods("first", 2, "2")
        await world.until_phase("first", "Running")
        await world.group("second", 1, {"cpu": "2"})
        await world.until_waits("second", "NotEnoughResources")

        connection = Connection(world.client, NAMESPACE)
        (target,) = await named_targets(connection, "pg/second")
        waiting = await Answers(connection, None).of(target)
        assert waiting.state == "Queued"
        following = asyncio.create_task(follow(connection, None, "pg/second", [waiting], Output.JSON))

        await world.delete_members("first")
        await world.client.delete(POD_GROUPS, Key(NAMESPACE, "first"))
        await world.until_phase("second", "Inqueue")
        await world.pods("second", 1, "2")
        async with asyncio.timeout(WITHIN_S):
            assert await following == Exit.COMPLETED
        assert re.findall(r'"state": "(\w+)"', capsys.readouterr().out)[-1] == "Running"

    run_gang_story(story, NodePool(1, cpu="4"))


def test_pod_groups_of_both_apis_are_listed_and_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: GangWorld) -> None:
        command = CommandLine(world, tmp_path, monkeypatch)
        await world.group("same", 2, {"cpu": "1"})
        await world.until_phase("same", "Inqueue")
        spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
        native = {"metadata": {"name": "same"}, "spec": spec}
        await world.client.create(NATIVE_POD_GROUPS, native, NAMESPACE)
        listed = cells(await command.output_of("podgroup", "list", "-n", NAMESPACE))
        assert {(line[0], line[3]) for line in listed} == {("same", "2"), ("scheduling.k8s.io/same", "3")}
        documents = json.loads(await command.output_of("podgroup", "list", "-n", NAMESPACE, "-o", "json"))
        assert [
            (group["apiVersion"], group["metadata"]["name"], group["explanation"]["state"] != "")
            for group in documents["items"]
        ] == [(POD_GROUPS.api_version, "same", True), (NATIVE_POD_GROUPS.api_version, "same", True)]
        explained = await command.output_of("podgroup", "explain", "same", "-n", NAMESPACE)
        names = [word for word in explained.split() if word.startswith(f"{NAMESPACE}/")]
        assert names == [
            f"{NAMESPACE}/same",
            f"{NAMESPACE}/scheduling.k8s.io/same",
        ]
        by_type = await command.output_of(
            "podgroup", "explain", "podgroup.scheduling.k8s.io/same", "-n", NAMESPACE, "-o", "json"
        )
        only = json.loads(by_type)
        assert only["podGroup"] == f"{NAMESPACE}/scheduling.k8s.io/same"

    run_gang_story(story, NodePool(1, cpu="4"))


def test_a_group_of_kubernetes_is_explained_with_numbers_and_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: GangWorld) -> None:
        command = CommandLine(world, tmp_path, monkeypatch)
        await world.group("first", 1, {"cpu": "1"})
        await world.until_phase("first", "Inqueue")  # the scheduler has made the queue
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        native = {"metadata": {"name": "train"}, "spec": spec}
        await world.client.create(NATIVE_POD_GROUPS, native, NAMESPACE)
        await world.pods("train", 2, "3", schedulingGroup={"podGroupName": "train"})
        (pod, _) = (await world.client.list(PLACEABLE_PODS, NAMESPACE)).items
        for written in (
            "podgroup.scheduling.k8s.io/train",
            "scheduling.k8s.io/train",
            "pg/train",  # Volcano's API has none of this name
            f"pod/{pod.metadata.name}",
        ):
            typed = await command.output_of("explain", written, "-n", NAMESPACE, "-o", "json")
            explanation = json.loads(typed)
            assert explanation["object"]["name"] == "scheduling.k8s.io/train", written
            (reason, *_) = explanation["reasons"]
            assert (reason["code"], reason["resource"]) == ("NotEnoughResources", "cpu")
            on_nodes = reason["onNodes"]
            assert (on_nodes["requested"], on_nodes["fitting"], on_nodes["nodes"]) == (2, 1, 1)
            assert (explanation["state"], explanation["pods"]["created"]) == ("Queued", 2)
            assert explanation["enough"] == ["1 more node must have 3 cpu free"]

    run_gang_story(story, NodePool(1, cpu="4"))
