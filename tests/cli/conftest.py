import sys
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass

import pytest

from quorate.cli import main


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


Quorate = Callable[..., Done]


@pytest.fixture
def quorate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quorate:
    """Return a function that runs the command in this process: ``quorate("local", "down")``."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["quorate", *arguments])
        monkeypatch.setattr(sys.modules["__main__"], "__package__", "")  # not as ``python -m pytest``
        monkeypatch.setenv("COLUMNS", "200")  # so that messages are not wrapped
        with pytest.raises(SystemExit) as exit_:
            copy_context().run(main)  # what it sets is gone with it, such as --token
        code = exit_.value.code
        printed = capsys.readouterr()
        return Done(code if isinstance(code, int) else 0, printed.out, printed.err)

    return run
