"""Lists of explanations as Tables, for kubectl."""

import pytest

from quorate.api import codec
from quorate.api.explanation import ExplanationSummary
from quorate.api.meta import ObjectMeta, at_epoch
from quorate.observe.explanation_lists import prefers_table, table_frame, table_row

NOW = 1_767_571_200.0
KUBECTL = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    ("accept", "is_table"),
    [
        pytest.param(KUBECTL, True, id="kubectl get"),
        pytest.param("application/json; as=Table; g=meta.k8s.io; v=v1", True, id="in another order"),
        pytest.param("application/json", False, id="kubectl get -o json"),
        pytest.param("application/json,application/json;as=Table;v=v1;g=meta.k8s.io", False, id="as second"),
        pytest.param("application/json;as=Table;v=v1beta1;g=meta.k8s.io", False, id="of an older version"),
        pytest.param("", False, id="no header"),
    ],
)
def test_a_table_is_served_to_clients_that_prefer_one(accept: str, is_table: bool) -> None:
    assert prefers_table(accept) is is_table


def test_a_row_has_a_cell_for_each_column_and_names_its_object() -> None:
    metadata = ObjectMeta(namespace="team", name="job-train-1a2b3")
    summary = ExplanationSummary(
        metadata=metadata, state="Queued", code="QuotaShort", message="1 more cpu is needed",
        since=at_epoch(NOW - 174 * 60), enough=("raise the quota", "end a workload"),
    )  # fmt: skip
    row = codec.to_builtins(table_row(summary, NOW))
    assert row["cells"] == [
        "job-train-1a2b3", "Queued", "QuotaShort", "174m", "1 more cpu is needed",
        "raise the quota; end a workload",
    ]  # fmt: skip
    assert row["object"]["metadata"] == {"name": "job-train-1a2b3", "namespace": "team"}
    frame = table_frame("team/last")
    assert [column["priority"] for column in frame["columnDefinitions"]] == [0, 0, 0, 0, 0, 1]
    assert frame["metadata"] == {"continue": "team/last"}
