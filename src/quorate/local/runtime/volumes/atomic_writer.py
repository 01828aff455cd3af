"""Directories in which all files change at once, as those of a kubelet: ``..data`` links to the version.

    key         -> ..data/key
    ..data      -> ..2026_11_28_17_00_00.123456789
    ..2026_11_28_17_00_00.123456789/key

A reader that opens files below ``..data`` sees one version of all of them.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

DATA: Final = "..data"
_NEW_LINK: Final = "..data_tmp"


@dataclass(frozen=True, slots=True)
class VolumeFile:
    content: bytes
    mode: int = 0o644


def is_safe(path: str) -> bool:
    """Return True if a path stays below its volume, and is no name of the writer's own files."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and not parts[0].startswith("..")


def write_files(directory: Path, files: Mapping[str, VolumeFile], version: str) -> bool:
    """Make ``files``, by relative path, the content of a directory; return False if they were already.

    ``version`` names the new version, different from all others of this directory.
    """
    if _current(directory) == files:
        return False
    new = directory / f"..{version}"
    new.mkdir(mode=0o755, parents=True)
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    link = directory / _NEW_LINK
    link.unlink(missing_ok=True)
    link.symlink_to(new.name)
    old = directory / DATA
    previous = directory / os.readlink(old) if old.is_symlink() else None
    link.replace(old)
    tops = {PurePosixPath(path).parts[0] for path in files}
    for entry in directory.iterdir():
        if entry.is_symlink() and not entry.name.startswith("..") and entry.name not in tops:
            entry.unlink()
    for top in tops:
        if not (directory / top).is_symlink():
            (directory / top).symlink_to(f"{DATA}/{top}")
    if previous is not None:
        shutil.rmtree(previous, ignore_errors=True)
    return True


def _current(directory: Path) -> dict[str, VolumeFile] | None:
    """Return the files of the current version, or None before the first."""
    data = directory / DATA
    if not data.is_dir():
        return None
    return {
        str(path.relative_to(data)): VolumeFile(path.read_bytes(), path.stat().st_mode & 0o7777)
        for path in data.rglob("*")
        if path.is_file()
    }
