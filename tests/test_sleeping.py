"""Tests wait for a condition with a deadline, never for time to pass: a busy machine has its own pace."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent
SHARED = "conformance/check.py"  # a tool shared with other implementations, kept as it is

REASON: Final = "# sleeps: "  # on the line of a sleep, or above it: why no condition can replace it


def sleeps(source: str) -> Iterator[tuple[str, int]]:
    """Yield the function and the line of each sleep for longer than 0 that is not in a loop."""

    def visit(node: ast.AST, function: str, in_loop: bool) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield from visit(child, name, False)
                case ast.For() | ast.AsyncFor() | ast.While():
                    yield from visit(child, function, True)
                case ast.Call(func=ast.Attribute(attr="sleep"), args=[duration]) if not in_loop:
                    if not (isinstance(duration, ast.Constant) and duration.value == 0):
                        yield function, child.lineno
                case _:
                    yield from visit(child, function, in_loop)

    return visit(ast.parse(source), "", False)


def without_reason(source: str) -> list[int]:
    """Return the lines of sleeps for which no comment gives a reason."""
    lines = ["", *source.splitlines()]
    return [line for _, line in sleeps(source) if REASON not in lines[line] + lines[line - 1]]


def test_no_test_waits_for_time_to_pass() -> None:
    assert [
        (str(path.relative_to(ROOT)), line)
        for path in sorted(ROOT.rglob("*.py"))
        if str(path.relative_to(ROOT)) != SHARED
        for line in without_reason(path.read_text())
    ] == []


def test_how_sleeps_are_found() -> None:
    source = """
async def wait():
    await asyncio.sleep(0)
    while not done():
        await asyncio.sleep(0.1)
    time.sleep(2)
"""
    assert list(sleeps(source)) == [("wait", 6)]
    assert without_reason(source) == [6]
    assert (
        without_reason(source.replace("    time.sleep", f"    {REASON}a busy machine\n    time.sleep")) == []
    )
