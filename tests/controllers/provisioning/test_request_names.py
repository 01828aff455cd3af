"""Names of ProvisioningRequests, and the attempt number in a name."""

import pytest

from quorate.controllers.provisioning.requested_pods import attempt_of, request_name, template_name

LONG = "w" * 245


@pytest.mark.parametrize(
    ("name", "workload", "check", "want"),
    [
        pytest.param("w-check-2", "w", "check", 2, id="second attempt"),
        pytest.param("w-check-2", "w", "other", None, id="another check"),
        pytest.param("w-check-2", "v", "check", None, id="another workload"),
        pytest.param("w-check-1-1", "w", "check", None, id="a check with a longer name"),
        pytest.param(request_name(LONG, "check", 3), LONG, "check", 3, id="truncated name"),
        pytest.param(
            request_name(LONG, "check", 3), LONG, "cheek", None, id="truncated name of another check"
        ),
    ],
)
def test_the_attempt_number_is_read_from_the_name(
    name: str, workload: str, check: str, want: int | None
) -> None:
    assert attempt_of(name, workload, check) == want


def test_long_names_are_truncated_and_stay_unique() -> None:
    names = {request_name(LONG, "check", attempt) for attempt in range(1, 5)}
    assert len(names) == 4
    assert {len(name) for name in names} == {253}
    assert template_name("w-check-1", "main") == "ppt-w-check-1-main"
