"""Evaluation of CEL expressions within a budget of processor time and memory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.local.objects.cel import worker
from quorate.local.objects.cel.evaluation import Budget, BudgetExceeded, evaluate
from quorate.local.objects.cel.worker import ExpressionData, Result

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=4), parts, max_size=3),
)
RULES = ("self == oldSelf", "self.size() > 1", "self.all(x, x == oldSelf)", "has(self.a)", "[self, oldSelf]")
IS_POSITIVE: ExpressionData = ("self > 0", {"self": 1})
WORD = "ab" * 150_000


def slow(text: str) -> str:
    """Return an expression that matches a text 8,000 times."""
    match = f"!{text}.matches('[ab]+x')"
    for name in ("x", "y", "z"):
        match = f"{list(range(20))}.all({name}, {match})"
    return match


def doubled(times: int) -> str:
    """Return an expression with a string that is as long as 8 to the power of ``times``."""
    text = f"size(v{times}) > 0"
    for at in range(times, 0, -1):
        before = f"v{at - 1}"
        text = f"cel.bind(v{at}, {'+'.join([before] * 8)}, {text})"
    return f"cel.bind(v0, self, {text})"


@given(value=VALUES, old=VALUES, rules=st.lists(st.sampled_from(RULES), max_size=4))
def test_results_are_those_of_the_runtime_in_the_order_of_the_expressions(
    value: object, old: object, rules: list[str]
) -> None:
    variables = {"self": value, "oldSelf": old}
    wanted = [worker.evaluate(rule, variables) for rule in rules]
    assert evaluate([(rule, variables) for rule in rules], Budget()) == wanted


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("[3, 1].max()", Result(3), id="a value"),
        pytest.param("self.a", Result(None, "no such key: a"), id="no value"),
        pytest.param("'abc'.find('b.')", Result("bc"), id="a regular expression"),
        pytest.param(
            "range.all(x, range.all(y, x + y >= 0))".replace("range", str(list(range(200)))),
            Result(None, "the cost limit is exceeded", is_too_long=True),
            id="too many iterations",
        ),
    ],
)
def test_a_result_is_a_value_or_says_why_there_is_none(text: str, want: Result) -> None:
    assert evaluate([(text, {"self": {}})], Budget()) == [want]


@pytest.mark.parametrize("text", ["optional.of(1)", "[optional.none()]", "type(self)", "{'a': type(1)}"])
def test_a_value_that_json_cannot_have_is_an_error_and_no_lack_of_memory(text: str) -> None:
    results = evaluate([IS_POSITIVE, (text, {"self": 1}), IS_POSITIVE], Budget())
    assert results == [Result(True), Result(None, worker.NO_DATA), Result(True)]


def test_an_expression_is_ended_when_its_processor_time_is_spent() -> None:
    with pytest.raises(BudgetExceeded, match="more than 1 s of processor time"):
        evaluate([IS_POSITIVE, (slow("self"), {"self": WORD})], Budget(0.05))
    assert evaluate([IS_POSITIVE], Budget()) == [Result(True)]


def test_an_expression_is_ended_when_it_needs_too_much_memory() -> None:
    with pytest.raises(BudgetExceeded, match="more than 1024 MiB of memory"):
        evaluate([(doubled(12), {"self": "x"})], Budget(left_s=20.0))  # a busy machine takes a second
    assert evaluate([IS_POSITIVE], Budget()) == [Result(True)]


def test_expressions_share_a_budget() -> None:
    budget = Budget()
    for _ in range(3):
        before_s = budget.left_s
        evaluate([(slow("self"), {"self": "abab"})], budget)
        assert budget.left_s < before_s
    budget.left_s = 0.0
    with pytest.raises(BudgetExceeded):
        evaluate([IS_POSITIVE], budget)


def test_a_process_that_was_ended_while_it_was_idle_is_replaced() -> None:
    evaluate([IS_POSITIVE], Budget())
    for pid in worker_pids():
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert evaluate([IS_POSITIVE], Budget()) == [Result(True)]


def worker_pids() -> list[int]:
    """Return the processes of this one that evaluate expressions."""
    pids: list[int] = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes()
            parent = (directory / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:  # ended meanwhile
            continue
        if b"cel.worker" in command and int(parent) == os.getpid():
            pids.append(int(directory.name))
    return pids


FORKED = """
import asyncio, os, sys
from quorate.local.objects.cel.evaluation import Budget, evaluate, in_thread

def is_positive():
    return evaluate([("self > 0", {"self": 1})], Budget())[0].value

for _ in range(2):
    assert asyncio.run(in_thread(is_positive))
    if os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_forked_process_evaluates_with_threads_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], timeout=60, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_ctrl_c_while_the_first_expression_is_evaluated_reaches_no_process_of_expressions() -> None:
    """The terminal sends it to a group of processes; a process that starts would end and tell of memory."""
    program = (
        "import os, signal\n"
        "from quorate.local.objects.cel.evaluation import Budget, evaluate\n"
        "os.setpgid(0, 0)\n"
        "signal.signal(signal.SIGINT, lambda *_: None)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)\n"
        "signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGINT))\n"
        "print(evaluate([('self > 0', {'self': 1})], Budget())[0].value)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
