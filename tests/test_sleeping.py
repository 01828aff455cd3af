"""Tests wait for a condition with a deadline, never for time to pass: a busy machine has its own pace."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent
SHARED = "conformance/check.py"  # a tool shared with other implementations, kept as it is

# A sleep outside of a polling loop, by file and function, and why no condition can replace it.
ALLOWED: Final = {
    ("e2e/test_idempotence.py", "quiet"): "that nothing is written shows only over a time",
    ("local/controllers/test_local_cluster.py", "settled"): "that nothing is written shows only over a time",
    ("faults/gang_runs.py", "run"): "a storm of faults lasts for a time",
    ("faults/gang_scene.py", "_submit"): "the schedule of a trial",
    ("e2e/world.py", "request"): "a late reservation is the fault itself",
    ("faults/proxy.py", "_respond"): "a late answer is the fault itself",
    ("faults/runs.py", "run"): "a storm of faults lasts for a time",
    ("faults/runs.py", "_submit"): "the schedule of a trial",
    ("faults/test_late_writes.py", "story"): "nothing shows that a late write was refused",
    ("kube/test_client.py", "story"): "blocks the event loop itself, so that two timers are due at once",
    ("webhooks/test_webhook_server.py", "large"): "work of a known duration, for which a turn owes a pause",
    ("kube/test_leader_election.py", "respond"): "a write that takes a while",
    ("kube/test_client.py", "count"): "a request that takes a while",
}


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


def test_no_test_waits_for_time_to_pass() -> None:
    found = [
        (str(path.relative_to(ROOT)), function, line)
        for path in sorted(ROOT.rglob("*.py"))
        if str(path.relative_to(ROOT)) != SHARED
        for function, line in sleeps(path.read_text())
    ]
    assert [each for each in found if each[:2] not in ALLOWED] == []
    assert ALLOWED.keys() - {each[:2] for each in found} == set(), "allowed, and not needed"


def test_how_sleeps_are_found() -> None:
    source = """
async def wait():
    await asyncio.sleep(0)
    while not done():
        await asyncio.sleep(0.1)
    time.sleep(2)
"""
    assert list(sleeps(source)) == [("wait", 6)]
