"""What ``quorate explain`` prints of a queue."""

import pytest

from quorate.api.explanation import Explanation, ObjectName, Reason
from quorate.cli.verbs.explain.command import explanation_sections
from quorate.cli.verbs.printing import Fields, TableSection

FREE = Reason(code="", text="", flavor="default", resource="memory", free="41949672960", at_most="40Gi")


@pytest.mark.parametrize(
    ("object_", "names"),
    [
        (ObjectName(kind="ClusterQueue", name="research"), ["ClusterQueue"]),
        (ObjectName(kind="LocalQueue", name="lab", namespace="ml"), ["LocalQueue", "Cluster queue"]),
    ],
    ids=str,
)
def test_a_queue_is_named_once_and_its_free_memory_has_a_unit(object_: ObjectName, names: list[str]) -> None:
    explanation = Explanation(
        object=object_, state="Active", message="it admits", cluster_queue="research", reasons=(FREE,),
        local_queue="lab" if object_.namespace else "",
    )  # fmt: skip
    facts, _, numbers, *_ = explanation_sections(explanation, 0.0)
    assert isinstance(facts, Fields)
    assert isinstance(numbers, TableSection)
    assert [name for name, value in facts.rows if value and name not in ("State", "Reason")] == names
    assert numbers.rows == (("default", "memory", "40006Mi", "40Gi"),)
