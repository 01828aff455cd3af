"""Kinds of job that are not queued, and what their objects are told."""

import pytest

from quorate.api.configuration.integrations import VOLCANO_JOB, VOLCANO_POD_GROUP, Integrations
from quorate.controllers.unserved import unserved_kinds, why_not_queued


@pytest.mark.parametrize(
    ("frameworks", "want"),
    [
        pytest.param((), {VOLCANO_JOB, VOLCANO_POD_GROUP}, id="both kinds are off"),
        pytest.param((VOLCANO_JOB,), {VOLCANO_POD_GROUP}, id="pod groups are off"),
        pytest.param((VOLCANO_POD_GROUP,), set(), id="the pod group of a Volcano Job is queued for it"),
        pytest.param((VOLCANO_JOB, VOLCANO_POD_GROUP), set(), id="both are on"),
    ],
)
def test_volcano_kinds_that_are_off_are_reported(frameworks: tuple[str, ...], want: set[str]) -> None:
    off = {name for name, _ in unserved_kinds(Integrations(frameworks=frameworks))}
    assert off & {VOLCANO_JOB, VOLCANO_POD_GROUP} == want


def test_the_remedy_names_the_integration() -> None:
    why = why_not_queued(Integrations(frameworks=()), "scheduling.volcano.sh", "PodGroup")
    assert "the integration scheduling.volcano.sh/podgroup is off" in why
    assert why_not_queued(Integrations(), "scheduling.volcano.sh", "PodGroup") == ""
