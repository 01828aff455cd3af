"""What goes wrong between a client and the API server, as data: a function of a seed.

A plan says what befalls the n-th request of each sort, so the same seed means the same faults however the
requests of different sorts interleave.  ``proxy`` carries it out.

What a real API server can do to its clients is all here; the rules it keeps are kept too, unless the plan is
*hostile*.  Each watch delivers the changes of its kind in order, each once, and a gap only together with the
end of the stream or an error; but the watches of different kinds lag behind each other as they like.
A 409 means that another client has written.  A hostile plan breaks these rules.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

RequestKind = str  # what a request is about: "PATCH workloads/status", "LIST jobs", "WATCH clusterqueues"


# What can befall a request.


@dataclass(frozen=True, slots=True)
class Late:
    """It reaches the server, or its answer the client, only after a while."""

    request_delay_s: float
    response_delay_s: float


@dataclass(frozen=True, slots=True)
class Refused:
    """It is not carried out, and the answer says so."""

    code: int
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Conflicting:
    """Another client writes to the same object first, so that the server answers with a conflict."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection breaks before any answer; the request was carried out or it was not."""

    done: bool


@dataclass(frozen=True, slots=True)
class Truncated:
    """It is carried out, and the connection breaks in the middle of the answer."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer, until the client gives up waiting; the request was carried out or it was not."""

    done: bool


@dataclass(frozen=True, slots=True)
class Killed:
    """The client dies at this request: before it reaches the server, or after it, before the answer."""

    done: bool


# What can befall a watch.  ``after`` counts the frames delivered before.


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection breaks, maybe in the middle of the next frame."""

    after: int
    mid_frame: bool


@dataclass(frozen=True, slots=True)
class Expired:
    """The stream ends with an error frame: the server no longer knows where the client was (410)."""

    after: int


@dataclass(frozen=True, slots=True)
class Lagging:
    """From some frame on, each comes a while after its time."""

    after: int
    lag_s: float


@dataclass(frozen=True, slots=True)
class Stalled:
    """The stream stays open and brings nothing more; after a while it is cut."""

    after: int
    for_s: float


@dataclass(frozen=True, slots=True)
class Bookmarked:
    """A bookmark follows each frame."""


@dataclass(frozen=True, slots=True)
class Duplicated:
    """Hostile: each frame comes twice."""


@dataclass(frozen=True, slots=True)
class Reordered:
    """Hostile: every second frame comes after the one that should follow it, even of the same object."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Hostile: one frame never comes, and nothing tells."""

    after: int


RequestFault = Late | Refused | Conflicting | Lost | Truncated | Unanswered | Killed
WatchFault = Refused | Cut | Expired | Lagging | Stalled | Bookmarked | Duplicated | Reordered | Dropped
Fault = RequestFault | WatchFault

# Every sort of write the queueing controllers send: each is a place to die at.
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
# And those of the gang scheduler.
GANG_WRITES: Final[tuple[RequestKind, ...]] = (
    "POST pods/binding",
    "POST pods/binding",  # twice: it is where gangs break
    "PATCH podgroups",
    "PATCH pods/status",
    "POST queues",
    "POST events",
)
_DELAYS_S: Final = (0.005, 0.02, 0.08, 0.2)


@dataclass(frozen=True)
class Plan:
    """Faults by chance, ``rate`` of all requests, and those that are laid down for one request each."""

    seed: int
    rate: float = 0.15
    hostile: bool = False
    scheduled: Mapping[tuple[RequestKind, int], Fault] = field(default_factory=dict)

    def fault(self, request_kind: RequestKind, number: int) -> Fault | None:
        """What befalls request ``number`` of this sort, counted from 1 over all clients."""
        given = self.scheduled.get((request_kind, number))
        if given is not None:
            return given
        rng = random.Random(f"{self.seed} {request_kind} {number}")
        # A watch is one request and a thousand answers, so it has more to suffer.
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
        yield Refused(403)  # for good: a foreign webhook rejects it
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
