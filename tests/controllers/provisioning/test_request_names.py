"""What requests are called, and which attempt a name tells of."""

import pytest

from quorate.controllers.provisioning.request_names import attempt_of, request_name, template_name

LONG = "w" * 245


@pytest.mark.parametrize(
    ("request_of", "workload", "check", "want"),
    [
        pytest.param("w-check-2", "w", "check", 2, id="its second"),
        pytest.param("w-check-2", "w", "other", None, id="of another check"),
        pytest.param("w-check-2", "v", "check", None, id="of another workload"),
        pytest.param("w-check-1-1", "w", "check", None, id="of a check whose name begins like it"),
        pytest.param(request_name(LONG, "check", 3), LONG, "check", 3, id="a name that was cut"),
        pytest.param(request_name(LONG, "check", 3), LONG, "cheek", None, id="cut, of another check"),
    ],
)
def test_the_attempt_that_a_name_tells(request_of: str, workload: str, check: str, want: int | None) -> None:
    assert attempt_of(request_of, workload, check) == want


def test_names_that_are_too_long_are_cut_and_stay_different() -> None:
    names = {request_name(LONG, "check", attempt) for attempt in range(1, 5)}
    assert len(names) == 4
    assert {len(name) for name in names} == {253}
    assert template_name("w-check-1", "main") == "ppt-w-check-1-main"
