"""The pending queue against the plainest model of it: two sorted lists."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta
from quorate.queueing.pending.queue import Entry, PendingQueue
from quorate.queueing.pending.shape import Shape

SHAPES = tuple(Shape(priority, (), ()) for priority in (0, 1, 2))


class AnyHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = PendingQueue()
        self.active: list[Entry] = []
        self.parked: list[Entry] = []
        self.blocked: set[Shape] = set()
        self.made = 0

    def first(self) -> Entry | None:
        if self.queue.sticky in self.active:
            return self.queue.sticky
        return min(self.active, key=lambda entry: entry.order, default=None)

    @rule(shape=st.sampled_from(SHAPES), moment=st.integers(0, 5))
    def arrive(self, shape: Shape, moment: int) -> None:
        self.made += 1
        uid = f"{self.made:03}"
        entry = Entry(Workload(metadata=ObjectMeta(name=uid)), shape, (-shape.priority, moment, uid))
        is_active = self.queue.push(entry)
        assert is_active == (shape not in self.blocked)
        (self.active if is_active else self.parked).append(entry)

    @precondition(lambda self: self.queue.in_flight is None)
    @rule(fate=st.sampled_from(("admit", "retry", "retry and stick", "park", "block", "back off", "stray")))
    def decide(self, fate: str) -> None:
        want = self.first()
        entry = self.queue.pop()
        assert entry is want
        if entry is None:
            return
        self.active.remove(entry)
        if fate == "admit":
            self.queue.remove(entry)
            return
        self.queue.in_flight = None
        match fate:
            case "park":
                self.queue.add_inadmissible(entry)
            case "block":
                self.queue.add_inadmissible_shape(entry)
                self.blocked.add(entry.shape)
                self.parked += [other for other in self.active if other.shape is entry.shape]
                self.active = [other for other in self.active if other.shape is not entry.shape]
            case "back off":
                self.queue.backing_off[entry.key] = entry
            case "stray":
                self.queue.namespace_mismatched[entry.key] = entry
            case _:
                self.queue.push(entry)
                self.active.append(entry)
                if fate == "retry and stick":
                    self.queue.sticky = entry
                return
        self.parked.append(entry)

    @rule(index=st.integers(0, 20))
    def leave(self, index: int) -> None:
        all_entries = [*self.active, *self.parked]
        if index < len(all_entries):
            entry = all_entries[index]
            self.queue.remove(entry)
            (self.active if entry in self.active else self.parked).remove(entry)

    @rule(welcome=st.booleans())
    def wake(self, welcome: bool) -> None:
        staying = {*self.queue.backing_off.values()}
        if not welcome:
            staying |= {*self.queue.namespace_mismatched.values()}
        self.queue.queue_inadmissible({""} if welcome else ())
        self.active += [entry for entry in self.parked if entry not in staying]
        self.parked = [entry for entry in self.parked if entry in staying]
        self.blocked.clear()

    @invariant()
    def both_agree(self) -> None:
        def in_order(entry: Entry) -> tuple[bool, tuple[int, float, str]]:
            return entry is not self.queue.sticky, entry.order

        assert self.queue.active() == sorted(self.active, key=in_order)
        assert self.queue.inadmissible() == sorted(self.parked, key=in_order)
        assert self.queue.active_count == len(self.active)
        assert self.queue.inadmissible_count == len(self.parked)


TestAnyHistory = AnyHistory.TestCase


def test_a_workload_may_leave_and_come_back() -> None:
    """What is left of its first stay in the heap does not meet its second."""
    queue = PendingQueue()
    first, second, again = (
        Entry(Workload(metadata=ObjectMeta(name=uid)), SHAPES[0], (0, 0.0, uid)) for uid in "abb"
    )
    queue.push(first)
    queue.push(second)
    queue.remove(second)
    queue.push(again)
    assert queue.active() == [first, again]


def test_waking_a_queue_of_one_shape_does_not_touch_its_workloads() -> None:
    """A hundred thousand equal workloads are parked and woken by exchanging two lists."""
    queue = PendingQueue()
    for index in range(100_000):
        uid = f"{index:06}"
        queue.push(Entry(Workload(metadata=ObjectMeta(name=uid)), SHAPES[0], (0, 0.0, uid)))
    head = queue.pop()
    assert head is not None
    queue.in_flight = None
    queue.add_inadmissible_shape(head)
    (shape_queue,) = queue._shape_queues.values()
    inadmissible_items = shape_queue.inadmissible._items
    queue.queue_inadmissible(())
    assert shape_queue.active._items is inadmissible_items
    assert queue.pop() is head
