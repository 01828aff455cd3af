"""The reference page of the configuration matches the code, including messages."""

import re
from json import dumps
from pathlib import Path
from typing import Any

import pytest

from quorate.api.configuration import load_configuration
from quorate.api.configuration.feature_gates import SUPPORTED_GATES
from quorate.api.configuration.integrations import FRAMEWORKS
from quorate.api.decoding.strict import InvalidConfiguration

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")


def a_file(version: str, field: str, value: Any) -> str:
    *sections, name = field.split(".")
    body: dict[str, Any] = {name: value}
    for each in reversed(sections):
        body = {each: body}
    return dumps({"apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration", **body})


def table_under(heading: str) -> list[tuple[str, str]]:
    """Return the fields of the table under ``heading``, each with the version that has it."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)`(?: \(`(v1beta1)`\))? ", section, re.MULTILINE)
    return [(field, version or "v1beta2") for field, version in rows]


EXAMPLES: dict[str, Any] = {
    "pprofBindAddress": ":8083",
    "queueVisibility": {"updateIntervalSeconds": 5},
    "integrations.podOptions": {"namespaceSelector": {}},
}


@pytest.mark.parametrize(("field", "version"), table_under("Ignored fields"))
def test_a_field_without_effect_produces_a_warning(field: str, version: str) -> None:
    loaded = load_configuration(a_file(version, field, EXAMPLES[field]))
    assert any(warning.startswith(f"{field}: ") for warning in loaded.warnings)
    without = load_configuration(a_file(version, "namespace", "kueue-system"))
    assert loaded.configuration == without.configuration


def test_every_listed_field_has_an_example() -> None:
    assert sorted(field for field, _ in table_under("Ignored fields")) == sorted(EXAMPLES)


def test_the_page_lists_the_supported_gates() -> None:
    assert re.findall(r"^\| `featureGates\.(\w+)`", PAGE, re.MULTILINE) == list(SUPPORTED_GATES)


def test_the_page_lists_the_supported_job_kinds() -> None:
    listed = PAGE.partition("These kinds are supported:")[2].partition("\n## ")[0]
    assert re.findall(r"^- `(\S+)`", listed, re.MULTILINE) == list(FRAMEWORKS)


def test_messages_on_the_page_match_the_code() -> None:
    documented = re.findall(r"^    (line .*)$", PAGE, re.MULTILINE)
    text = (
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nwaitForPodsReady:\n"
        "  timout: 10m\n  requeuingStrategy:\n    backoffLimitCount: -1\n"
    )
    with pytest.raises(InvalidConfiguration) as refusal:
        load_configuration(text)
    assert sorted(map(str, refusal.value.findings)) == documented
