from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quorate.api.meta import Key
from quorate.kube.keyqueue import KeyQueue

A, B, C = (Key("", name) for name in "abc")


def test_a_key_put_many_times_runs_once() -> None:
    queue = KeyQueue()
    for key in (A, B, A, A):
        queue.put(key)
    assert [queue.take(0), queue.take(0), queue.take(0)] == [A, B, None]


def test_a_key_put_while_it_runs_runs_again_but_not_at_the_same_time() -> None:
    queue = KeyQueue()
    queue.put(A)
    assert queue.take(0) == A
    queue.put(A)
    queue.put(A)
    assert queue.take(0) is None
    queue.done(A)
    assert [queue.take(0), queue.take(0)] == [A, None]


def test_of_several_moments_the_earliest_counts() -> None:
    queue = KeyQueue()
    for moment in (30.0, 10.0, 20.0):
        queue.put_at(A, moment)
    assert queue.next_due() == 10.0
    assert queue.take(9.9) is None
    assert queue.take(10.0) == A
    queue.done(A)
    assert queue.next_due() is None


def test_delayed_keys_come_by_moment_and_then_by_name() -> None:
    queue = KeyQueue()
    for key, moment in ((C, 1.0), (B, 2.0), (A, 2.0)):
        queue.put_at(key, moment)
    assert [queue.take(2.0) for _ in range(3)] == [C, A, B]


def test_a_delayed_key_that_is_put_now_still_runs_at_its_moment() -> None:
    queue = KeyQueue()
    queue.put_at(A, 5.0)
    queue.put(A)
    assert queue.take(0) == A
    queue.done(A)
    assert queue.idle
    assert queue.take(5.0) == A


keys = st.sampled_from([A, B, C])


class KeyQueueAgainstSets(RuleBasedStateMachine):
    """The queue against the plainest thing that could be right: sets searched from end to end."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = KeyQueue()
        self.now = 0.0
        self.wanted: set[Key] = set()  # put since its last run began
        self.delayed: dict[Key, float] = {}
        self.running: set[Key] = set()

    @rule(key=keys)
    def put(self, key: Key) -> None:
        self.queue.put(key)
        self.wanted.add(key)

    @rule(key=keys, after=st.integers(-2, 5))
    def put_at(self, key: Key, after: int) -> None:
        self.queue.put_at(key, self.now + after)
        self.delayed[key] = min(self.now + after, self.delayed.get(key, self.now + after))

    @rule(seconds=st.integers(0, 3))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        due = {key for key, moment in self.delayed.items() if moment <= self.now}
        self.wanted |= due
        for key in due:
            del self.delayed[key]
        taken = self.queue.take(self.now)
        if taken is None:
            assert self.wanted <= self.running
        else:
            assert taken in self.wanted - self.running
            self.wanted.remove(taken)
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
        assert self.queue.idle == (not self.running and not self.wanted)


TestKeyQueueAgainstSets = KeyQueueAgainstSets.TestCase
