"""``quorate topology`` and the checks of topologies against a running cluster."""

import json
from pathlib import Path

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import NODES, TOPOLOGIES, untyped
from tests.e2e.verbs import CommandLine, RunWithCommands, cells, story_runner
from tests.e2e.world import World

pytestmark = pytest.mark.slow

HOST = "kubernetes.io/hostname"
FLAVORS = untyped("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", False)


@pytest.fixture
def run_with_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWithCommands:
    return story_runner(tmp_path, monkeypatch)


def test_a_topology_is_listed_and_described(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        done = await command("topology", "list")
        assert (done.out, done.err) == ("", "No resources found\n")
        levels = {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": HOST}]}
        await world.client.create(TOPOLOGIES, {"metadata": {"name": "tree"}, "spec": levels})
        spec = {"nodeLabels": {"pool": "tas"}, "topologyName": "tree"}
        await world.client.create(FLAVORS, {"metadata": {"name": "tas"}, "spec": spec})
        for name, rack in (("x1", "r1"), ("x2", "r1"), ("x3", "r2")):
            labels = {"pool": "tas", "rack": rack, HOST: name}
            await world.client.create(NODES, {"metadata": {"name": name, "labels": labels}})
            amounts = {"cpu": "8", "memory": "16Gi"}
            ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}]
            await world.client.patch(
                NODES,
                Key("", name),
                {"status": {"allocatable": amounts, "conditions": ready}},
                subresource="status",
            )

        (row,) = cells(await command.output_of("topology", "list"))
        assert row[:3] == ["tree", f"rack, {HOST}", "tas"]
        assert await command.output_of("topology", "describe", "tree", "-o", "name") == (
            "topology.kueue.x-k8s.io/tree\n"
        )
        described = await command.output_of("topology", "describe", "tree")
        table = described.partition("Flavor tas")[2].splitlines()
        assert table[0] == " (pool=tas), cpu:"
        assert [line.split() for line in table[1:4]] == [
            ["DOMAIN", "LEAVES", "CAPACITY", "USED", "OTHERS", "FREE", "LARGEST", "FREE"],
            ["r1", "2", "16", "0", "0", "16", "8"],
            ["r2", "1", "8", "0", "0", "8", "8"],
        ]
        assert [line.split() for line in table[-3:] if line] == [["r1", ".."], ["r2", "."]]
        assert "\x1b" not in described
        wide = await command.output_of("topology", "describe", "tree", "-o", "wide")
        assert [line.split()[0] for line in wide.partition("DOMAIN")[2].splitlines()[1:6]] == [
            "r1", "x1", "x2", "r2", "x3"
        ]  # fmt: skip
        report = json.loads(await command.output_of("topology", "describe", "tree", "-o", "json"))
        (flavor,) = report["flavors"]
        assert [domain["free"]["memory"] for domain in flavor["domains"]] == ["32Gi", "16Gi"]
        done = await command("topology", "describe", "tree", "--resource", "gpu")
        assert (done.code, done.err) == (
            2, "error: --resource: no node of tree has gpu (known: cpu, memory)\n"
        )  # fmt: skip

    run_with_commands(story)
