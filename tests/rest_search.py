"""Search for worlds at rest in which a new process would still decide something.

    python -m tests.rest_search queueing                         10,000 worlds, on all processors
    python -m tests.rest_search gangs --worlds 500 --first 9000

For each counterexample the smallest world and history that still fail are printed, as input for a test.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.pool import Pool
from typing import Final

from rich.progress import Progress

from tests.gang import resting_histories as gangs
from tests.queueing import resting_histories as queueing

LAWS: Final[Mapping[str, Callable[[int], str]]] = {
    "queueing": queueing.counterexample,
    "queueing-blocked": partial(queueing.counterexample, kind="blocked"),
    "queueing-searching": partial(queueing.counterexample, kind="searching"),
    "queueing-backfilling": partial(queueing.counterexample, kind="backfilling"),
    "queueing-planning": partial(queueing.counterexample, kind="planning"),
    "queueing-slicing": partial(queueing.counterexample, kind="slicing"),
    "queueing-aging": partial(queueing.counterexample, kind="aging"),
    "gangs": gangs.counterexample,
}
MAX_PRINTED: Final = 5


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("law", choices=LAWS)
    parser.add_argument("--worlds", type=int, default=10_000, help="by default 10,000")
    parser.add_argument("--first", type=int, default=0, help="the first seed, by default 0")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.worlds)
    found = 0
    with Pool() as pool, Progress() as progress:
        texts = pool.imap(LAWS[options.law], seeds, chunksize=10)
        for seed, text in zip(
            seeds, progress.track(texts, total=len(seeds), description=options.law), strict=True
        ):
            if text:
                found += 1
                if found <= MAX_PRINTED:
                    progress.console.print(f"seed {seed}:\n{text}", markup=False)
        progress.console.print(f"{options.law}: {len(seeds):,} worlds, {found:,} counterexamples")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
