"""How long to leave something alone that failed: longer each time, up to a cap."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    first_s: float
    cap_s: float

    def delay_s(self, failures: int) -> float:
        """The wait after the ``failures``-th failure in a row (1 is the first): doubled each time, capped."""
        # The exponent is bounded because 2.0 ** 1024 overflows, and something may fail for a year.
        return min(self.cap_s, self.first_s * 2.0 ** min(failures - 1, 62))

    def jittered_s(self, failures: int, rng: random.Random) -> float:
        """Between half of that and all of it, so that many who failed together do not return together."""
        return self.delay_s(failures) * (0.5 + rng.random() / 2)
