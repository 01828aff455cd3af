"""Questions to the user, and messages about arguments of several lines."""

import sys
from collections.abc import Callable
from typing import NoReturn

import pytest
import typer

from quorate.cli import main
from quorate.cli.questions import confirm


def interrupted(prompt: str) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(lambda prompt: "y", 0, id="yes"),
        pytest.param(lambda prompt: "n", 1, id="no"),
        pytest.param(interrupted, 130, id="Ctrl-C"),
    ],
)
def test_ctrl_c_at_a_question_is_an_interruption(
    answer: Callable[[str], str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer._click.termui.visible_prompt_func", answer)
    app = typer.Typer()
    app.command()(lambda: confirm("delete it?", err=True))
    with pytest.raises(SystemExit) as ended:
        app([])
    assert ended.value.code == code


@pytest.mark.parametrize(
    "arguments", [["submit", "--name", "te\nam"], ["submit", "--name=te\nam"], ["submit", "-f", "te\nam"]]
)
def test_an_argument_of_several_lines_is_in_a_message_of_one_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["quorate", *arguments, "--", "true"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "te\\nam" in line
