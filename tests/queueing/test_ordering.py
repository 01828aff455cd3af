"""The annotation that lifts a workload above its class, where the administrator allows it."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import Workload, WorkloadSpec
from quorate.api.meta import ObjectMeta, at_epoch
from quorate.queueing.pending.ordering import affects_scheduling, effective_priority, queue_order

BOOSTED = Gates(priority_boost=True)


def a_workload(boost: str) -> Workload:
    annotations = {"kueue.x-k8s.io/priority-boost": boost} if boost else {}
    metadata = ObjectMeta(name="w", namespace="ns", annotations=annotations, creation_timestamp=at_epoch(0))
    return Workload(metadata=metadata, spec=WorkloadSpec(priority=10))


@pytest.mark.parametrize(
    ("boost", "want"), [("", 10), ("5", 15), ("+5", 15), ("-15", -5), ("5.5", 10), ("much", 10), ("-", 10)]
)
def test_a_boost_is_a_signed_integer_that_is_added(boost: str, want: int) -> None:
    assert effective_priority(a_workload(boost), BOOSTED) == want
    assert effective_priority(a_workload(boost), Gates()) == 10


def test_a_boost_moves_a_workload_ahead_and_a_new_one_is_noticed() -> None:
    configuration = Configuration(gates=BOOSTED)
    assert queue_order(a_workload("5"), configuration) < queue_order(a_workload(""), configuration)
    assert affects_scheduling(a_workload(""), a_workload("5"))
    assert not affects_scheduling(a_workload("5"), a_workload("5"))
