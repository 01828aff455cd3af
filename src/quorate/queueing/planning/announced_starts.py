"""Announced starts: the announcement of a planned start, its changes, and the condition with both.

The condition ``quorate.dev/PlannedStart`` tells a new process the former announcements.  Its reason is
``Planned``, or the cause of the last move to a later time.  Its message has the time, the origin of the
bounds behind it, and the former times.
"""

import math
import re
from datetime import datetime
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Condition, Key, at_epoch, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.limits import MAX_REVISIONS, NOTICED_S
from quorate.queueing.planning.bounds import Origin
from quorate.quota.amount import FlavorResource

CauseCode = Literal[
    "NodeLost",  # a node on which pods had places is not available any more
    "QuotaCut",  # the cluster queue can get less of a resource than when the start was planned
    "BoundOverrun",  # a workload runs longer than its bound, which was learned or is a default
    "HigherPriorityArrived",  # a workload that precedes the planned one has got quota or a planned start
    "QuotaReclaimed",  # a workload of another cluster queue uses quota of its own that was to be borrowed
    "StateChanged",  # something else has changed, or it changed while no controller ran
]


class Cause(NamedTuple):
    """Why a planned start was moved later."""

    code: CauseCode
    text: str


def as_read_in(namespace: str, key: Key) -> Key:
    """Return how a text in an object of ``namespace`` names the workload ``key``.

    Users of the namespace read the text, and may not read workloads of other namespaces.
    """
    return key if key.namespace == namespace else _OF_OTHERS


_OF_OTHERS: Final = Key("", "a workload of another namespace")

PLANNED: Final = "Planned"


class Revision(msgspec.Struct, frozen=True):
    """A planned start that was moved later, and why."""

    at: float  # the former one, epoch seconds; infinite: no time was known
    reason: str
    text: str


class AnnouncedStart(msgspec.Struct, frozen=True):
    """The planned start of a pending workload as it was told."""

    at: float  # epoch seconds; infinite: a workload without a bound must end first
    origin: Origin  # of the least certain bound that it rests on
    ended: int  # workloads that end before
    made_at: float  # when it was first told, or last moved later, epoch seconds
    planned_at: float  # as planned now; what is earlier by little is not told
    revisions: tuple[Revision, ...] = ()  # the latest last
    # What it rests on; empty in a new process
    capacity: dict[FlavorResource, int] = {}  # that the queue can get at most
    nodes: frozenset[str] = frozenset()  # of the hosts or domains in which its pods have places
    latest: float = math.inf  # as planned now, if what ends before runs ``LONGEST`` times what was learned

    @property
    def reason(self) -> str:
        return self.revisions[-1].reason if self.revisions else PLANNED

    @property
    def message(self) -> str:
        one, many = self.ended == 1, f"{self.ended} workloads"
        if math.isfinite(self.at):
            ended = "1 workload has ended" if one else f"{many} have ended"
            text = f"starts at {_moment(self.at)} at the latest ({self.origin}), after {ended}"
        else:
            unbounded = "1 workload that must end has" if one else f"of {many} that must end some have"
            text = f"no time is known: {unbounded} no bound"
        for revision in reversed(self.revisions):
            text += f"; was {_moment(revision.at)}: {revision.reason}: {revision.text}"
        return text


def kept(announced: AnnouncedStart, plan: AnnouncedStart) -> AnnouncedStart:
    """Return the announcement of ``plan``, which is not later than ``announced``."""
    result = plan if plan.at < announced.at - NOTICED_S else announced
    if plan.origin != announced.origin and plan.planned_at <= announced.at:
        result = msgspec.structs.replace(plan, at=min(plan.at, announced.at))
    return msgspec.structs.replace(
        result,
        planned_at=plan.planned_at,
        latest=plan.latest,
        made_at=announced.made_at,
        revisions=announced.revisions,
        capacity=plan.capacity,
        nodes=plan.nodes,
    )


def moved(announced: AnnouncedStart, plan: AnnouncedStart, cause: Cause) -> AnnouncedStart:
    """Return ``plan``, which is later than ``announced``, with what moved it."""
    revision = Revision(announced.at, cause.code, cause.text)
    return msgspec.structs.replace(plan, revisions=(*announced.revisions, revision)[-MAX_REVISIONS:])


def _moment(at: float) -> str:
    return f"{at_epoch(math.ceil(at)):%Y-%m-%dT%H:%M:%SZ}" if math.isfinite(at) else "unknown"


_AT: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z|unknown"
_MESSAGE: Final = re.compile(
    rf"starts at (?P<at>{_AT}) at the latest \((?P<origin>{'|'.join(get_args(Origin))})\), "
    r"after (?P<ended>[0-9]{1,9}) workloads? ha(?:ve|s) ended|"
    r"no time is known: (?:of )?(?P<unbounded>[0-9]{1,9}) "
)
_FORMER: Final = re.compile(
    rf"; was (?P<at>{_AT}): (?P<reason>{'|'.join(get_args(CauseCode))}): (?P<text>[^;]*)"
)


def stored_announcement(workload: Workload) -> AnnouncedStart | None:
    """Return what an earlier process announced for a workload; None if nothing, or not in our words."""
    condition = find_condition(workload.status.conditions, c.PLANNED_START)
    written = None if condition is None else _MESSAGE.match(condition.message)
    if condition is None or condition.status != "True" or written is None:
        return None
    revisions = tuple(
        Revision(_read(former["at"]), former["reason"], former["text"])
        for former in _FORMER.finditer(condition.message)
    )
    at = _read(written["at"] or "unknown")
    return AnnouncedStart(
        at=at,
        origin=next((origin for origin in get_args(Origin) if origin == written["origin"]), "Declared"),
        ended=int(written["ended"] or written["unbounded"]),
        made_at=c.transition_time(condition),
        planned_at=at,
        revisions=revisions[:MAX_REVISIONS][::-1],
        latest=at,
    )


def _read(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:  # unknown, or the words of another writer
        return math.inf


def planned_start_conditions(
    workload: Workload, announced: AnnouncedStart | None, now: float
) -> tuple[Condition, ...]:
    """Return the condition of a pending workload that tells ``announced``; empty if it is stored."""
    generation = workload.metadata.generation
    stored = find_condition(workload.status.conditions, c.PLANNED_START)
    if announced is not None:
        new = c.new_condition(c.PLANNED_START, "True", announced.reason, announced.message, now, generation)
    elif stored is None or stored.status == "False":
        return ()
    else:
        text = "the start is not planned any more"
        new = c.new_condition(c.PLANNED_START, "False", "NotPlanned", text, now, generation)
    return () if c.is_unchanged(stored, new) else (new,)
