"""The log of a cluster in the background is shown line by line."""

from pathlib import Path

from quorate.cli.local_background import print_log


def test_a_line_that_is_written_in_two_parts_is_shown_once(tmp_path: Path) -> None:
    log, shown = tmp_path / "log", list[str]()
    log.write_text("first\nsecond, be")
    parts = [", still", "\nthird\nlast"]

    def is_running() -> bool:
        with log.open("a") as writer:
            writer.write(parts.pop(0))
        return bool(parts)

    print_log(log, None, is_running, shown.append)
    assert shown == ["first", "second, be, still", "third", "last"]


def test_the_last_lines_alone_are_shown(tmp_path: Path) -> None:
    log, shown = tmp_path / "log", list[str]()
    log.write_text("first\nsecond\u2028with a separator\nthird\n")
    print_log(log, 2, None, shown.append)
    assert shown == ["second\u2028with a separator", "third"]
