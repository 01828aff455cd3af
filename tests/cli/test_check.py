"""``--check`` reads a configuration file and ends, without a cluster."""

from pathlib import Path

import pytest

from tests.cli.conftest import Quorate

KUEUE = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nwaitForPodsReady: {enable: true%s}\n"
VOLCANO = "actions: allocate\ntiers:\n- plugins:\n  - name: gang%s\n"
FLAT = ", requeuingTimestamp: Creation"
IGNORED = "\n  - name: rescheduling"
MISSPELLED = VOLCANO.replace("allocate", "alocate")
CONTROLLERS = ("controllers", "--config")
SCHEDULER = ("scheduler", "--scheduler-conf")


@pytest.mark.parametrize(
    ("command", "text", "code", "want"),
    [
        pytest.param(CONTROLLERS, KUEUE % "", 0, "", id="controllers, valid"),
        pytest.param(CONTROLLERS, KUEUE % FLAT, 0, "requeuing", id="a warning"),
        pytest.param(CONTROLLERS, KUEUE % ", timout: 1s", 2, "timout", id="controllers, not valid"),
        pytest.param(SCHEDULER, VOLCANO % "", 0, "", id="scheduler, valid"),
        pytest.param(SCHEDULER, VOLCANO % IGNORED, 0, "rescheduling", id="a plugin is ignored"),
        pytest.param(SCHEDULER, MISSPELLED % "", 2, "alocate", id="scheduler, not valid"),
    ],
)  # fmt: skip
def test_a_configuration_file_is_checked(
    quorate: Quorate, tmp_path: Path, command: tuple[str, str], text: str, code: int, want: str
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    done = quorate(*command, str(file), "--check")
    assert done.code == code, done.err
    assert want in done.out + done.err
    assert (f"{file}: valid\n" in done.out) is (code == 0)
    assert (f"warning: {file}: " in done.out) is (code == 0 and want != "")


def test_without_a_file_the_defaults_are_checked(quorate: Quorate) -> None:
    assert quorate("controllers", "--check").out == "the defaults: valid\n"
