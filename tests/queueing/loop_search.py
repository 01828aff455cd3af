"""Exhaustive search for preemption loops in families of small worlds.

    python -m tests.queueing.loop_search                       every world of every family, on all processors
    python -m tests.queueing.loop_search flavors --every 10    a tenth of the worlds of one family

Each family has three workloads of priority 0 or 1, in every distribution over the queues (up to exchanging
equal queues).  Unless stated otherwise, no workload or one of them runs at first, whether or not its quota
allows that.  Preemption policies, flavor fungibility and the order in which preempted workloads stop are all
tried where they matter (see ``small_worlds``).
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from multiprocessing.pool import Pool
from typing import Final, NamedTuple

from rich.progress import Progress

from quorate.api.configuration import Configuration
from quorate.api.configuration.queueing import FairSharing, PreemptionStrategy
from quorate.api.kueue import QueueingStrategy
from quorate.quota import tree
from tests.loop_searches import selection_of
from tests.queueing.choices import Choices, every
from tests.queueing.small_worlds import Group, Job, Loop, Queue, Quota, Quotas, Simulation, SmallWorld, Window

CLASSICAL: Final = Configuration()
STRATEGIES: Final[tuple[tuple[PreemptionStrategy, ...], ...]] = (
    ("LessThanOrEqualToFinalShare",),
    ("LessThanInitialShare",),
    ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
)
FAIR: Final = tuple(Configuration(fair_sharing=FairSharing(preemption_strategies=s)) for s in STRATEGIES)
# Three equal high priorities are equivalent to three equal low ones.
PRIORITIES: Final = tuple(three for three in product((0, 1), repeat=3) if three != (1, 1, 1))
NONE_RUNNING: Final = ((),)
NONE_OR_ONE_RUNNING: Final = ((), (0,), (1,), (2,))


class Family(NamedTuple):
    sizes: str  # in words
    worlds: Callable[[], Iterator[SmallWorld]]


class Outcome(NamedTuple):
    """Sums over runs; a run is a world with policies and an order in which preempted workloads stop."""

    worlds: int = 0
    runs: int = 0
    preempting: int = 0  # runs with a preemption
    repeated: int = 0  # runs in which a fingerprint repeated before ``preemption.history`` ended the loop
    loops: tuple[Loop, ...] = ()
    lost_claims: tuple[
        str, ...
    ] = ()  # heads that did not get their queue's own quota although the queue may reclaim it

    def and_(self, other: "Outcome") -> "Outcome":
        return Outcome(
            self.worlds + other.worlds,
            self.runs + other.runs,
            self.preempting + other.preempting,
            self.repeated + other.repeated,
            self.loops + other.loops,
            self.lost_claims + other.lost_claims,
        )


def explore(world: SmallWorld) -> Outcome:
    """Return the outcome of all runs of ``world``."""

    def run(choices: Choices) -> Outcome:
        simulation = Simulation(world, choices)
        fits = (
            not is_overdrawn(simulation) and not world.windows
        )  # a window may keep what a queue may reclaim
        loop = simulation.find_loop()
        lost_claim = "" if loop is not None or not fits else simulation.lost_claim()
        return Outcome(
            0,
            1,
            bool(simulation.preemptions),
            simulation.has_repeated,
            () if loop is None else (loop,),
            (f"{world}\n{choices}\n{simulation.events}\n{lost_claim}",) if lost_claim else (),
        )

    total = Outcome(worlds=1)
    for _, outcome in every(run):
        total = total.and_(outcome)
    return total


def is_overdrawn(simulation: Simulation) -> bool:
    """Return True if more runs at first than the quota allows, as after a reduction of quota."""
    nodes = simulation.state.ledger.quota.queues.values()
    return any(tree.available(node, pair) < 0 for node in nodes for pair in node.usage)


def distributions(queues: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Return the distributions of three workloads over interchangeable queues."""
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
    starts: Sequence[tuple[int, ...]] = NONE_OR_ONE_RUNNING,
) -> Iterator[SmallWorld]:
    for given in queues:
        distributions_ = distributions(list(given)) if interchangeable else product(given, repeat=3)
        for distribution, priorities, wanted in product(
            list(distributions_), PRIORITIES, product(sizes, repeat=3)
        ):
            jobs = tuple(map(Job, distribution, priorities, wanted, (pods,) * 3))
            for running, configuration in product(starts, configurations):
                yield SmallWorld(dict(given), jobs, running, dict(cohorts or {}), configuration)


