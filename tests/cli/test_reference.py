"""The generated reference pages match the code."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reference import PAGES
from reference.commands import page
from reference.filter_failures import REASONS

from quorate.placement import failures
from quorate.placement.failures import FilterFailure

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "docs" / "reference"
SOURCES = [ROOT / "src" / "quorate" / package for package in ("controllers", "queueing", "witness")]
RECORDER = ROOT / "src" / "quorate" / "kube" / "events.py"
VOLCANO_JOB = ROOT / "src" / "quorate" / "api" / "volcano" / "job.py"  # with a reason of events
WORDS = re.compile(r"KEY|VALUE|VOLUME|REQUEST|PROBLEM|SHORTAGE")  # placeholders of the page for names
REASON = re.compile(r"[A-Z][a-z]+[A-Za-z]*")


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_is_up_to_date(name: str) -> None:
    again = "run: python -m reference docs/reference"
    assert (DIRECTORY / name).read_text(encoding="utf-8") == PAGES[name](), again


def test_each_command_has_an_example_and_each_option_a_description() -> None:
    for section in page().split("\n## ")[1:]:
        name, *lines = section.splitlines()
        assert sum(line.startswith(f"    {name}") for line in lines) >= 2, f"{name} has no example"
        assert [line for line in lines if line.startswith("| `") and line.endswith("|  |")] == [], name


def reasons(path: Path) -> Iterator[str]:
    """Yield the literal event reasons of a module; the remaining ones are reasons of conditions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if called in ("Event", "event", "normal_event", "warning_event"):
                texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
                words = [text for text in texts if isinstance(text, str) and REASON.fullmatch(text)]
                yield from (word for word in words if word not in ("Normal", "Warning"))


def test_every_event_is_on_the_page() -> None:
    named = {reason for source in SOURCES for path in source.rglob("*.py") for reason in reasons(path)}
    evictions = {reason for reason in named if reason.startswith("EvictedDueTo")}
    page_text = (DIRECTORY / "events.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(.*?)` \|", page_text, re.MULTILINE))
    assert named - evictions - listed == set()
    modules = [RECORDER, VOLCANO_JOB, *(path for source in SOURCES for path in source.rglob("*.py"))]
    text = "\n".join(path.read_text() for path in modules)
    assert [each for each in sorted(listed) if f'"{each}"' not in text and each != "EvictedDueTo…"] == []


def test_every_filter_failure_is_on_the_page() -> None:
    known = {value for value in vars(failures).values() if isinstance(value, FilterFailure)}
    values: dict[str, Any] = {"most": 256, "is_permanent": False}
    made = {
        make(**{name: values.get(name, "NAME") for name in inspect.signature(make).parameters})
        for make in vars(failures).values()
        if inspect.isfunction(make) and inspect.signature(make).return_annotation is FilterFailure
    }
    assert len(made) == 16
    listed = {reason.failure for reason in REASONS}
    as_listed = {FilterFailure(one.remedy, WORDS.sub("NAME", one.reason)) for one in listed}
    assert known | made <= as_listed


def test_failures_resolved_by_eviction_match_kube_scheduler() -> None:
    codes = {(reason.failure.reason, reason.failure.code) for reason in REASONS}
    assert {reason for reason, code in codes if code == "Unschedulable"} == {
        "cannot allocate all claims: SHORTAGE",
        "node group resource limit exceeded",
        "node(s) didn't have free ports for the requested pod ports",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
        "by another pod",
        "node(s) exceed max volume count",
        "node(s) didn't match pod topology spread constraints",
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    }
    assert {code for _, code in codes} == {"Unschedulable", "UnschedulableAndUnresolvable"}
