import os
from pathlib import Path

from quorate.local.runtime.containers.cgroups import Cgroups, remove_unused


def test_groups_that_a_killed_kubelet_has_left_are_removed(tmp_path: Path) -> None:
    for name, age_s in (("old", 100), ("young", 10), ("used", 100)):
        (tmp_path / name).mkdir()
        if name == "used":
            (tmp_path / name / "process").touch()  # as a directory of the kernel, it cannot be removed then
        os.utime(tmp_path / name, (1000 - age_s, 1000 - age_s))
    remove_unused(Cgroups(None, {"memory": tmp_path}), 1000)
    assert {path.name for path in tmp_path.iterdir()} == {"young", "used"}
