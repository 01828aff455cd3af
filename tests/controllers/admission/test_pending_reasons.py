"""When the reasons of pending workloads are written."""

from quorate.api.meta import Key
from quorate.controllers.admission.pending_reasons import PendingReasonThrottle

ONE, OTHER = Key("team", "one"), Key("team", "other")


def test_a_reason_is_written_after_a_second() -> None:
    throttle = PendingReasonThrottle()
    throttle.update(ONE, 10.0)
    throttle.update(ONE, 10.9)  # a new reason does not delay the write
    assert throttle.take_due(10.9) == []
    assert throttle.next_due() == 11.0
    assert throttle.take_due(11.0) == [ONE]
    assert throttle.next_due() is None


def test_the_next_reason_of_a_workload_is_written_after_a_longer_pause() -> None:
    throttle = PendingReasonThrottle()
    throttle.update(ONE, 10.0)
    assert throttle.take_due(11.0) == [ONE]
    throttle.update(ONE, 11.5)
    assert throttle.next_due() == 16.0
    throttle.update(OTHER, 11.5)  # the pause does not concern other workloads
    assert throttle.take_due(12.5) == [OTHER]
    throttle.update(ONE, 15.5)
    assert throttle.take_due(16.0) == [ONE]


def test_a_workload_that_is_pending_again_has_no_pause() -> None:
    throttle = PendingReasonThrottle()
    throttle.update(ONE, 10.0)
    assert throttle.take_due(11.0) == [ONE]
    throttle.remove(ONE)
    throttle.update(ONE, 11.5)
    assert throttle.take_due(12.5) == [ONE]


def test_unevaluated_workloads_get_their_reasons_in_batches_of_one_second() -> None:
    throttle = PendingReasonThrottle()
    crowd = [Key("team", f"like-{number}") for number in range(50)]
    for key in crowd:
        throttle.add(key, 10.0)
    throttle.remove(crowd[0])  # admitted
    throttle.update(crowd[1], 10.5)  # evaluated itself
    assert throttle.take_unevaluated(10.9) == []
    assert throttle.next_due() == 11.0
    assert throttle.take_unevaluated(11.0) == crowd[2:22]
    assert throttle.take_due(11.5) == [crowd[1]]
    assert throttle.next_due() == 12.0
    assert throttle.take_unevaluated(12.0) == crowd[22:42]
    throttle.add(crowd[2], 12.0)  # its reason is no longer true
    throttle.update(crowd[3], 12.0)
    throttle.add(crowd[3], 12.0)  # it will be written anyway
    assert throttle.take_unevaluated(13.0) == [*crowd[42:], crowd[2]]
    assert throttle.next_due() == 16.0


def test_during_admissions_a_batch_has_one_workload() -> None:
    throttle = PendingReasonThrottle()
    crowd = [Key("team", f"like-{number}") for number in range(30)]
    for key in crowd:
        throttle.add(key, 10.0)
    throttle.record_admission(10.5)
    assert throttle.take_unevaluated(11.0) == crowd[:1]
    throttle.record_admission(15.9)
    assert throttle.take_unevaluated(15.9) == []
    assert throttle.take_unevaluated(16.0) == crowd[1:2]
    assert throttle.take_unevaluated(21.0) == crowd[2:22]


def test_during_admissions_a_reason_is_delayed_longer() -> None:
    throttle = PendingReasonThrottle()
    throttle.update(ONE, 10.0)
    for now in range(11, 30):
        throttle.record_admission(now - 0.1)
        assert throttle.take_due(now) == []
    throttle.record_admission(29.9)
    assert throttle.take_due(30.0) == [ONE]


def test_a_removed_workload_is_forgotten_also_during_admissions() -> None:
    throttle = PendingReasonThrottle()
    throttle.update(ONE, 10.0)
    throttle.remove(ONE)
    throttle.record_admission(10.9)
    assert throttle.take_due(11.0) == []
    assert throttle.next_due() is None


def test_a_reason_is_written_soon_after_the_last_admission() -> None:
    throttle = PendingReasonThrottle()
    throttle.record_admission(9.9)
    throttle.update(ONE, 10.0)
    throttle.record_admission(10.5)
    assert throttle.take_due(11.0) == []
    assert throttle.take_due(12.0) == [ONE]
