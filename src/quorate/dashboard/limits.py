"""Limits of the dashboard."""

from dataclasses import dataclass
from typing import Final

from quorate.kube.limits import REVIEW_CACHE_S

# Server
BODY_BYTES: Final = 64 * 1024  # of a request; only manifests of a comparison may be larger
RELOAD_S: Final = 60.0  # between two reads of the certificate, which may be renewed
# Decisions about rights that are kept, 0.5 KB each: 200 users with 500 namespaces.
MAX_REVIEWS: Final = 100_000

# Parameters and answers
PAGE_MAX: Final = 500  # entries of one answer
OFFSET_MAX: Final = 10_000_000  # of a list
PODS_MAX: Final = 1_000_000  # of a gang that is asked about
TEXT_MAX: Final = 512  # characters of a parameter
RESOURCES_MAX: Final = 20  # of a gang that is asked about
MAX_LIVE_PODS: Final = 2000  # of one object, those that do not run first
MAX_SHOWN_EVENTS: Final = 200  # of one object
MAX_PLACES: Final = 1000  # of a gang in an answer
MAX_GANG_PODS: Final = 100_000  # of a gang that is placed for an answer
MAX_DEPTH: Final = 16  # of the tree in an answer; cohorts below are listed with the last one above
MAX_HITS: Final = 100  # of a search
MAX_DOMAINS: Final = 1000  # of a pod set in an answer
FREQUENT_REASONS: Final = 5  # reasons of the cluster that are shown
SCHEDULED_WORKLOADS: Final = 60  # of one cluster queue, that are drawn
FREQUENT_REASONS_OF_QUEUE: Final = 3  # reasons of a queue that are shown

# Notices of changes
HEARTBEAT_S: Final = 15.0  # between two messages of a stream without changes: proxies close silent ones
CHECK_S: Final = 5.0  # how often the rights of the caller are looked at
MOST_STREAMS: Final = 1000  # of all sessions
MOST_OF_A_SESSION: Final = 12  # streams: tabs of a browser
JOURNAL_MAX: Final = 4096  # changes that are kept
TOPICS_MAX: Final = 200  # of one notice
NOTICE_INTERVAL_S: Final = 0.5  # between two notices to one client
GATHER_S: Final = 0.05  # after the first change: others often follow at once
LOOK_AGAIN_S: Final = 60.0  # for kinds that were not served

# History
COMPACT_EVERY: Final = 6  # samples: a minute
MAX_UNWRITTEN: Final = 100_000  # transitions that wait for the disk; beyond, the oldest are dropped
MAX_RECENT: Final = 5_000  # evictions and preemptions that are kept in memory
MAX_LISTED_TRANSITIONS: Final = 500  # in one answer
MAX_WAITS: Final = 10_000  # of one interval

# Logins
REVIEW_S: Final = 10.0  # how long an answer about a token is reused
SESSION_IDLE_S: Final = 3600.0  # until a session that is not used ends
SESSION_S: Final = 12 * 3600.0  # until a session ends: a working day
MOST_SESSIONS: Final = 10_000  # of all users
MOST_OF_A_USER: Final = 20  # sessions; the oldest one ends
MOST_LOGINS_AT_ONCE: Final = 16  # that the API server reviews
TOKEN_BYTES: Final = 16 * 1024  # of a token that is reviewed
LOGIN_PENDING_S: Final = 600.0  # until a login at the issuer is given up
MOST_PENDING_LOGINS: Final = 1000  # at the issuer
ISSUER_TIMEOUT_S: Final = 10.0  # of a request to the issuer
ISSUER_BYTES: Final = 256 * 1024  # of an answer of the issuer
LINK_VALID_S: Final = 3600.0  # of a link that logs in once

# Refreshed data
UNUSED_S: Final = 1.0  # between two checks whether the dashboard is used

# Logs and manifests
MOST_LOG_LINES: Final = 1000  # of a pod, the last ones
LOG_BYTES: Final = 2**18  # of these lines
MANIFEST_BYTES: Final = 2**18  # of an object as JSON, above which it is not shown as YAML

# Explanations
SHORTEST_EXPLAINED_S: Final = 2.0  # between two lists of explanations
EXPLAINED_REST: Final = 9.0  # pause between two lists, in durations of the last one
EXPLAINED_SLICE: Final = 200  # workloads that are shown anew before other tasks run

# Forecasts and comparisons
DEADLINE_S: Final = 120.0  # of a forecast or a comparison
BUDGET_S: Final = 8.0  # of processor time for the runs; reading 10,000 workloads takes another second or two
SHORTEST_PERIOD_S: Final = 30.0  # between two forecasts
FORECAST_REST: Final = 2.0  # pause between two forecasts, in durations of the last one
MOST_FINDINGS: Final = 100  # of the manifests of a comparison
NICENESS: Final = 10  # of the process of a simulation: the server has priority
MEMORY_BYTES: Final = 2 * 2**30  # of the process of a simulation
PROCESSOR_S: Final = 180.0  # of the process of a simulation
MOST_LOGGED: Final = 2000  # characters of the errors of a simulation
COMPARED_BYTES: Final = 2**20  # of the manifests of a comparison
MOST_WAITING: Final = 4  # comparisons: one runs at a time


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of a session: after which time changed credentials or rights take effect, and its sizes."""

    review_s: float = REVIEW_S
    check_s: float = CHECK_S
    idle_s: float = SESSION_IDLE_S
    access_s: float = REVIEW_CACHE_S  # how long an answer about the rights of the user is reused
    streams: int = MOST_OF_A_SESSION
    comparisons: int = MOST_WAITING  # of all sessions
