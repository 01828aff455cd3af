"""What a dry run of ``submit`` says of a job."""

import pytest

from quorate.api.explanation import ExplainedState, Explanation, ObjectName, Reason
from quorate.inspect.would_start import outlook_by

AS_IT_IS = "it would never start as the cluster is now"


@pytest.mark.parametrize(
    ("state", "code", "can_never_fit", "want"),
    [
        ("Queued", "QuotaAvailable", False, ("Now", "it would start now, with quota of cq")),
        ("Queued", "QuotaShort", False, ("Later", "it would wait: why")),
        ("Held", "QueueInactive", False, ("Later", "it would wait: why")),
        ("NeverFits", "QuotaExceeded", True, ("Never", "why")),
        (
            "NeverFits",
            "PlacementRefused",
            False,
            ("Never", "it would never start as the cluster is now: why"),
        ),
    ],
)
def test_whether_a_job_would_start(
    state: ExplainedState, code: str, can_never_fit: bool, want: tuple[str, str]
) -> None:
    explanation = Explanation(
        object=ObjectName(kind="Workload", name="w"), state=state, message="why", cluster_queue="cq",
        reasons=(Reason(code=code, text="why"),), can_never_fit=can_never_fit,
    )  # fmt: skip
    outlook = outlook_by(explanation)
    assert (outlook.starts, outlook.message) == want
