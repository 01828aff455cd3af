"""Break the rules of ``mutations.yaml`` one at a time and check that the fast tests of the core fail.

    python -m tests.mutations [TEXT ...]

With TEXT only the rules that contain one of the texts.  A mutant lives in a copy of ``src``.  Prints which
test caught each mutant; exits with 1 when one survives.

An entry names a function (or a module's constant) and an operator.  Where an operator applies in several
places, ``at: TEXT`` names the place with the source TEXT, or else the only place with TEXT in its source; the
source of a conditional is its condition.  Operators:

    negate: if                   the condition of an if, a conditional expression, a while or a filter
    always: if / never: if       the same, replaced by True or by False
    swap: min                    a call of min becomes max, and the reverse
    compare: {"<": "<="}         a comparison operator becomes another one
    keep: {of: "+", side: left}  a binary or boolean operation becomes one of its operands
    unsign: "-"                  a unary operator (-, not) is dropped
    literal: {old: 0, new: 1}    a literal becomes another one
    return: "False"              every returned value becomes this expression
    assign: "0"                  the value of an assignment becomes this expression
    drop: call                   a statement is dropped: call, assignment or augmented (x += 1)
    unwrap: 1                    a call becomes this one of its positional arguments
    argument: {position: 1, becomes: "_ + 1"}  a positional argument becomes this expression of it
    binary: {"|": "^"}           a binary operator becomes another one
    flip: "+"                    the operands of a binary operation change places
    reverse: for                 a loop runs backwards
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
# The tests that hold the rules of a package.
TESTS = {
    "quota": ("tests/quota", "tests/queueing"),
    "queueing": ("tests/quota", "tests/queueing"),
    "placement": ("tests/placement",),
    "gang": ("tests/gang",),
    "controllers": ("tests/controllers/multikueue/dispatch",),
}
OPERATORS: Final[Mapping[str, type[ast.AST]]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "|": ast.BitOr,
    "&": ast.BitAnd,
    "^": ast.BitXor,
    "and": ast.And,
    "or": ast.Or,
    "not": ast.Not,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
    "is": ast.Is,
    "is not": ast.IsNot,
    "in": ast.In,
    "not in": ast.NotIn,
}


@dataclass(frozen=True)
class Mutation:
    rule: str
    function: str  # dotted: module, then class if any, then function or constant
    operator: str
    argument: Any
    at: str = ""  # in the source of the only place where the operator is applied

    def path(self, source: Path) -> Path:
        """Return the file below ``source`` that has the function."""
        return _module_of(source, self.function)[0]

    def applied_to(self, source: Path) -> str:
        """Return the text of the function's module below ``source`` with the rule broken."""
        path, qualified_name = _module_of(source, self.function)
        tree = ast.parse(path.read_text())
        scope = _definition(tree, qualified_name, self.function)
        edits = list(_edits(scope, self.operator, self.argument))
        edits = [each for each in edits if each[0] == self.at] or [
            each for each in edits if self.at in each[0]
        ]
        sources = "; ".join(source for source, _ in edits)
        assert len(edits) == 1, (
            f"{self.function}: {self.operator}: {self.argument} is to apply once: {sources}"
        )
        edits[0][1]()
        return ast.unparse(ast.fix_missing_locations(tree))


def read_mutation(entry: Mapping[str, Any]) -> Mutation:
    (operator,) = entry.keys() - {"rule", "function", "at"}
    return Mutation(entry["rule"], entry["function"], operator, entry[operator], entry.get("at", ""))


def _module_of(source: Path, dotted: str) -> tuple[Path, list[str]]:
    path, names = source, dotted.split(".")
    while names and (path / names[0]).is_dir():
        path /= names.pop(0)
    module = (path / names[0]).with_suffix(".py")
    if module.is_file():
        return module, names[1:]
    assert (path / "__init__.py").is_file(), f"{dotted}: no such module"
    return path / "__init__.py", names


def _definition(tree: ast.Module, names: list[str], dotted: str) -> ast.AST:
    scope: ast.AST = tree
    for name in names:
        scope = next((node for node in _body(scope) if name in _names_defined(node)), tree)
        assert scope is not tree, f"{dotted}: no such function"
    return scope


def _body(scope: ast.AST) -> list[ast.stmt]:
    body = getattr(scope, "body", [])
    assert isinstance(body, list)
    return body


