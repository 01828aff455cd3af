"""The pending queue compared with a simple model: two sorted lists."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta
from quorate.queueing.pending.entry import Entry
from quorate.queueing.pending.queue import PendingQueue
from quorate.queueing.pending.shape import Shape

SHAPES = tuple(Shape(priority, (), ()) for priority in (0, 1, 2))


class AnyHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.queue = PendingQueue(lambda: self.version)
        self.active: list[Entry] = []
        self.inadmissible: list[Entry] = []
        self.inadmissible_shapes: dict[Shape, Entry] = {}  # the first evaluated of each
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
        known = self.inadmissible_shapes.get(shape)
        assert is_active == (known is None or entry.order < known.order)
        (self.active if is_active else self.inadmissible).append(entry)

    @precondition(lambda self: self.queue.in_flight is None)
    @rule(
        outcome=st.sampled_from(
            (
                "admit",
                "retry",
                "retry as sticky",
                "inadmissible",
                "inadmissible shape",
                "back off",
                "namespace mismatch",
            )
        )
    )
    def decide(self, outcome: str) -> None:
        want = self.first()
        entry = self.queue.pop()
        assert entry is want
        if entry is None:
            return
        self.active.remove(entry)
        if outcome == "admit":
            self.queue.remove(entry)
            return
        self.queue.in_flight = None
        match outcome:
            case "inadmissible":
                self.queue.add_inadmissible(entry)
            case "inadmissible shape":
                self.queue.add_inadmissible_shape(entry)
                known = self.inadmissible_shapes.setdefault(entry.shape, entry)
                first = min(known, entry, key=lambda one: one.order)
                self.inadmissible_shapes[entry.shape] = first
                equal = [other for other in self.active if other.shape is entry.shape]
                if all(other.order >= first.order for other in equal):
                    self.inadmissible += equal
                    self.active = [other for other in self.active if other not in equal]
            case "back off":
                self.queue.backing_off[entry.key] = entry
            case "namespace mismatch":
                self.queue.namespace_mismatched[entry.key] = entry
            case _:
                self.queue.push(entry)
                self.active.append(entry)
                if outcome == "retry as sticky":
                    self.queue.sticky = entry
                return
        self.inadmissible.append(entry)

    @rule(index=st.integers(0, 20))
    def leave(self, index: int) -> None:
        all_entries = [*self.active, *self.inadmissible]
        if index < len(all_entries):
            entry = all_entries[index]
            self.queue.remove(entry)
            (self.active if entry in self.active else self.inadmissible).remove(entry)

    @rule()
    def change_without_a_visit(self) -> None:
        """An outcome is void although the queue is not told to requeue anything."""
        self.version += 1
        self.inadmissible_shapes.clear()

    @rule(matches=st.booleans())
    def queue_inadmissible(self, matches: bool) -> None:
        remaining = {*self.queue.backing_off.values()}
        if not matches:
            remaining |= {*self.queue.namespace_mismatched.values()}
        self.version += 1
        self.queue.queue_inadmissible({""} if matches else ())
        self.active += [entry for entry in self.inadmissible if entry not in remaining]
        self.inadmissible = [entry for entry in self.inadmissible if entry in remaining]
        self.inadmissible_shapes.clear()

    @invariant()
    def both_agree(self) -> None:
        def in_order(entry: Entry) -> tuple[bool, tuple[int, float, str]]:
            return entry is not self.queue.sticky, entry.order

        assert self.queue.active() == sorted(self.active, key=in_order)
        assert self.queue.inadmissible() == sorted(self.inadmissible, key=in_order)
        assert self.queue.active_count == len(self.active)
        assert self.queue.inadmissible_count == len(self.inadmissible)


TestAnyHistory = AnyHistory.TestCase


def test_a_workload_may_be_removed_and_added_again() -> None:
    """The stale item of its first entry is not taken for its second."""
    queue = PendingQueue(lambda: 0)
    first, second, again = (
        Entry(Workload(metadata=ObjectMeta(name=uid)), SHAPES[0], (0, 0.0, uid)) for uid in "abb"
    )
    queue.push(first)
    queue.push(second)
    queue.remove(second)
    queue.push(again)
    assert queue.active() == [first, again]


@pytest.mark.large
def test_requeueing_workloads_of_one_shape_exchanges_two_heaps() -> None:
    """The cost does not depend on their number: none of a hundred thousand is touched."""
    queue = PendingQueue(lambda: 0)
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
