"""Limits of clients, caches, reconcilers, events and servers of any Kubernetes API."""

from typing import Final

# Requests
PAGE_SIZE: Final = 500  # objects of one page of a list, as client-go
ATTEMPTS: Final = 5  # of one request: about 1.5 s in all when the server sends no Retry-After
CONNECT_S: Final = 10.0  # until a connection counts as failed
FALLBACK_S: Final = 0.25  # until the next address of a host is tried beside the first (RFC 8305)
KEEPALIVE_S: Final = 60.0  # of an idle connection; API servers close theirs after 90 s
MAX_IDLE_CONNECTIONS: Final = 100  # that are kept
WATCH_S: Final = 300.0  # after which the server ends a watch; the next one may go to another replica
WATCH_SLACK_S: Final = 30.0  # silence beyond the end of a watch means that the connection is dead
DISCOVERY_INTERVAL_S: Final = 5.0  # one small request for each kind that is not served
UNATTENDED_S: Final = 60.0  # the longest run of an exec plugin that cannot ask a user

# Responses.  An API server stores at most 1.5 MiB of an object, which JSON makes at most a few times larger.
MAX_LINE_BYTES: Final = 16 * 2**20  # one change of one object in a watch
MAX_HEAD_BYTES: Final = 64 * 1024  # status line and headers; API servers send less than 1 KiB
MAX_UNREAD_BYTES: Final = 128 * 1024  # of a stream, after which the connection is not read for a while
MAX_ANSWER_BYTES: Final = 2**30  # any other response, such as 100,000 pods that are listed in one page
MAX_FULL_PAGES: Final = 16  # of that size, in all pages of one list
SMALL_PAGE_SIZE: Final = 16  # objects of a page, if that with PAGE_SIZE is too large

# Reads of one watch
PROMPT_READS: Final = 40  # in a row, and again after two quiet seconds: one job causes fewer
READS_PER_SECOND: Final = 20.0  # after these; a change is delivered up to 50 ms late
BATCH_BYTES: Final = 64 * 1024  # about 15 pods, which are read without a wait

# Caches and reconcilers
WATCH_SLICE_S: Final = 0.01  # of objects that arrived together, before other tasks run
STABLE_WATCH_S: Final = 5.0  # a watch of this length resets the backoff, even without events
STABLE_RUN_S: Final = 120.0  # a run of this length resets the backoff
OWN_WRITE_TIMEOUT_S: Final = 5.0  # how late a watch may deliver our own write before the copy counts as stale
RUNS_IN_ONE_TURN: Final = 16  # of a controller that write nothing, 0.1 ms each, before other tasks run
OUTDATED_ENTRIES: Final = 100  # of the heap of a queue that are kept, beyond one for each delayed key
# Beyond the duration of a lease, so that an attempt is not too early by a rounding error.
LEASE_MARGIN_S: Final = 0.01

# Objects that cannot be read
MAX_LEVELS: Final = 400  # kept of an object that is nested too deeply for the decoder
MAX_REMEMBERED_FAULTS: Final = 10_000  # objects with a logged fault; beyond, the oldest is forgotten
MAX_FAULT_MESSAGE: Final = 1024  # characters: a problem may quote what it is about

# Objects, lists, and their fields and items in one text.  The most expensive shape, one object with that
# many different keys, is decoded in 42 ms on a 2 GHz core.  An API server stores 1.5 MiB, in which this many
# values have 10 bytes each with name and punctuation; a pod template has 20 to 30 bytes for each value, and a
# topology assignment of 15,000 nodes has 60,000 values.
MAX_VALUES: Final = 150_000

# The event loop waits this long for a thread after each system call, and a request makes several.  With
# Python's 5 ms it waited 2 to 4 times longer while 3,000 pods were encoded; it takes 6 % more processor time.
SWITCH_INTERVAL_S: Final = 0.0005

# Events
NOTE_BYTES: Final = 1024  # an API server refuses an event with a longer note
NAME_CHARACTERS: Final = 253  # an API server refuses an event with a longer name
WORD_CHARACTERS: Final = 128  # an API server refuses an event with a longer reason or action
MAX_UNWRITTEN: Final = 10_000  # of a kilobyte each
# Of which repetitions are counted: all unwritten ones and some of the last minutes.
MAX_REMEMBERED_EVENTS: Final = 13_000
EVENT_WORKERS: Final = 4  # few: a burst of events must not delay the writes that they describe
PROMPT_WRITE_S: Final = 0.01  # a write that takes longer shows that the server has other work
PROMPT_EVENTS: Final = 20  # that wait, at most, while none yields to other writes
EVENT_PAUSE_S: Final = 0.25  # after an event that yields to other writes
REPEATED_S: Final = 1.0  # from an event to the write of its first repetition
COUNT_EVERY_S: Final = 60.0  # how far the stored count of a series may lag behind
SERIES_ENDS_S: Final = 360.0  # a repetition later than this begins a new series

# Servers
SHUTDOWN_S: Final = 1.0  # responses are small; a client that is slower at the end gets none
ACCEPT_RETRY_S: Final = 0.1  # while the process has no file descriptor left
BACKLOG: Final = 128  # connections that wait to be accepted, as most servers
ESTIMATE_BYTES: Final = 8192  # the error of the estimated size of a request
LINGERING_S: Final = 2.0  # the rest of a refused body is read, so that the client gets the response
# A client that opens connections or sends malformed requests cannot fill the log.
SERVER_LOG_INTERVAL_S: Final = 60.0
# How long the answer of the API server about a token or a right is reused, as kube-apiserver.
REVIEW_CACHE_S: Final = 10.0
REVIEW_CACHE_SIZE: Final = 1000  # answers that are kept
