"""A key runs once for many additions, never concurrently, and at its earliest moment."""

import gc
from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quorate.api.meta import Key
from quorate.kube.controller.work_queue import WorkQueue

A, B, C = (Key("", name) for name in "abc")


def test_a_key_added_many_times_runs_once() -> None:
    queue = WorkQueue()
    for key in (A, B, A, A):
        queue.add(key)
    assert [queue.get(0), queue.get(0), queue.get(0)] == [A, B, None]


def test_a_key_added_while_it_runs_runs_again_afterwards() -> None:
    queue = WorkQueue()
    queue.add(A)
    assert queue.get(0) == A
    queue.add(A)
    queue.add(A)
    assert queue.get(0) is None
    queue.done(A)
    assert [queue.get(0), queue.get(0)] == [A, None]


def test_urgent_keys_come_first_but_not_always() -> None:
    queue = WorkQueue()
    for number in range(1000):
        queue.add(Key("", f"new-{number}"))
    for name in "abcdef":
        queue.add(Key("", name), urgent=True)
    queue.add(Key("", "new-500"), urgent=True)
    taken = [queue.get(0) for _ in range(1007)]
    names = [key.name for key in taken if key is not None]
    assert names[:10] == ["a", "b", "c", "new-0", "d", "e", "f", "new-1", "new-500", "new-2"]
    assert len(names) == len(set(names)) == 1006


def finished_in_a_burst(*, urgent: bool) -> int:
    """Return how many of 10,000 keys have had all of their three runs once the last of them is added.

    There is one run for each addition; ``urgent``: a key that has run is added as urgent.
    """
    queue, runs = WorkQueue(), Counter[Key]()
    for number in range(10_000):
        queue.add(Key("", str(number)))
        key = queue.get(0)
        assert key is not None
        runs[key] += 1
        queue.done(key)
        if runs[key] < 3:
            queue.add(key, urgent=urgent)
    return sum(times == 3 for times in runs.values())


def test_work_that_has_begun_ends_while_new_work_arrives() -> None:
    assert finished_in_a_burst(urgent=True) > 3_300
    assert finished_in_a_burst(urgent=False) < 2_000


def test_only_the_earliest_delayed_key_requires_a_timer() -> None:
    queue = WorkQueue()
    assert queue.add_at(B, 20.0)
    assert queue.add_at(A, 10.0)
    assert not queue.add_at(C, 15.0)
    assert not queue.add_at(A, 12.0)
    assert queue.add_at(B, 5.0)


def test_of_several_moments_the_earliest_counts() -> None:
    queue = WorkQueue()
    for moment in (30.0, 10.0, 20.0):
        queue.add_at(A, moment)
    assert queue.next_due() == 10.0
    assert queue.get(9.9) is None
    assert queue.get(10.0) == A
    queue.done(A)
    assert queue.next_due() is None


def test_delayed_keys_are_ready_by_moment_and_then_by_name() -> None:
    queue = WorkQueue()
    for key, moment in ((C, 1.0), (B, 2.0), (A, 2.0)):
        queue.add_at(key, moment)
    assert [queue.get(2.0) for _ in range(3)] == [C, A, B]


def test_a_delayed_key_that_is_added_now_still_runs_at_its_moment() -> None:
    queue = WorkQueue()
    queue.add_at(A, 5.0)
    queue.add(A)
    assert queue.get(0) == A
    queue.done(A)
    assert queue.idle
    assert queue.get(5.0) == A


def test_forgotten_keys_take_no_memory() -> None:
    queue = WorkQueue()
    queue.add_at(A, 10.0)
    for number in range(10_000):
        queue.add_at(Key("", f"deleted-{number}"), 1000.0)
        queue.forget(Key("", f"deleted-{number}"))
    gc.collect()
    left = sum(isinstance(each, Key) and each.name.startswith("deleted-") for each in gc.get_objects())
    assert left < 200
    assert queue.get(10.0) == A


keys = st.sampled_from([A, B, C])


class WorkQueueModel(RuleBasedStateMachine):
    """The queue against a simple model: sets that are searched from end to end."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = WorkQueue()
        self.now = 0.0
        self.added: set[Key] = set()  # added since its last run began
        self.delayed: dict[Key, float] = {}
        self.running: set[Key] = set()

    @rule(key=keys, urgent=st.booleans())
    def add(self, key: Key, urgent: bool) -> None:
        self.queue.add(key, urgent=urgent)
        self.added.add(key)

    @rule(key=keys, after=st.integers(-2, 5))
    def add_at(self, key: Key, after: int) -> None:
        self.queue.add_at(key, self.now + after)
        self.delayed[key] = min(self.now + after, self.delayed.get(key, self.now + after))

    @rule(key=keys)
    def forget(self, key: Key) -> None:
        self.queue.forget(key)
        self.delayed.pop(key, None)

    @rule(seconds=st.integers(0, 3))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def get(self) -> None:
        due = {key for key, moment in self.delayed.items() if moment <= self.now}
        self.added |= due
        for key in due:
            del self.delayed[key]
        taken = self.queue.get(self.now)
        if taken is None:
            assert self.added <= self.running
        else:
            assert taken in self.added - self.running
            self.added.remove(taken)
            self.running.add(taken)

    @rule(key=keys)
    def done(self, key: Key) -> None:
        if key in self.running:
            self.queue.done(key)
            self.running.remove(key)

    @invariant()
    def the_next_moment_is_the_earliest(self) -> None:
        assert self.queue.next_due() == min(self.delayed.values(), default=None)

    @invariant()
    def idle_means_nothing_to_do_now(self) -> None:
        assert self.queue.idle == (not self.running and not self.added)


TestWorkQueueModel = WorkQueueModel.TestCase
