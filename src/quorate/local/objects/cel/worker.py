"""The process that evaluates CEL expressions.

Its standard input is a connection to the server, which sends lists of expressions.  An expression can take
hours and more memory than a machine has, and the runtime cannot be interrupted.  The kernel ends this
process when a list takes more than the processor time that the server allows, or too much memory.
"""

import pickle
import re
import resource
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple, TypeAlias

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

MEMORY_BYTES: Final = 1 << 30  # of addresses; the process begins with 45 MiB
NO_DATA: Final = "the value contains an optional or a type, which JSON cannot have"

Json: TypeAlias = dict[str, Any]
ExpressionData: TypeAlias = tuple[str, Mapping[str, Any]]
"""the text of an expression, and its variables"""


class Result(NamedTuple):
    """The value of an expression, or why it has none."""

    value: Any
    error: str = ""
    """empty if there is a value"""
    is_too_long: bool = False
    """True if the evaluation takes more than the runtime's 10,000 iterations"""


_LIST = cel.Type.List(cel.Type.DYN)


def _function(
    name: str, receiver: cel.Type, arguments: list[cel.Type], result: cel.Type, run: Callable[..., Any]
) -> cel.FunctionDecl:
    identity = f"{receiver.name().partition('(')[0].lower()}_{name}"
    return cel.FunctionDecl(name, [cel.Overload(identity, result, [receiver, *arguments], True, run)])


def _is_sorted(items: list[Any]) -> bool:
    return all(first <= second for first, second in pairwise(items))


def _find(text: str, pattern: str) -> str:
    from quorate.api.go_regexp import Pattern  # few expressions need it, and it takes longer than this module

    return Pattern(pattern).search(text) or ""


def _find_all(text: str, pattern: str) -> list[str]:
    from quorate.api.go_regexp import Pattern

    return Pattern(pattern).find_all(text)


_FUNCTIONS = [
    _function("isSorted", _LIST, [], cel.Type.BOOL, _is_sorted),
    _function("sum", _LIST, [], cel.Type.DYN, sum),
    _function("min", _LIST, [], cel.Type.DYN, min),
    _function("max", _LIST, [], cel.Type.DYN, max),
    _function("find", cel.Type.STRING, [cel.Type.STRING], cel.Type.STRING, _find),
    _function("findAll", cel.Type.STRING, [cel.Type.STRING], _LIST, _find_all),
]
"""Functions that Kubernetes adds to CEL."""


def environment(variables: Sequence[str]) -> cel.Env:
    """Return an environment with CEL's extensions, Kubernetes' functions, and variables of any type."""
    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.DYN),
        extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings(), ext_bindings.ExtBindings()],
        functions=_FUNCTIONS,
    )


RULE_VARIABLES: Final = ("self", "oldSelf", "oldSelves")
POLICY_VARIABLES: Final = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
_NO_KEY: Final = re.compile('Key not found in map : "(.*)"')
_ENVIRONMENT: Final = environment(RULE_VARIABLES + POLICY_VARIABLES)


@lru_cache(maxsize=4096)
def _program(text: str) -> cel.Expression:
    return _ENVIRONMENT.compile(text)


def evaluate(text: str, variables: Mapping[str, Any]) -> Result:
    """Return the result of an expression, which has been compiled before without an error."""
    program = _program(text)
    try:
        result = program.eval(data=variables)
    except RuntimeError:  # the only exception of the runtime
        return Result(None, "the cost limit is exceeded", is_too_long=True)
    try:
        if result.type() == cel.Type.ERROR:
            error = str(result.value()).partition(": ")[2] or "no value"
            return Result(None, _NO_KEY.sub(r"no such key: \1", error))
        return Result(result.plain_value())
    except (SystemError, TypeError):  # of an optional, inside of a list or alone
        return Result(None, NO_DATA)


def _sendable(result: Result) -> Result:
    try:
        pickle.dumps(result)
    except TypeError:
        return Result(None, NO_DATA)
    return result


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with Connection(0) as connection:
        while True:
            try:
                limit_s, expressions = connection.recv()
            except EOFError:
                return
            signal.setitimer(signal.ITIMER_PROF, limit_s)  # SIGPROF ends the process
            began_s = time.process_time()
            results = [evaluate(*expression) for expression in expressions]
            signal.setitimer(signal.ITIMER_PROF, 0)
            used_s = time.process_time() - began_s
            try:
                connection.send((used_s, results))
            except TypeError:  # nothing was sent
                connection.send((used_s, [_sendable(result) for result in results]))
