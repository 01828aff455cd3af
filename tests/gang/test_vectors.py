"""Every vector of the specification against the core as it is."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.gang.actions import ACTIONS
from quorate.gang.plugins import PLUGINS
from tests.gang.vectors import KINDS, run_case

Json = dict[str, Any]

FILE = yaml.load((Path(__file__).parent / "gang-cases.yaml").read_text(), Loader=yaml.CSafeLoader)
CONFS = FILE["confs"]

# What is not built yet.  These sets only ever shrink: what is in them and works fails the test below.
MISSING_KINDS = {"admission"}
MISSING_ACTIONS: set[str] = set()
MISSING_PLUGINS: set[str] = set()


def is_built(case: Json) -> bool:
    if case["kind"] != "session":
        return case["kind"] not in MISSING_KINDS
    conf = CONFS[case["given"]["conf"]]
    actions = {action.strip() for action in conf["actions"].split(",")}
    plugins = {
        plugin if isinstance(plugin, str) else plugin["name"] for tier in conf["tiers"] for plugin in tier
    }
    return not (actions & MISSING_ACTIONS or plugins & MISSING_PLUGINS)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case["id"]) for case in FILE["cases"] if is_built(case)]
)
def test_vector(case: Json) -> None:
    assert run_case(case, CONFS) == []


def test_what_is_left_out_is_not_there() -> None:
    assert MISSING_KINDS.isdisjoint(KINDS)
    assert MISSING_ACTIONS.isdisjoint(ACTIONS)
    assert MISSING_PLUGINS.isdisjoint(PLUGINS)
