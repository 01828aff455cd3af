"""Which runs there are, and what becomes of one."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from tests.faults.plan import GANG_WRITES, WRITES, Fault, Killed, Late, Plan, RequestKind, Unanswered

# What is special about a run, beside the faults that all of them suffer:
Kind = Literal[
    "kills",  # nothing
    "pairs",  # two replicas, a lease that cannot be renewed, half of them with clocks of their own
    "clocks",  # the wall clock is set
    "hostile",  # the server breaks the rules of a watch
    "quotas",  # an administrator lowers limits and stops queues
    "crashes",  # the controllers are a process, and die by SIGKILL
    "gangs",  # it is the gang scheduler that suffers (see gang_runs)
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True)
class Trial:
    seed: int
    kind: Kind

    def __str__(self) -> str:
        return f"{self.kind} {self.seed}"

    def plan(self) -> Plan:
        return Plan(self.seed, hostile=self.kind == "hostile", scheduled=dict(self._scheduled()))

    def _scheduled(self) -> Iterator[tuple[tuple[RequestKind, int], Fault]]:
        rng = random.Random(f"trial {self.seed}")
        # One death at a sort of write that is a matter of the seed, so that so many seeds try all of them.
        writes = GANG_WRITES if self.kind == "gangs" else WRITES
        request_kind, done = writes[self.seed % len(writes)], bool(self.seed // len(writes) % 2)
        yield (request_kind, rng.randint(1, 3)), Killed(done)
        yield (rng.choice(writes), rng.randint(1, 8)), Killed(rng.random() < 0.5)
        if self.kind == "pairs":
            # The leader cannot renew, and what it wrote meanwhile comes late.
            begin = rng.randint(2, 6)
            for number in range(begin, begin + 3):
                yield ("PATCH leases", number), Unanswered(done=False)
            for number in range(3, 12, 2):
                yield ("PATCH workloads/status", number), Late(0.2, 0.0)


@dataclass
class Report:
    trial: Trial
    injected: Counter[str] = field(default_factory=Counter)
    killed_at: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    restarts: int = 0
    states: int = 0  # stored states that were checked
    duration_s: float = 0.0
