"""The stories of containers where bubblewrap is not installed."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorate.api.meta import Key
from tests.local.runtime import test_adoption, test_containers
from tests.local.runtime.pods import test_ephemeral_containers
from tests.local.runtime.streaming import test_streams, test_terminals
from tests.local.runtime.world import (
    NODE,
    NODES,
    World,
    one_container,
    run_story,
    runs_in_namespaces,
    runs_processes,
)

pytestmark = [runs_processes, pytest.mark.slow, pytest.mark.usefixtures("without_bubblewrap", "one_cluster")]


@pytest.fixture(scope="module")
def without_bubblewrap() -> Iterator[None]:
    """Let PATH have all programs but bubblewrap, in a directory that containers see."""
    tools = Path(tempfile.mkdtemp(dir="/var/tmp"))
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*"):
            if program.name != "bwrap" and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PATH", str(tools))
        yield
    shutil.rmtree(tools)


def test_the_node_says_what_isolates_its_containers(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("p", one_container("echo $$$$; ls /proc | grep -c '^[0-9]'; touch /usr/x; true"))
        await world.ended("p")
        own, processes, refusal = (await world.log("p")).splitlines()
        assert (own, int(processes) < 6, "Read-only file system" in refusal) == ("2", True, True)
        node = await world.client.get(NODES, Key("", NODE))
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"] == "quorate://unshare"
        (condition,) = (c for c in node["status"]["conditions"] if c["type"] == "Sandboxes")
        assert (condition["status"], condition["reason"]) == ("True", "NoBubblewrap")

    run_story(tmp_path, story)


@pytest.mark.parametrize(
    "story",
    [
        test_containers.test_a_pod_gets_its_command_environment_and_volumes,
        test_containers.test_exit_codes_restarts_and_messages_are_those_of_a_kubelet,
        test_containers.test_a_command_that_cannot_be_executed_fails_the_start,
        test_adoption.test_a_kubelet_that_was_killed_leaves_its_pods_to_the_next,
        test_streams.test_clients_choose_a_protocol_of_websockets,
        test_terminals.test_a_client_that_disconnects_ends_the_input_only_where_it_may_be_used_once,
        test_ephemeral_containers.test_containers_share_their_processes,
        pytest.param(
            test_ephemeral_containers.test_an_ephemeral_container_sees_the_processes_of_its_target,
            marks=runs_in_namespaces,
        ),
    ],
)
def test_a_story_is_the_same(story: Callable[[Path], None], tmp_path: Path) -> None:
    story(tmp_path)


@test_streams.needs_kubectl
def test_kubectl_run_gives_a_shell_with_a_terminal(tmp_path: Path) -> None:
    test_terminals.test_kubectl_run_gives_a_shell_with_a_terminal(tmp_path, test_streams.WEBSOCKETS)
