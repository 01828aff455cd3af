"""Limits of the gang scheduler."""

from typing import Final

# Binds and evictions
MAX_WAIT_S: Final = 1.0  # the longest that one write waits for binds
CONFLICT_S: Final = 2.0  # within which the watch delivers the cause of a conflict
REFUSED_S: Final = 5.0  # until a refused bind or eviction is undone, and sessions may choose it again
MAX_EVENTS: Final = 5_000  # events of binds, recorded once no binds are queued
DEVICES_AT_ONCE: Final = 2_000  # evaluated in one step before a session: 10 ms
NOMINATION_WORKERS: Final = 16  # concurrent writes of nominated nodes

# Sessions
PAUSE_DURING_BINDS_S: Final = 0.1  # after the period, while the decisions would only join the queue of binds
REST_PER_SESSION: Final = 2.0  # the least pause after a session, in durations of that session
DISCOVERY_INTERVAL_S: Final = 30.0  # between two requests whether HyperNodes are served by now

# Statuses
FEW_WORKERS: Final = 4  # concurrent writes of conditions and queues: binds have priority
GROUP_WORKERS: Final = 16  # concurrent writes of statuses of pod groups
STATUS_DELAY_S: Final = 1.0  # a status that is outdated sooner is never written
MAX_STATUS_DELAY_S: Final = 5.0  # while binds are queued
CONDITION_REPEATED_S: Final = 60.0  # until a condition of a pod is written again for other numbers
CONDITION_REWORDED_S: Final = 5.0  # and for another text
REPORT_DELAY_S: Final = 2.0  # an object that is missing for a shorter time is not reported

# ProvisioningRequests
RECREATE_S: Final = 600.0  # until a failed request is created again, while the group still waits
REQUEST_WORKERS: Final = 2  # concurrent creations and deletions: there are few requests
