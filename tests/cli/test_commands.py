"""An error in arguments or files is one message and an exit code, never a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from quorate.kube.clock import WallClock
from quorate.local.directory import ClusterDirectory
from tests.cli.conftest import Quorate

CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # so that messages name short paths
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["local", "run", "none"], "error: none: no such file or directory"),
        pytest.param(["local", "run", "."], "error: .: holds no manifest (looked for *.yaml, *.yml, *.json)"),
        pytest.param(
            ["local", "run", ".", "--config", "none.yaml"], "error: none.yaml: no such file or directory"
        ),
        pytest.param(
            ["local", "up", "--without-controllers", "--config", "c.yaml"],
            "error: --config has no effect with --without-controllers",
        ),
        pytest.param(
            ["local", "up", "--nodes", "2", "--topology", "host=2"],
            "error: --nodes has no effect with --topology (drop one of the two)",
        ),
        pytest.param(["local", "down", "--data-dir", "data"], "error: {here}/data: no cluster runs here"),
    ],
)
def test_an_impossible_request_is_one_message(
    quorate: Quorate, here: Path, arguments: list[str], message: str
) -> None:
    done = quorate(*arguments)
    assert done.code == 2
    assert done.err.startswith(message.format(here=here))
    assert done.out == ""


@pytest.mark.parametrize(
    ("scheduling", "warns"), [pytest.param("gang", True, id="gang"), pytest.param("both", False, id="both")]
)
def test_gang_scheduling_of_all_pods_without_controllers_is_a_warning(
    quorate: Quorate, scheduling: str, warns: bool
) -> None:
    stops = ("--feature-gates", "Unknown=true")  # refused after the warning: no cluster starts
    done = quorate("local", "up", "--without-controllers", "--scheduling", scheduling, *stops)
    assert done.code == 2
    assert ("warning: no controllers make pod groups for plain pods" in done.err) == warns


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        pytest.param(["local", "up", "--node-memory", "8 gigs"], "is not a quantity (write 4, 500m or 16Gi)"),
        pytest.param(["local", "up", "--node-cpu", "-1"], "'-1' is negative"),
        pytest.param(["local", "up", "--topology", "rack=2"], "must end with the number of hosts"),
        pytest.param(["local", "run", ".", "--topology", "rack"], "which is not NAME=NUMBER"),
        pytest.param(["local", "up", "--port", "70000"], "70000 is not in the range 0<=x<=65535"),
        pytest.param(["local", "run", ".", "--speed", "0"], "is not in the range"),
        pytest.param(["local", "walk"], "No such command 'walk'"),
    ],
)
def test_an_invalid_option_names_the_rule(
    quorate: Quorate, here: Path, arguments: list[str], rule: str
) -> None:
    done = quorate(*arguments)
    assert done.code == 2
    assert rule in done.err


def test_a_full_disk_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "quorate", "examples", "list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: output: no space left on device\n")


def test_a_value_without_a_name_is_not_printed_as_json_instead(quorate: Quorate) -> None:
    for command in (("examples", "list"), ("status",), ("explain", "train"), ("demo",)):
        done = quorate(*command, "-o", "name")
        assert (done.code, done.out) == (2, "")
        assert "what is shown is no object of the API (write table, wide, json or yaml)" in done.err


def test_all_findings_of_a_configuration_are_listed(quorate: Quorate, here: Path) -> None:
    (here / "c.yaml").write_text(
        f"{CONFIGURATION}waitForPodsReady:\n  enable: true\n  requeuingStrategy:\n"
        "    backoffLimitCount: -1\n    timestamp: Birth\n"
    )
    done = quorate("local", "up", "--data-dir", "data", "--config", "c.yaml")
    assert done.code == 2
    assert done.err.splitlines() == [
        "error: c.yaml:7: waitForPodsReady.requeuingStrategy.timestamp: 'Birth' is not allowed here "
        "(write Eviction or Creation)",
        "error: c.yaml:6: waitForPodsReady.requeuingStrategy.backoffLimitCount: -1 is not a number of "
        "retries (leave the field out to retry without limit, or write 0 or more)",
    ]
    assert not (here / "data").exists()


def test_a_second_up_on_a_directory_is_refused(quorate: Quorate, here: Path) -> None:
    now = WallClock().now()
    with ClusterDirectory(here / "data").lock(now) as held:
        held.publish_address("https://127.0.0.1:7443", held.credentials(now))
        for command in ("up", "reset"):
            done = quorate("local", command, "--data-dir", "data")
            assert done.code == 2
            assert "already runs a cluster here at https://127.0.0.1:7443" in done.err
            assert "quorate local down" in done.err
            assert "--data-dir" in done.err


def test_a_stopped_cluster_has_a_status_and_can_be_reset(quorate: Quorate, here: Path) -> None:
    now = WallClock().now()
    with ClusterDirectory(here / "data").lock(now) as held:
        held.credentials(now)
    done = quorate("local", "status", "--data-dir", "data")
    assert done.code == 1
    assert ["cluster", "stopped"] in [line.split() for line in done.out.splitlines()]
    done = quorate("local", "reset", "--data-dir", "data", "--yes")
    assert (done.code, done.out) == (0, f"{here}/data: 6 files deleted\n")
    assert not (here / "data").exists()


def test_a_run_without_jobs_is_refused(quorate: Quorate, here: Path) -> None:
    (here / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    done = quorate("local", "run", str(here))
    assert (done.code, done.err) == (2, f"error: {here}: holds no Job, so there is nothing to wait for\n")
