"""Limits of the queueing core."""

from typing import Final

# Work of one turn, after which the caller may do other work: some milliseconds
# Of one cycle: enough to keep many writes in flight, few enough to keep the process responsive.
MAX_DECISIONS: Final = 100
STEP: Final = 2_000  # objects between two yields of an explanation
AUDIT_SLICE: Final = 500  # workloads of an audit
QUEUE_AUDIT_SLICE: Final = 2_000  # reservations of an audit, at least; those of one queue belong to one slice

# One unit is the work on a workload that is left as it is, about 0.2 microseconds.
SLICE_UNITS: Final = 100_000  # of an update of requests
UPDATE_UNITS: Final = 250  # of the update of one workload
BYTES_PER_UNIT: Final = 2  # of the pod templates of an updated workload

# Searches
MAX_COMBINATIONS: Final = 64  # two earlier pod sets with eight flavors each
MAX_SEARCHED_FLAVORS: Final = 8  # for remedies, and as many priorities

MAX_BREAKS: Final = 4  # occurrences of each window beside which starts are planned

# Times
TIMESTAMP_BUFFER_S: Final = 300.0  # of the gate SchedulerTimestampPreemptionBuffer
REFUSED_START_S: Final = 60.0  # how long a job that cannot be started keeps its quota
OVERDUE_S: Final = 1.0  # after a planned start, when it is computed again if the workload waits still
NOTICED_S: Final = 60.0  # a planned start that is earlier by less than this is not told
# Before the second pass of a workload is tried again for the first time, as in Kueue.
FIRST_DELAY_S: Final = 1.0
MAX_DELAY_S: Final = 30.0  # between two tries of a second pass, as in Kueue
JITTER_FACTOR: Final = 0.0001  # of the delay: spreads the return of workloads that were evicted together
LEAST_USAGE: Final = 0.001  # of any resource, in whole units: consumed usage below it counts as zero

# Memory
MAX_TEMPLATES: Final = 1024  # decoded pod templates, pods or shapes that are kept
MAX_QUEUE_FINDINGS: Final = 100  # that are kept of one cluster queue; the first tells why it is inactive

# Texts
MAX_MESSAGE_BYTES: Final = 32 * 1024  # of a condition, in the API
MAX_REASONS: Final = 8  # in one message: it is stored with each pending workload
MAX_MESSAGE_FINDINGS: Final = 3  # in a message: more would hide the other reasons
MAX_NAMED_PODS: Final = 5  # pods in a message
MAX_CONTAINER_MESSAGE: Final = 200  # characters in the explanation of a pod
MAX_REVISIONS: Final = 5  # of a planned start that are told: the latest
MAX_LISTED: Final = 10  # workloads in an explanation
MAX_NAMED_QUEUES: Final = 2  # that a remedy names instead of a missing one
MAX_TRIED_QUEUES: Final = 6  # to find those
MAX_REMEDIES: Final = 6  # in an explanation
MAX_FLAVORS: Final = 64  # in a status; a queue may have more
MAX_DIGITS: Final = 10  # of the largest 32-bit integer
