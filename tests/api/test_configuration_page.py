"""The reference page of the configuration names what the code knows, and shows the messages it gives."""

import re
from pathlib import Path

import pytest

from quorate.api.configuration import InvalidConfiguration, load_configuration
from quorate.api.configuration_gates import HONOURED_GATES
from quorate.api.configuration_integrations import FRAMEWORKS
from quorate.api.configuration_unused import UNUSED

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")


def test_the_page_lists_the_fields_that_are_checked_but_not_honoured() -> None:
    listed = re.findall(r"`(\w+)`", PAGE.partition("not honoured yet")[2].partition("`integrations.")[0])
    fields = [name for name in listed if name not in UNUSED]
    assert fields == sorted(set(UNUSED["v1beta1"]) | set(UNUSED["v1beta2"]))


def test_the_page_lists_the_gates_that_are_honoured() -> None:
    assert re.findall(r"^\| `featureGates\.(\w+)`", PAGE, re.MULTILINE) == list(HONOURED_GATES)


def test_the_page_lists_the_kinds_of_job_that_are_handled() -> None:
    listed = PAGE.partition("These are handled:")[2].partition("The others")[0]
    assert re.findall(r"^- `(\S+)`", listed, re.MULTILINE) == list(FRAMEWORKS)


def test_the_messages_on_the_page_are_those_given() -> None:
    shown = re.findall(r"^    (line .*)$", PAGE, re.MULTILINE)
    text = (
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nwaitForPodsReady:\n"
        "  timout: 10m\n  requeuingStrategy:\n    backoffLimitCount: -1\n"
    )
    with pytest.raises(InvalidConfiguration) as refusal:
        load_configuration(text)
    assert sorted(map(str, refusal.value.findings)) == shown
