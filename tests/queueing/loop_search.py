"""The exhaustive search for preemption loops: families of small worlds, and what became of all of them.

    python -m tests.queueing.loop_search            every world of every family, on all processors
    python -m tests.queueing.loop_search flavors    of one family

In each family there are three workloads of priority 0 or 1, in every distribution over the queues (up to
exchanging them, where they are alike).  Unless said otherwise nobody or one of them runs at first, whether
or not quota allows it now.  Preemption policies, flavor
fungibility and the order in which victims stop are all tried where they matter (see ``small_worlds``).
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from multiprocessing import Pool
from typing import Final, NamedTuple

from quorate.api.configuration import Configuration, FairSharing, PreemptionStrategy
from quorate.api.kueue import QueueingStrategy
from quorate.quota import tree
from tests.queueing.choices import Choices, every
from tests.queueing.small_worlds import Course, Group, Job, Loop, Queue, Quota, Quotas, SmallWorld

CLASSICAL: Final = Configuration()
STRATEGIES: Final[tuple[tuple[PreemptionStrategy, ...], ...]] = (
    ("LessThanOrEqualToFinalShare",),
    ("LessThanInitialShare",),
    ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
)
FAIR: Final = tuple(Configuration(fair_sharing=FairSharing(preemption_strategies=s)) for s in STRATEGIES)
# All of them equally high is all of them equally low.
PRIORITIES: Final = tuple(three for three in product((0, 1), repeat=3) if three != (1, 1, 1))
NOBODY: Final = ((),)
NOBODY_OR_ONE: Final = ((), (0,), (1,), (2,))


class Family(NamedTuple):
    sizes: str  # in words
    worlds: Callable[[], Iterator[SmallWorld]]


class Outcome(NamedTuple):
    """Sums over runs: a run is a world with policies and an order of stopping."""

    worlds: int = 0
    runs: int = 0
    preempting: int = 0  # runs in which somebody was preempted
    rings: int = (
        0  # runs that came back to where they were, and were stopped by ``queueing.preemption_history``
    )
    loops: tuple[Loop, ...] = ()
    unclaimed: tuple[str, ...] = ()  # who could not get its queue's own quota back, though it may reclaim

    def and_(self, other: "Outcome") -> "Outcome":
        return Outcome(
            self.worlds + other.worlds,
            self.runs + other.runs,
            self.preempting + other.preempting,
            self.rings + other.rings,
            self.loops + other.loops,
            self.unclaimed + other.unclaimed,
        )


def explore(world: SmallWorld) -> Outcome:
    """Everything that can become of ``world``."""

    def run(choices: Choices) -> Outcome:
        course = Course(world, choices)
        fits = not is_overdrawn(course)
        loop = course.loop()
        unclaimed = "" if loop is not None or not fits else course.unclaimed()
        return Outcome(
            0,
            1,
            bool(course.preemptions),
            course.came_back,
            () if loop is None else (loop,),
            (f"{world}\n{choices}\n{course.story}\n{unclaimed}",) if unclaimed else (),
        )

    total = Outcome(worlds=1)
    for _, outcome in every(run):
        total = total.and_(outcome)
    return total


def is_overdrawn(course: Course) -> bool:
    """Whether more runs at first than quota allows, as after a quota cut."""
    nodes = course.state.ledger.quota.queues.values()
    return any(tree.available(node, pair) < 0 for node in nodes for pair in node.usage)


def distributions(queues: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Three workloads over interchangeable queues."""
    for pattern in ("aaa", "aab", "aba", "abb", "abc"):
        if set(pattern) <= set(queues):
            yield tuple(pattern)


def worlds(
    queues: Iterator[Mapping[str, Queue]],
    sizes: Sequence[tuple[int, ...]],
    *,
    configurations: Sequence[Configuration] = (CLASSICAL,),
    cohorts: Mapping[str, Group] | None = None,
    pods: int = 1,
    interchangeable: bool = True,
    starts: Sequence[tuple[int, ...]] = NOBODY_OR_ONE,
) -> Iterator[SmallWorld]:
    for given in queues:
        places = distributions(list(given)) if interchangeable else product(given, repeat=3)
        for place, priorities, wanted in product(list(places), PRIORITIES, product(sizes, repeat=3)):
            jobs = tuple(map(Job, place, priorities, wanted, (pods,) * 3))
            for running, configuration in product(starts, configurations):
                yield SmallWorld(dict(given), jobs, running, dict(cohorts or {}), configuration)


def flat(
    names: str, offers: Sequence[Quotas], strategy: QueueingStrategy = "BestEffortFIFO"
) -> Iterator[Mapping[str, Queue]]:
    """Queues of one cohort, with every combination of ``offers``."""
    for chosen in product(offers, repeat=len(names)):
        yield {name: Queue("all", quotas, "1", strategy) for name, quotas in zip(names, chosen, strict=True)}


