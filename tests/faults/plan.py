"""Faults between a client and the API server, as data: a function of a seed.

A plan maps the n-th request of each kind to a fault, so the same seed gives the same faults however requests
of different kinds interleave.  ``proxy`` injects them.

The plan contains every fault that a real API server can cause and keeps its guarantees, unless it is
*hostile*.  Each watch delivers the changes of its kind in order and once, with a gap only at the
end of the stream or at an error; watches of different kinds may lag behind each other.
A 409 means that another client has written.  A hostile plan breaks these guarantees.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

RequestKind = str  # verb and resource: "PATCH workloads/status", "LIST jobs", "WATCH clusterqueues"


# Faults of requests.


@dataclass(frozen=True, slots=True)
class Late:
    """The request or the response is delayed."""

    request_delay_s: float
    response_delay_s: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The server does not execute the request and responds with an error."""

    code: int
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Conflicting:
    """Another client writes to the same object first, so the server responds with a conflict."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection breaks before the response; ``done``: the server executed the request."""

    done: bool


@dataclass(frozen=True, slots=True)
class Truncated:
    """The server executes the request and the connection breaks inside the response."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No response until the client times out; ``done``: the server executed the request."""

    done: bool


@dataclass(frozen=True, slots=True)
class Killed:
    """The client dies before the response; ``done``: the server executed the request."""

    done: bool


# Faults of watches.  ``after`` is the number of frames delivered before the fault.


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection breaks, with ``mid_frame`` inside the next frame."""

    after: int
    mid_frame: bool


@dataclass(frozen=True, slots=True)
class Expired:
    """The stream ends with an error frame: the resource version of the client has expired (410)."""

    after: int


@dataclass(frozen=True, slots=True)
class Lagging:
    """Each frame after the first ``after`` is delayed."""

    after: int
    lag_s: float


@dataclass(frozen=True, slots=True)
class Stalled:
    """The stream stays open without frames and is closed after ``for_s``."""

    after: int
    for_s: float


@dataclass(frozen=True, slots=True)
class Bookmarked:
    """A bookmark follows each frame."""


@dataclass(frozen=True, slots=True)
class Duplicated:
    """Hostile: each frame is delivered twice."""


@dataclass(frozen=True, slots=True)
class Reordered:
    """Hostile: every second frame is delivered after its successor, even for the same object."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Hostile: one frame is not delivered, without an error."""

    after: int


RequestFault = Late | Refused | Conflicting | Lost | Truncated | Unanswered | Killed
WatchFault = Refused | Cut | Expired | Lagging | Stalled | Bookmarked | Duplicated | Reordered | Dropped
Fault = RequestFault | WatchFault

# Each kind of write of the queueing controllers: runs kill the client at each of them.
WRITES: Final[tuple[RequestKind, ...]] = (
    "POST workloads",
    "PATCH workloads",
    "PATCH workloads/status",
    "PATCH jobs",
    "PATCH jobs/status",
    "PATCH clusterqueues",
    "PATCH clusterqueues/status",
    "PATCH localqueues/status",
    "PATCH resourceflavors",
    "POST events",
)
# The writes of the gang scheduler.
GANG_WRITES: Final[tuple[RequestKind, ...]] = (
    "POST pods/binding",
    "POST pods/binding",  # twice: most important for gangs
    "PATCH podgroups",
    "PATCH pods/status",
    "POST queues",
    "POST events",
)
# The writes of the queueing controllers between the reservation of places and the start of pods there.
TOPOLOGY_WRITES: Final[tuple[RequestKind, ...]] = (
    "PATCH workloads/status",
    "PATCH jobs",
    "PATCH pods",
    "PATCH pods",  # twice: it ungates
    "PATCH pods/status",
)
# The writes of a manager in its own cluster between the reservation of quota and the end of a remote job.
CLUSTER_WRITES: Final[tuple[RequestKind, ...]] = (
    "PATCH workloads/status",
    "PATCH workloads/status",  # twice: it records the cluster
    "PATCH jobs",
    "PATCH jobs/status",
    "POST workloads",
)
_DELAYS_S: Final = (0.005, 0.02, 0.08, 0.2)


@dataclass(frozen=True)
class Plan:
    """Random faults at ``rate`` of all requests, and ``scheduled`` faults of single requests."""

    seed: int
    rate: float = 0.15
    hostile: bool = False
    scheduled: Mapping[tuple[RequestKind, int], Fault] = field(default_factory=dict)

    def fault(self, request_kind: RequestKind, number: int) -> Fault | None:
        """Return the fault of request ``number`` of this kind, counted from 1 over all clients."""
        given = self.scheduled.get((request_kind, number))
        if given is not None:
            return given
        rng = random.Random(f"{self.seed} {request_kind} {number}")
        # A watch is one request with many frames, so its rate is higher.
        if rng.random() >= (4 * self.rate if request_kind.startswith("WATCH") else self.rate):
            return None
        if request_kind.startswith("WATCH"):
            return rng.choice(tuple(_watch_faults(rng, self.hostile)))
        return rng.choice(tuple(_request_faults(rng, request_kind, self.hostile)))


def _request_faults(rng: random.Random, request_kind: RequestKind, hostile: bool) -> Iterator[RequestFault]:
    verb, _, what = request_kind.partition(" ")
    yield Late(rng.choice(_DELAYS_S), 0.0)
    yield Late(0.0, rng.choice(_DELAYS_S))
    yield Lost(done=False)
    yield Lost(done=True)
    yield Truncated()
    yield Unanswered(done=False)
    yield Unanswered(done=True)
    yield Refused(429, retry_after_s=rng.choice((0, 1)))
    yield Refused(500)
    yield Refused(503, retry_after_s=rng.choice((None, 0)))
    if verb == "CONTINUE":
        yield Refused(410)
    if what == "pods/binding":
        yield Refused(403)  # permanent: a foreign webhook rejects the request
        yield Refused(403)
    if verb == "PATCH" and what != "events":
        yield Conflicting()
        if hostile:
            yield Refused(409)


def _watch_faults(rng: random.Random, hostile: bool) -> Iterator[WatchFault]:
    after = rng.choice((0, 1, 2, 5, 10, 20))
    yield Refused(410)
    yield Refused(429, retry_after_s=rng.choice((0, 1)))
    yield Refused(500)
    yield Cut(after, mid_frame=rng.random() < 0.5)
    yield Expired(after)
    yield Lagging(after, rng.choice(_DELAYS_S))
    yield Stalled(after, rng.choice(_DELAYS_S))
    yield Bookmarked()
    if hostile:
        yield Duplicated()
        yield Reordered()
        yield Dropped(after)
