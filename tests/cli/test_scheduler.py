"""``quorate scheduler`` refuses invalid options before it starts."""

from pathlib import Path

import pytest

from tests.cli.conftest import Quorate


@pytest.mark.parametrize(
    ("option", "value", "want"),
    [
        pytest.param(
            "--scheduler-conf", "bad.conf", "bad.conf:1: actions: 'alocate' names 'alocate'", id="a bad file"
        ),
        pytest.param("--scheduler-conf", "none.conf", "none.conf: no such file", id="no file"),
        pytest.param("--scheduler-conf", "endless.conf", "is larger than 1 MiB", id="a file above the limit"),
        pytest.param("--health-address", "8081", "'8081' is no address", id="a port without a colon"),
        pytest.param("--scheduler-name", "", "'' is no schedulerName", id="no name"),
        pytest.param("--lease-namespace", "", "'' is no namespace", id="no namespace"),
        pytest.param("--schedule-period", "inf", "inf is not in the range", id="an infinite period"),
    ],
)
def test_invalid_options_are_refused(
    quorate: Quorate, tmp_path: Path, option: str, value: str, want: str
) -> None:
    (tmp_path / "bad.conf").write_text("actions: alocate\n")
    (tmp_path / "endless.conf").symlink_to("/dev/zero")
    given = str(tmp_path / value) if value.endswith(".conf") else value
    done = quorate("scheduler", option, given, "--kubeconfig", str(tmp_path / "none"))
    assert done.code != 0
    assert want in done.err
