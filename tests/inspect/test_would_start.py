"""What a dry run of ``submit`` says of a job."""

import pytest

from quorate.api.explanation import ExplainedState, Explanation, ObjectName, Reason
from quorate.inspect.would_start import outlook_by
from quorate.queueing.inadmissible_reasons import NodesLackRoom

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


@pytest.mark.parametrize(
    ("fitting_at_most", "want"),
    [
        (None, ("Later", "it would get quota of cq now, and wait for nodes: 1 of 2 pods fits no node")),
        (2, ("Later", "it would get quota of cq now, and wait for nodes: 1 of 2 pods fits no node")),
        (1, ("Never", f"{AS_IT_IS}: 1 of 2 pods fits no node")),
    ],
)
def test_a_job_with_quota_waits_for_nodes(fitting_at_most: int | None, want: tuple[str, str]) -> None:
    lack = NodesLackRoom(
        pod_set="main", requested=2, fitting=1, nodes=1, accepting=1, fitting_at_most=fitting_at_most
    )
    explanation = Explanation(
        object=ObjectName(kind="Workload", name="w"), state="Queued", message="why", cluster_queue="cq",
        reasons=(Reason(code="QuotaAvailable", text=""),),
    )  # fmt: skip
    outlook = outlook_by(explanation, (lack,))
    assert outlook.starts == want[0]
    assert outlook.message.startswith(want[1])
