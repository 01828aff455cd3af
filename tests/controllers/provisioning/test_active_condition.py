"""When a check of ours is active."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.kueue import AdmissionCheck
from quorate.controllers.provisioning.check_state import config_name, decide_active
from tests.controllers.provisioning.provisioning_objects import a_config

OURS = "kueue.x-k8s.io/provisioning-request"
GOOD = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"}


def a_named_check(parameters: dict[str, str] | None, controller: str = OURS, **status: Any) -> AdmissionCheck:
    spec = {"controllerName": controller, **({} if parameters is None else {"parameters": parameters})}
    body = {"metadata": {"name": "capacity", "resourceVersion": "3"}, "spec": spec, "status": status}
    return codec.convert(AdmissionCheck, body)


@pytest.mark.parametrize(
    ("parameters", "found", "want"),
    [
        pytest.param(GOOD, True, "True Active", id="its configuration is there"),
        pytest.param(GOOD, False, "False BadParametersRef", id="it is not"),
        pytest.param(GOOD | {"kind": "ConfigMap"}, True, "False BadParametersRef", id="another kind"),
        pytest.param(GOOD | {"apiGroup": ""}, True, "False BadParametersRef", id="another group"),
        pytest.param(None, True, "False BadParametersRef", id="no parameters"),
    ],
)
def test_a_check_is_active_with_its_configuration(
    parameters: dict[str, str] | None, found: bool, want: str
) -> None:
    check = a_named_check(parameters)
    (patch,) = decide_active(check, a_config() if found else None, 1_000.0)
    (active,) = patch.body["status"].conditions
    assert f"{active.status} {active.reason}" == want
    events = a_named_check(parameters, conditions=[codec.to_builtins(active)])
    assert decide_active(events, a_config() if found else None, 2_000.0) == ()


def test_checks_of_others_are_not_ours_to_judge() -> None:
    check = a_named_check(GOOD, "example.com/other")
    assert config_name(check) is None
    assert decide_active(check, a_config(), 1_000.0) == ()