def flat_queues(
    names: str, quotas_: Sequence[Quotas], strategy: QueueingStrategy = "BestEffortFIFO"
) -> Iterator[Mapping[str, Queue]]:
    """Return queues of one cohort, with every combination of ``quotas_``."""
    for chosen in product(quotas_, repeat=len(names)):
        yield {name: Queue("all", quotas, "1", strategy) for name, quotas in zip(names, chosen, strict=True)}


def equal_quotas(largest: int) -> list[Quotas]:
    return [((Quota(nominal),),) for nominal in range(largest + 1)]


def limited_quotas() -> list[Quotas]:
    return [
        ((Quota(nominal, borrowing, lending),),)
        for nominal, borrowing, lending in product((1, 2), (None, 0, 1), (None, 0))
    ]


def weighted_queues() -> Iterator[Mapping[str, Queue]]:
    for weights in product("012", repeat=2):
        for quotas in product(equal_quotas(1), repeat=2):
            yield {name: Queue("all", q, w) for name, q, w in zip("ab", quotas, weights, strict=True)}


def aging_queues() -> Iterator[Mapping[str, Queue]]:
    """Return two queues, of which one or both age, with the same rule or different ones.

    At first waiting counts fully.  The workloads reach the most that it gives one after the other.
    """
    preempting = f"{AGING[:-1]}, alsoPreempts: true}}"
    pairs = (
        (AGING, AGING),
        (AGING, None),
        (preempting, preempting),
        (preempting, None),
        (preempting, SLOWER_AGING),
    )
    strategies: tuple[QueueingStrategy, ...] = ("BestEffortFIFO", "StrictFIFO")
    for pair, strategy in product(pairs, strategies):
        for quotas in list(product(equal_quotas(1), repeat=2))[1:]:
            yield {
                name: Queue("all", of_queue, "1", strategy, rule)
                for name, of_queue, rule in zip("ab", quotas, pair, strict=True)
            }


def with_windows(given: Iterator[SmallWorld]) -> Iterator[SmallWorld]:
    """Return worlds with a Reservation each day; jobs declare that they end before it, or do not."""
    windows = (Window("a"), Window("a", "Evict"), Window(), Window("", "Evict"))
    for world, window, maximum_s in product(given, windows, (None, 3_600)):
        yield world._replace(windows=(window,), maximum_s=maximum_s)


def nested_queues() -> Iterator[Mapping[str, Queue]]:
    for quotas in product(equal_quotas(1), repeat=3):
        yield {
            name: Queue(cohort, q)
            for name, cohort, q in zip("abc", ("left", "left", "top"), quotas, strict=True)
        }


# ``small_worlds`` begins at second 100, and its workloads are created at seconds 0, 1 and 2.
AGING: Final = "{every: 1s, step: 1, atMost: 102}"
SLOWER_AGING: Final = "{every: 2s, step: 3, atMost: 156, alsoPreempts: true}"
TOP: Final = {"left": Group("top"), "top": Group()}
ONE_TWO: Final = ((1,), (2,))
TWO_FLAVORS: Final[list[Quotas]] = [((Quota(one),), (Quota(two),)) for one, two in product((0, 1), repeat=2)]
TWO_RESOURCES: Final[list[Quotas]] = [((Quota(one), Quota(two)),) for one, two in product((0, 2), repeat=2)]

