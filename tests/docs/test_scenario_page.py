"""The page about scenarios has every field that is decoded, no other, and an example with each of them."""

import re
from pathlib import Path
from typing import Any

from quorate.api.decoding.documents import read_documents
from quorate.simulate.inputs.scenario import read_scenario

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/scenario.md").read_text()
SOURCES = [
    (ROOT / "src/quorate/simulate/inputs" / f"{name}.py").read_text()
    for name in ("scenario", "node_pools", "distributions", "worker_clusters")
]
# Fields that are decoded: literal names, names that are passed to a decoder, and those with one in a table.
TAKEN = re.compile(r'(?:take\(|_required\(fields, |_field=|\w(?:=|: )\()"(\w+)"')
HEAD = {"apiVersion", "kind", "metadata"}


def fields_of_example() -> set[str]:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (document,) = read_documents(example)
    _, findings = read_scenario(document)
    assert findings == []
    found: set[str] = set()

    def add(value: Any) -> None:
        if isinstance(value, dict):
            found.update(value)
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            add(each)

    add(document.value)
    return found


def test_the_page_has_every_field_that_is_decoded() -> None:
    decoded = {name for source in SOURCES for name in TAKEN.findall(source)} - HEAD
    rows = re.findall(r"^\| (`.*)$", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert decoded - named == set()
    first = {name for row in rows for name in re.findall(r"`(\w+)`", row.partition(" |")[0])}
    assert first - decoded - {"uniform", "exponential", "lognormal", "weibull", "choice"} == set()


def test_the_example_uses_every_field() -> None:
    decoded = {name for source in SOURCES for name in TAKEN.findall(source)}
    assert decoded - fields_of_example() - {"metadata"} == set()
