"""Priority boost: an annotation that changes the effective priority, if the gate is enabled."""

import msgspec
import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import AdmissionCheckState, Workload, WorkloadSpec, WorkloadStatus
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
def test_a_signed_integer_boost_is_added_to_the_priority(boost: str, want: int) -> None:
    assert effective_priority(a_workload(boost), BOOSTED) == want
    assert effective_priority(a_workload(boost), Gates()) == 10


def test_a_boost_changes_the_queue_order_and_affects_scheduling() -> None:
    configuration = Configuration(gates=BOOSTED)
    assert queue_order(a_workload("5"), configuration) < queue_order(a_workload(""), configuration)
    assert affects_scheduling(a_workload(""), a_workload("5"))
    assert not affects_scheduling(a_workload("5"), a_workload("5"))


def test_a_check_that_no_longer_fails_affects_scheduling() -> None:
    pending, retried = (
        msgspec.structs.replace(a_workload(""), status=WorkloadStatus(admission_checks=(check,)))
        for check in (
            AdmissionCheckState(name="c", state="Pending"),
            AdmissionCheckState(name="c", state="Retry"),
        )
    )
    assert affects_scheduling(retried, pending)
    assert not affects_scheduling(pending, pending)
