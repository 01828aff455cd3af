"""Configuration of planned starts: the defaults of cluster queues without annotations about them."""

from typing import Final, Literal, get_args

import msgspec

from quorate.api.decoding.strict import boolean, choice, duration, integer, struct_of

BACKFILL: Final = "quorate.dev/backfill"  # annotation of a ClusterQueue, or of a Queue of pod groups
BackfillMode = Literal["None", "EASY", "Conservative"]
BACKFILL_MODES: Final = get_args(BackfillMode)
OnOverrun = Literal["Revise", "Evict"]
ON_OVERRUN: Final = get_args(OnOverrun)
MAX_DEPTH: Final = 100
MAX_SLACK: Final = 1_000  # percent
LEAST_MAXIMUM_S: Final = 1.0  # as ``maximumExecutionTimeSeconds``


class PlannedStartRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which workloads of a cluster queue get a planned start, and how long its workloads run at most.

    ``EASY`` plans for the first workload that does not fit, ``Conservative`` for the first ``depth`` ones.
    """

    backfill: BackfillMode = "None"
    depth: int = 10  # of Conservative
    slack_percent: int = 0  # of the time until a planned start, by which later workloads may delay it
    reserve_after_s: float = 0.0  # of waiting, before a workload gets a planned start
    default_maximum_s: float | None = None  # of workloads that declare no maximum execution time
    enforces_default: bool = False
    on_overrun: OnOverrun = "Revise"  # of a learned bound, by a workload that passed a planned one

    @property
    def planned_workloads(self) -> int:
        """Return how many workloads may have a planned start at once."""
        if self.backfill == "Conservative":
            return self.depth
        return 1 if self.backfill == "EASY" else 0


decode_planned_starts = struct_of(
    PlannedStartRules,
    backfill=("backfill", choice(BACKFILL_MODES)),
    depth=("depth", integer(1, MAX_DEPTH)),
    slack_percent=("slackPercent", integer(0, MAX_SLACK)),
    reserve_after_s=("reserveAfter", duration()),
    default_maximum_s=("defaultMaximumExecutionTime", duration(minimum_s=LEAST_MAXIMUM_S)),
    enforces_default=("enforceDefault", boolean),
    on_overrun=("onOverrun", choice(ON_OVERRUN)),
)
