from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from quorate.local.runtime.pods.volumes import VolumeFile, is_safe, write_files


def visible(directory: Path) -> dict[str, str]:
    """Return what a program reads below the directory."""
    paths = [path for path in directory.iterdir() if not path.name.startswith("..")]
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
    return {str(file.relative_to(directory)): file.read_text() for file in files if file.is_file()}


FILES = st.dictionaries(
    st.sampled_from(["a", "b", "d/x", "d/y", "e/f/g"]), st.text("xyz", max_size=3), max_size=4
)


@given(versions=st.lists(FILES, min_size=1, max_size=5))
def test_a_directory_has_the_files_of_its_last_version(
    tmp_path_factory: object, versions: list[dict[str, str]]
) -> None:
    directory = tmp_path_factory.mktemp("volume")  # type: ignore[attr-defined]
    for number, files in enumerate(versions):
        wanted = {path: VolumeFile(text.encode()) for path, text in files.items()}
        changed = write_files(directory, wanted, str(number))
        assert changed is (number == 0 or files != versions[number - 1])
        assert visible(directory) == files
        assert write_files(directory, wanted, "again") is False


def test_paths_that_leave_the_volume_are_not_safe() -> None:
    assert [is_safe(path) for path in ("a", "a/b", "../a", "a/../../b", "/a", "..data", "")] == [
        True, True, False, False, False, False, False,
    ]  # fmt: skip
