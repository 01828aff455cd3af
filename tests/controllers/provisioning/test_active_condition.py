"""The Active condition of provisioning checks."""

from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.kueue import AdmissionCheck
from quorate.controllers.provisioning.check_state import config_name, decide_active
from tests.controllers.provisioning.provisioning_objects import a_config

CONTROLLER = "kueue.x-k8s.io/provisioning-request"
VALID = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"}


def a_named_check(
    parameters: dict[str, str] | None, controller: str = CONTROLLER, **status: Any
) -> AdmissionCheck:
    spec = {"controllerName": controller, **({} if parameters is None else {"parameters": parameters})}
    body = {"metadata": {"name": "capacity", "resourceVersion": "3"}, "spec": spec, "status": status}
    return codec.convert(AdmissionCheck, body)


@pytest.mark.parametrize(
    ("parameters", "exists", "want"),
    [
        pytest.param(VALID, True, "True Active", id="configuration exists"),
        pytest.param(VALID, False, "False BadParametersRef", id="configuration is missing"),
        pytest.param(VALID | {"kind": "ConfigMap"}, True, "False BadParametersRef", id="another kind"),
        pytest.param(VALID | {"apiGroup": ""}, True, "False BadParametersRef", id="another group"),
        pytest.param(None, True, "False BadParametersRef", id="no parameters"),
    ],
)
def test_a_check_is_active_with_its_configuration(
    parameters: dict[str, str] | None, exists: bool, want: str
) -> None:
    check = a_named_check(parameters)
    (patch,) = decide_active(check, a_config() if exists else None, 1_000.0)
    (active,) = patch.body["status"]["conditions"]
    assert f"{active['status']} {active['reason']}" == want
    unchanged = a_named_check(parameters, conditions=[active])
    assert decide_active(unchanged, a_config() if exists else None, 2_000.0) == ()


def test_checks_of_other_controllers_are_ignored() -> None:
    check = a_named_check(VALID, "example.com/other")
    assert config_name(check) is None
    assert decide_active(check, a_config(), 1_000.0) == ()


def test_a_check_that_stays_active_has_the_generation_that_was_observed() -> None:
    check = a_named_check(VALID)
    (patch,) = decide_active(check, a_config(), 1_000.0)
    (active,) = patch.body["status"]["conditions"]
    told = a_named_check(VALID, conditions=[active])
    changed = msgspec.structs.replace(told, metadata=msgspec.structs.replace(told.metadata, generation=2))
    (patch,) = decide_active(changed, a_config(), 2_000.0)
    (again,) = patch.body["status"]["conditions"]
    assert (again["observedGeneration"], again["lastTransitionTime"]) == (2, active["lastTransitionTime"])