FAMILIES: Final[Mapping[str, Family]] = {
    "two queues": Family(
        "2 queues of nominal 0..2, sizes 1..2", lambda: worlds(flat_queues("ab", equal_quotas(2)), ONE_TWO)
    ),
    "strict": Family(
        "the same, StrictFIFO",
        lambda: worlds(flat_queues("ab", equal_quotas(2), strategy="StrictFIFO"), ONE_TWO),
    ),
    "fair": Family(
        "2 queues of nominal 0..2, sizes 1..2, three lists of strategies",
        lambda: worlds(flat_queues("ab", equal_quotas(2)), ONE_TWO, configurations=FAIR),
    ),
    "three queues": Family(
        "3 queues of nominal 0..1, sizes 1..2", lambda: worlds(flat_queues("abc", equal_quotas(1)), ONE_TWO)
    ),
    "fair three": Family(
        "the same, three lists of strategies",
        lambda: worlds(flat_queues("abc", equal_quotas(1)), ONE_TWO, configurations=FAIR),
    ),
    "fewer pods": Family(
        "2 queues of nominal 0..2, 2 pods of 1, minCount 1",
        lambda: worlds(
            flat_queues("ab", equal_quotas(2)), ((1,),), pods=2, configurations=(CLASSICAL, *FAIR)
        ),
    ),
    "flavors": Family(
        "2 queues, 2 flavors of nominal 0..1, size 1, none runs at first",
        lambda: worlds(flat_queues("ab", TWO_FLAVORS), ((1,),), starts=NONE_RUNNING),
    ),
    "resources": Family(
        "2 queues, 2 resources of nominal 0 or 2, sizes (1,1), (1,2)",
        lambda: worlds(flat_queues("ab", TWO_RESOURCES), ((1, 1), (1, 2))),
    ),
    "limits": Family(
        "2 queues of nominal 1..2, borrowing limit none, 0, 1, lending limit none, 0; size 1",
        lambda: worlds(flat_queues("ab", limited_quotas()), ((1,),), configurations=(CLASSICAL, FAIR[-1])),
    ),
    "weights": Family(
        "2 queues of nominal 0..1 and weight 0..2, sizes 1..2, both strategies",
        lambda: worlds(weighted_queues(), ONE_TWO, configurations=FAIR[-1:]),
    ),
    "aging": Family(
        "2 queues of nominal 0..1 with priority ageing, sizes 1..2, both strategies",
        lambda: worlds(aging_queues(), ONE_TWO, interchangeable=False, starts=NONE_OR_ONE_RUNNING[:2]),
    ),
    "fair aging": Family(
        "the same with one size and fair sharing",
        lambda: worlds(
            aging_queues(),
            ((1,),),
            interchangeable=False,
            configurations=FAIR[-1:],
            starts=NONE_RUNNING,
        ),
    ),
    "windows": Family(
        "2 queues of nominal 0..1 beside a window each day, size 1, classical and fair sharing",
        lambda: with_windows(
            worlds(
                flat_queues("ab", equal_quotas(1)),
                ((1,),),
                configurations=(CLASSICAL, FAIR[-1]),
                interchangeable=False,
                starts=NONE_OR_ONE_RUNNING[:2],
            )
        ),
    ),
    "aging windows": Family(
        "2 queues with priority ageing beside a window each day, size 1, none runs at first",
        lambda: with_windows(worlds(aging_queues(), ((1,),), interchangeable=False, starts=NONE_RUNNING)),
    ),
    "nested": Family(
        "2 queues in a child of the cohort of a third, of nominal 0..1, size 1, none runs at first",
        lambda: worlds(
            nested_queues(),
            ((1,),),
            cohorts=TOP,
            interchangeable=False,
            configurations=(CLASSICAL, FAIR[-1]),
            starts=NONE_RUNNING,
        ),
    ),
}


def search(pool: Pool, name: str, every_nth: int, progress: Progress) -> int:
    """Run the worlds of a family, print the results, and return the number of findings."""
    family, started = FAMILIES[name], time.monotonic()
    worlds = list(family.worlds())[::every_nth]
    total = Outcome()
    outcomes = pool.imap_unordered(explore, worlds, chunksize=8)
    for outcome in progress.track(outcomes, total=len(worlds), description=name):
        total = total.and_(outcome)
    progress.console.print(
        f"{name} ({family.sizes}): {total.worlds:,} worlds, {total.runs:,} runs, "
        f"{total.preempting:,} with preemption, {total.repeated} loops broken, "
        f"{len(total.lost_claims)} claims lost, {len(total.loops)} loops, {time.monotonic() - started:.0f} s",
        soft_wrap=True,
    )
    for text in (*total.loops[:3], *total.lost_claims[:3]):
        progress.console.print(text, markup=False)
    return len(total.loops) + len(total.lost_claims)


def main() -> int:
    selection = selection_of(__doc__, FAMILIES)
    with Pool() as pool, Progress() as progress:
        found = [search(pool, name, selection.every, progress) for name in selection.families]
    return 1 if sum(found) else 0


if __name__ == "__main__":
    sys.exit(main())
