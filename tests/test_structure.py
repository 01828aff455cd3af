"""Limits of the structure of src: attribute chains, names, prompts, the size of the model of queues.

A long chain ties code to the inside of three other classes. The owner of a fact has a method or a property
for it, or the caller passes the part.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import pytest

from quorate.queueing.queue_objects import QueueObjects

SOURCE: Final = Path(__file__).resolve().parents[1] / "src"

DEEPEST: Final = 3  # attributes after a name; ``self`` and ``cls`` are no names
MOST_METHODS: Final = 25
VAGUE_VARIABLE: Final = re.compile(  # such a name says nothing about the value
    r"\bfor (?:\w+, )*(?:each|found|known)(?:, \w+)* in\b|\blambda (?:each|found|known):|"
    r"^ +(?:\w+, )*(?:each|found|known)(?:, \w+)* = |\((?:each|found|known) :=",
    re.MULTILINE,
)


def chains(source: str) -> Iterator[tuple[str, int]]:
    """Yield each attribute chain that begins with a name and is deeper than ``DEEPEST``, and its line."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    inner = {id(node.value) for node in nodes}
    for node in nodes:
        depth, first = 0, cast(ast.expr, node)
        while isinstance(first, ast.Attribute):
            depth, first = depth + 1, first.value
        if id(node) in inner or not isinstance(first, ast.Name):
            continue
        if depth - (first.id in ("self", "cls")) > DEEPEST:
            yield ast.unparse(node), node.lineno


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("a.b.c.d", []),
        ("a.b.c.d.e", [("a.b.c.d.e", 1)]),
        ("a.b.c.d.e()", [("a.b.c.d.e", 1)]),
        ("self.a.b.c.d", []),
        ("self.a.b.c.d.e", [("self.a.b.c.d.e", 1)]),
        ("a.b().c.d.e.f", []),
    ],
)
def test_a_chain_begins_with_a_name(source: str, want: list[tuple[str, int]]) -> None:
    assert list(chains(source)) == want


def test_no_chain_of_attributes_is_deeper_than_three() -> None:
    assert [
        f"{path.relative_to(SOURCE)}:{line}: {chain}"
        for path in sorted(SOURCE.rglob("*.py"))
        for chain, line in chains(path.read_text())
    ] == []


@pytest.mark.parametrize(
    ("source", "is_vague"),
    [
        ("    found = search(x)\n", True),
        ("    left, found = search(x)\n", True),
        ("[each.name for each in pods]", True),
        ("[name for name, each in pods.items()]", True),
        ("key=lambda each: each.name", True),
        ("if (known := cache.get(key)) is None:", True),
        ("LocalQueueView(name, found=True)", False),
        ("    found: bool\n", False),
        ("the share for each resource in the queue", False),
    ],
)
def test_a_vague_name_is_recognized(source: str, is_vague: bool) -> None:
    assert bool(VAGUE_VARIABLE.search(source)) == is_vague


def test_variables_name_their_values() -> None:
    assert [
        f"{path.relative_to(SOURCE)}: {match.group().strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for match in VAGUE_VARIABLE.finditer(path.read_text())
    ] == []


QUESTIONS = ("input", "confirm", "typer.confirm", "typer.prompt")


def test_no_coroutine_waits_for_an_answer() -> None:
    """The event loop turns Ctrl-C into a cancellation, which a coroutine that waits for input never meets."""
    assert [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for coroutine in ast.walk(ast.parse(path.read_text()))
        if isinstance(coroutine, ast.AsyncFunctionDef)
        for node in ast.walk(coroutine)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in QUESTIONS
    ] == []


def test_the_model_of_queues_has_few_methods() -> None:
    methods = [name for name, value in vars(QueueObjects).items() if callable(value)]
    assert len(methods) <= MOST_METHODS, methods
