"""Kinds of runs, and the report of a run."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from tests.faults.history import History
from tests.faults.plan import (
    CLUSTER_WRITES,
    GANG_WRITES,
    TOPOLOGY_WRITES,
    WRITES,
    Fault,
    Killed,
    Late,
    Plan,
    RequestKind,
    Unanswered,
)

# The special condition of a run, in addition to the faults of all runs:
Kind = Literal[
    "kills",  # nothing
    "pairs",  # two replicas, a lease that cannot be renewed, half of the runs with jumping clocks
    "clocks",  # the wall clock jumps
    "hostile",  # the server breaks the guarantees of watches
    "quotas",  # an administrator lowers limits and stops queues
    "crashes",  # the controllers are a process and end by SIGKILL
    "topologies",  # jobs request places, and nodes die and return
    "gangs",  # the gang scheduler instead of the controllers (see gang_runs)
    "clusters",  # a manager and three workers, with partitions, restarts and clocks (see cluster_runs)
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
        # The seed selects the write at which the client dies, so that consecutive seeds cover all writes.
        writes = {
            "gangs": GANG_WRITES, "topologies": TOPOLOGY_WRITES, "clusters": CLUSTER_WRITES,
        }.get(self.kind, WRITES)  # fmt: skip
        request_kind, done = writes[self.seed % len(writes)], bool(self.seed // len(writes) % 2)
        yield (request_kind, rng.randint(1, 3)), Killed(done)
        yield (rng.choice(writes), rng.randint(1, 8)), Killed(rng.random() < 0.5)
        if self.kind == "pairs":
            # The leader cannot renew, and its other writes are late.
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
    replacements: int = 0  # of places of a workload
    states: int = 0  # stored states that were checked
    duration_s: float = 0.0
    log: list[str] = field(default_factory=list)  # of the controllers
    histories: dict[str, History] = field(default_factory=dict)  # by cluster