def _names_defined(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()


Edit = Callable[[], None]


def _edits(scope: ast.AST, operator: str, argument: Any) -> Iterator[tuple[str, Edit]]:
    """Yield the source and the edit of each place of ``scope`` at which ``operator`` applies."""
    for parent, field, index, node in _walk(scope):
        source = ast.unparse(getattr(node, "test", node))
        new = _mutant(node, operator, argument)
        if new is not None:
            yield source, _replacement(parent, field, index, new)


def _walk(scope: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield each node below ``scope`` with its place in its parent, parents before their children."""
    for field, value in ast.iter_fields(scope):
        for index, node in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(node, ast.AST):
                yield scope, field, index, node
                yield from _walk(node)


def _replacement(parent: ast.AST, field: str, index: int | None, new: ast.AST) -> Edit:
    def edit() -> None:
        if index is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[index] = new

    return edit


def _mutant(node: ast.AST, operator: str, argument: Any) -> ast.AST | None:
    """Return what becomes of ``node``; None where ``operator`` does not apply."""
    match operator, node:
        case "negate" | "always" | "never", (ast.If() | ast.IfExp() | ast.While()):
            return _with_condition(node, "test", operator)
        case "negate" | "always" | "never", ast.comprehension(ifs=[_]):
            return ast.comprehension(
                node.target, node.iter, [_condition(node.ifs[0], operator)], node.is_async
            )
        case "swap", ast.Call(func=ast.Name(id=("min" | "max") as name)) if name == argument:
            other = {"min": "max", "max": "min"}[name]
            return ast.Call(ast.Name(other, ast.Load()), node.args, node.keywords)
        case "compare", ast.Compare(ops=[op]):
            ((old, new),) = argument.items()
            if isinstance(op, OPERATORS[old]):
                return ast.Compare(node.left, [OPERATORS[new]()], node.comparators)  # type: ignore[list-item]
        case "keep", ast.BinOp(op=op) if isinstance(op, OPERATORS[argument["of"]]):
            return node.left if argument["side"] == "left" else node.right
        case "keep", ast.BoolOp(op=op) if isinstance(op, OPERATORS[argument["of"]]):
            left, right = node.values[:-1], node.values[-1:]
            kept = left if argument["side"] == "left" else right
            return kept[0] if len(kept) == 1 else ast.BoolOp(op, kept)
        case "unsign", ast.UnaryOp(op=ast.USub() | ast.Not()) if isinstance(node.op, _UNARY[argument]):
            return node.operand
        case "literal", ast.Constant(value=value):
            if type(value) is type(argument["old"]) and value == argument["old"]:
                return ast.Constant(argument["new"])
        case "return", ast.Return():
            return ast.Return(_expression(argument))
        case "assign", ast.Assign():
            return ast.Assign(node.targets, _expression(argument))
        case "drop", (ast.Expr(value=ast.Call()) | ast.Assign() | ast.AugAssign()):
            return ast.Pass() if isinstance(node, _STATEMENTS[argument]) else None
        case "unwrap", ast.Call(args=arguments) if len(arguments) >= argument:
            chosen: ast.expr = arguments[argument - 1]
            return chosen
        case "argument", ast.Call(args=arguments) if len(arguments) >= argument["position"]:
            index = argument["position"] - 1
            new = _expression(argument["becomes"], arguments[index])
            return ast.Call(node.func, [*arguments[:index], new, *arguments[index + 1 :]], node.keywords)
        case "binary", ast.BinOp(op=op):
            ((old, other),) = argument.items()
            if isinstance(op, OPERATORS[old]):
                return ast.BinOp(node.left, OPERATORS[other](), node.right)  # type: ignore[arg-type]
        case "flip", ast.BinOp(op=op) if isinstance(op, OPERATORS[argument]):
            return ast.BinOp(node.right, op, node.left)
        case "reverse", (ast.For() | ast.comprehension()):
            backwards = copy(node)
            backwards.iter = ast.Call(ast.Name("reversed", ast.Load()), [node.iter], [])
            return backwards
    return None


_STATEMENTS: Final = {"call": ast.Expr, "assignment": ast.Assign, "augmented": ast.AugAssign}
_UNARY: Final = {"-": ast.USub, "not": ast.Not}


def _with_condition(node: ast.If | ast.IfExp | ast.While, field: str, operator: str) -> ast.AST:
    values = dict(ast.iter_fields(node))
    return type(node)(**{**values, field: _condition(values[field], operator)})


def _condition(test: ast.expr, operator: str) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test) if operator == "negate" else ast.Constant(operator == "always")


def _expression(text: str, old: ast.expr | None = None) -> ast.expr:
    """Return the expression in ``text``, in which ``_`` stands for ``old``."""

    class Insert(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return old if name.id == "_" and old is not None else name

    new = Insert().visit(ast.parse(text, mode="eval").body)
    assert isinstance(new, ast.expr)
    return new


MUTATIONS = [read_mutation(each) for each in yaml.safe_load((ROOT / "tests/mutations.yaml").read_text())]


def main(texts: list[str]) -> int:
    chosen = [each for each in MUTATIONS if not texts or any(text in each.rule for text in texts)]
    table = Table("rule broken", "caught by", title="mutations of the cores", show_lines=True)
    survivors = 0
    for mutation in track(chosen, "breaking rules", console=Console(stderr=True)):
        caught_by = first_failure(mutation)
        survivors += caught_by is None
        table.add_row(mutation.rule, caught_by or "[bold red]no test")
    Console().print(table)
    print(f"{len(chosen) - survivors} caught, {survivors} survived")  # noqa: T201
    return 1 if survivors else 0


def first_failure(mutation: Mutation) -> str | None:
    """Return the first test that fails with the rule broken; None when all pass."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        mutation.path(source).write_text(mutation.applied_to(ROOT / "src"))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-m",
            "not slow",
            "-p",
            "no:cacheprovider",
            *TESTS[mutation.function.split(".")[1]],
        ]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        result = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    if result.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - |$)", result.stdout, re.MULTILINE)
    assert failed, result.stdout + result.stderr
    return failed[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
