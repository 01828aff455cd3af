"""``quorate crds`` writes the files of ``deploy/crds``."""

from pathlib import Path

import pytest

from quorate.cli.deployment.crds import crds

SHIPPED = Path(__file__).parents[3] / "deploy" / "crds"


def test_the_command_writes_and_names_the_shipped_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crds(tmp_path / "new", conversion_webhook=True)
    written = sorted((tmp_path / "new").rglob("*.yaml"))
    assert sorted(capsys.readouterr().out.splitlines()) == [str(path) for path in written]
    assert [(path.relative_to(tmp_path / "new"), path.read_bytes()) for path in written] == [
        (path.relative_to(SHIPPED), path.read_bytes()) for path in sorted(SHIPPED.rglob("*.yaml"))
    ]
