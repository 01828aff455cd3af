"""The section ``multiKueue`` of the Configuration."""

import pytest

from quorate.api.configuration import load_configuration
from quorate.api.configuration.multikueue import MultiKueue
from quorate.api.decoding.strict import InvalidConfiguration
from quorate.api.names.multikueue import INCREMENTAL
from tests.api.configuration.files import a_file


def section(text: str) -> MultiKueue:
    return load_configuration(a_file(f"multiKueue: {text}")).configuration.multikueue


def test_the_defaults_are_those_of_kueue() -> None:
    assert section("{}") == MultiKueue()
    assert load_configuration(a_file()).configuration.multikueue == MultiKueue()
    assert section('{origin: ""}').origin == "multikueue"


def test_each_field_is_decoded() -> None:
    given = section(
        f"{{gcInterval: 0s, origin: east, workerLostTimeout: 2m, dispatcherName: {INCREMENTAL}, "
        "incrementalDispatcherConfig: {stepSize: 1}, externalFrameworks: [{name: Train.v1.example.com}], "
        "clusterProfile: {accessProviders: [{name: cloud, execConfig: "
        "{command: login, apiVersion: client.authentication.k8s.io/v1, args: [a], interactiveMode: Never}}]}}"
    )
    assert (given.gc_interval_s, given.origin, given.worker_lost_timeout_s) == (0.0, "east", 120.0)
    assert (given.dispatcher, given.step_size) == (INCREMENTAL, 1)
    assert [framework.api_version for framework in given.external_frameworks] == ["example.com/v1"]
    assert given.access_plugins[0].exec["command"] == "login"


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        pytest.param("{gcInterval: -1s}", "multiKueue.gcInterval: '-1s'", id="negative interval"),
        pytest.param("{origin: 'a b'}", "multiKueue.origin: 'a b'", id="no label value"),
        pytest.param("{dispatcherName: mine}", "multiKueue.dispatcherName: 'mine'", id="no domain"),
        pytest.param(
            "{externalFrameworks: [{name: Job}]}", "externalFrameworks[0].name: 'Job'", id="no kind"
        ),
        pytest.param(
            "{incrementalDispatcherConfig: {stepSize: 2}}",
            "belongs to the dispatcher",
            id="steps of another dispatcher",
        ),
        pytest.param(
            f"{{dispatcherName: {INCREMENTAL}, incrementalDispatcherConfig: {{stepSize: 0}}}}",
            "multiKueue.incrementalDispatcherConfig.stepSize: 0",
            id="no step",
        ),
        pytest.param(
            "{clusterProfile: {accessProviders: [], credentialsProviders: []}}",
            "is the former name of accessProviders",
            id="both names",
        ),
    ],
)
def test_an_invalid_field_is_rejected(text: str, finding: str) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        section(text)
    assert finding in str(refusal.value)
