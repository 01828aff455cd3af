"""``quorate cluster``: the worker clusters of a manager, and the kubeconfig of one."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.kube.resources import MULTIKUEUE_CLUSTERS, Json, untyped
from tests.e2e.verbs import CommandLine, RunWithCommands, story_runner
from tests.e2e.world import World

pytestmark = pytest.mark.slow

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"
CLUSTERS = untyped(GROUP, VERSION, MULTIKUEUE_CLUSTERS.plural, "MultiKueueCluster", False)
CONFIGS = untyped(GROUP, VERSION, "multikueueconfigs", "MultiKueueConfig", False)
CHECKS = untyped(GROUP, VERSION, "admissionchecks", "AdmissionCheck", False)
SECRETS = untyped("", "v1", "secrets", "Secret", True)
ACCOUNT = "quorate-multikueue-manager"


@pytest.fixture
def run_with_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWithCommands:
    return story_runner(tmp_path, monkeypatch)


def named(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


def test_worker_clusters_are_listed_and_described(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        source = {"kubeConfig": {"location": "east-kubeconfig", "locationType": "Secret"}}
        await world.client.create(CLUSTERS, named("east", clusterSource=source))
        await world.client.create(CONFIGS, named("regions", clusters=["east"]))
        parameters = {"apiGroup": GROUP, "kind": "MultiKueueConfig", "name": "regions"}
        check = named("dispatch", controllerName="kueue.x-k8s.io/multikueue", parameters=parameters)
        await world.client.create(CHECKS, check)
        listed = await command.output_of("cluster", "list", "-o", "wide")
        assert "east" in listed
        assert "secret east-kubeconfig" in listed
        (item,) = json.loads(await command.output_of("list", "mkc", "-o", "json"))["items"]
        assert item["spec"]["clusterSource"] == source
        described = await command.output_of("cluster", "describe", "east")
        assert "regions" in described
        assert "dispatch" in described

    run_with_commands(story)


def test_the_kubeconfig_of_a_manager_is_made_from_its_account(
    run_with_commands: RunWithCommands, tmp_path: Path
) -> None:
    async def story(world: World, command: CommandLine) -> None:
        data = {"token": base64.b64encode(b"secret-token").decode(), "ca.crt": "Y2E="}
        await world.client.create(
            SECRETS, {"metadata": {"name": ACCOUNT, "namespace": "default"}, "data": data}
        )
        arguments = ("cluster", "kubeconfig", "-n", "default", "--server", "https://10.0.0.7:6443")
        printed = yaml.safe_load(await command.output_of(*arguments))
        assert printed["users"][0]["user"] == {"token": "secret-token"}
        assert printed["clusters"][0]["cluster"] == {
            "server": "https://10.0.0.7:6443",
            "certificate-authority-data": "Y2E=",
        }
        secret = yaml.safe_load(await command.output_of(*arguments, "--secret", "east"))
        assert yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"])) == printed
        file = tmp_path / "east.kubeconfig"
        assert await command.output_of(*arguments, "--file", str(file)) == ""
        assert yaml.safe_load(file.read_text()) == printed
        assert file.stat().st_mode & 0o777 == 0o600

    run_with_commands(story)