def simple(most: int) -> list[Quotas]:
    return [((Quota(nominal),),) for nominal in range(most + 1)]


def limited() -> list[Quotas]:
    return [
        ((Quota(nominal, borrowing, lending),),)
        for nominal, borrowing, lending in product((1, 2), (None, 0, 1), (None, 0))
    ]


def weighed() -> Iterator[Mapping[str, Queue]]:
    for weights in product("012", repeat=2):
        for quotas in product(simple(1), repeat=2):
            yield {name: Queue("all", q, w) for name, q, w in zip("ab", quotas, weights, strict=True)}


def nested() -> Iterator[Mapping[str, Queue]]:
    for quotas in product(simple(1), repeat=3):
        yield {
            name: Queue(cohort, q)
            for name, cohort, q in zip("abc", ("left", "left", "top"), quotas, strict=True)
        }


TOP: Final = {"left": Group("top"), "top": Group()}
ONE_TWO: Final = ((1,), (2,))
TWO_FLAVORS: Final[list[Quotas]] = [((Quota(one),), (Quota(two),)) for one, two in product((0, 1), repeat=2)]
TWO_RESOURCES: Final[list[Quotas]] = [((Quota(one), Quota(two)),) for one, two in product((0, 2), repeat=2)]

FAMILIES: Final[Mapping[str, Family]] = {
    "two queues": Family(
        "2 queues of nominal 0..2, sizes 1..2", lambda: worlds(flat("ab", simple(2)), ONE_TWO)
    ),
    "strict": Family(
        "the same, StrictFIFO", lambda: worlds(flat("ab", simple(2), strategy="StrictFIFO"), ONE_TWO)
    ),
    "fair": Family(
        "2 queues of nominal 0..2, sizes 1..2, three lists of strategies",
        lambda: worlds(flat("ab", simple(2)), ONE_TWO, configurations=FAIR),
    ),
    "three queues": Family(
        "3 queues of nominal 0..1, sizes 1..2", lambda: worlds(flat("abc", simple(1)), ONE_TWO)
    ),
    "fair three": Family(
        "the same, three lists of strategies",
        lambda: worlds(flat("abc", simple(1)), ONE_TWO, configurations=FAIR),
    ),
    "fewer pods": Family(
        "2 queues of nominal 0..2, 2 pods of 1 of which 1 may do",
        lambda: worlds(flat("ab", simple(2)), ((1,),), pods=2, configurations=(CLASSICAL, *FAIR)),
    ),
    "flavors": Family(
        "2 queues, 2 flavors of nominal 0..1, size 1, nobody runs at first",
        lambda: worlds(flat("ab", TWO_FLAVORS), ((1,),), starts=NOBODY),
    ),
    "resources": Family(
        "2 queues, 2 resources of nominal 0 or 2, sizes (1,1), (1,2)",
        lambda: worlds(flat("ab", TWO_RESOURCES), ((1, 1), (1, 2))),
    ),
    "limits": Family(
        "2 queues of nominal 1..2, borrowing limit none, 0, 1, lending limit none, 0; size 1",
        lambda: worlds(flat("ab", limited()), ((1,),), configurations=(CLASSICAL, FAIR[-1])),
    ),
    "weights": Family(
        "2 queues of nominal 0..1 and weight 0..2, sizes 1..2, both strategies",
        lambda: worlds(weighed(), ONE_TWO, configurations=FAIR[-1:]),
    ),
    "nested": Family(
        "2 queues in a cohort in the cohort of a third, of nominal 0..1, size 1, nobody runs at first",
        lambda: worlds(
            nested(),
            ((1,),),
            cohorts=TOP,
            interchangeable=False,
            configurations=(CLASSICAL, FAIR[-1]),
            starts=NOBODY,
        ),
    ),
}


def main(names: Sequence[str]) -> int:
    found = 0
    with Pool() as pool:
        for name in names or FAMILIES:
            family, started = FAMILIES[name], time.monotonic()
            total = Outcome()
            for outcome in pool.imap_unordered(explore, family.worlds(), chunksize=64):
                total = total.and_(outcome)
            took_s = time.monotonic() - started
            print(  # noqa: T201
                f"{name} ({family.sizes}): {total.worlds} worlds, {total.runs} runs, "
                f"{total.preempting} with preemption, {total.rings} rings broken, "
                f"{len(total.unclaimed)} claims lost, {len(total.loops)} loops, {took_s:.0f} s",
                flush=True,
            )
            for story in (*total.loops[:3], *total.unclaimed[:3]):
                print(story)  # noqa: T201
            found += len(total.loops) + len(total.unclaimed)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
