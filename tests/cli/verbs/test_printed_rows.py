"""Bold titles and coloured states in tables; none where the user or the terminal wants none."""

import pytest

from quorate.cli.verbs.printing import print_rows

ESCAPE = "\x1b"


class Terminal:
    """Keeps what is written; it is a terminal, so that control sequences are not removed."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> list[str]:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    print_rows(["SEVERITY", "ABOUT"], [["ERROR", "a"], ["INFO", "b"]], colours={"ERROR": "red"})
    return terminal.text.splitlines()


def test_titles_are_bold_and_rows_without_a_colour_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    titles, error, info = printed(monkeypatch, {"TERM": "xterm"})
    assert titles == f"{ESCAPE}[1mSEVERITY   ABOUT{ESCAPE}[0m"
    assert error == f"{ESCAPE}[31mERROR{ESCAPE}[0m      a"
    assert info == "INFO       b"


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}])
def test_no_control_sequences_are_written_where_none_are_wanted(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert printed(monkeypatch, environment) == ["SEVERITY   ABOUT", "ERROR      a", "INFO       b"]
