"""Action ``allocate``: find nodes for the members of gangs, for whole gangs or not at all.

Queues take turns, and in each queue its gangs.  In one turn a gang is given nodes until it is ready; what it
was given is then bound, and members that are left wait for the gang's next turn, which comes after the turns
of gangs that are not ready yet.  A gang that will be ready when others have left keeps what it was given and
promised until the session ends, so that nobody takes it meanwhile.  Any other gang gives all of it back.
"""

from collections import Counter, deque
from collections.abc import Sequence

from quorate.api.volcano import INQUEUE
from quorate.gang.gang import Gang
from quorate.gang.members import members_to_place
from quorate.gang.session import Session
from quorate.gang.task import Standing, Task
from quorate.gang.trial import Trial, place, promise
from quorate.gang.turns import Turns
from quorate.gang.verdicts import GangUnschedulable, said_by_nodes
from quorate.placement.change_log import ChangeLog
from quorate.placement.colocation import choose_anchor_node, requires_affinity
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import Choice
from quorate.placement.shapes import Shape


def allocate(session: Session) -> None:
    if "enqueue" not in session.settings.actions:
        for gang in session.gangs:
            if gang.is_waiting:
                gang.phase = INQUEUE
    candidates = [
        gang
        for gang in session.gangs
        if gang.placeable
        and not gang.is_waiting
        and _shapes(session, gang)
        and session.invalidity(gang) is None
    ]
    placements: dict[Gang, Placement] = {}
    refusals = Refusals(session.cluster.usage_changes)
    for gangs in _before_others(session, candidates):
        _take_turns(session, gangs, placements, refusals)


def _before_others(session: Session, gangs: Sequence[Gang]) -> tuple[Sequence[Gang], Sequence[Gang]]:
    """Those for which others were evicted, and the rest.

    In profile ``design`` they go first.  Else who was evicted might, and be evicted again, without end.
    """
    if session.settings.profile == "compat":
        return (), gangs
    awaited: list[Gang] = []
    others: list[Gang] = []
    for gang in gangs:
        (awaited if any(task.nominated for task in gang.placeable.values()) else others).append(gang)
    return awaited, others


def _take_turns(
    session: Session, gangs: Sequence[Gang], placements: dict[Gang, "Placement"], refusals: "Refusals"
) -> None:
    turns = Turns(session)
    for gang in gangs:
        turns.add(gang)
    while (queue := turns.next_queue()) is not None:
        if session.is_overused(queue):
            turns.close(queue)
            continue
        gang = turns.next_gang(queue)
        if gang not in placements:
            placements[gang] = Placement(session, gang, refusals)
        if placements[gang].turn():
            turns.add(gang)


def _shapes(session: Session, gang: Gang) -> list[Shape]:
    """Of the members that are placed here: in profile ``compat`` those that ask for nothing come later."""
    everybody = session.settings.profile == "design"
    return [shape for shape in gang.shapes if everybody or not shape.best_effort]


class Refusals:
    """For which shapes there is no node, as far as nothing has moved since that was found."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._found: dict[Shape, tuple[int, Diagnosis]] = {}  # and how far the log went then

    def of(self, shape: Shape) -> Diagnosis | None:
        end, refusal = self._found.get(shape, (None, None))
        return refusal if end == self._log.end else None

    def note(self, shape: Shape, refusal: Diagnosis) -> None:
        self._found[shape] = (self._log.end, refusal)


class Placement:
    """One gang in one session, over its turns."""

    def __init__(self, session: Session, gang: Gang, refusals: "Refusals") -> None:
        self._session = session
        self._refusals = refusals
        self._gang = gang
        self._queue = session.queue_of(gang)
        self._members: deque[Task] = deque()  # whom no turn has come to yet
        self._misfits: dict[Shape, Diagnosis] = {}  # shapes for which no node was found, in this order
        self._misfit_roles: set[str] = set()
        self._followers: dict[Shape, None] = {}  # shapes that must be near others; not in profile compat
        self._begun: set[Shape] = set()  # shapes that were asked where to begin
        if session.settings.profile == "design":
            self._followers = dict.fromkeys(shape for shape in gang.shapes if requires_affinity(shape))
        if self._has_prospects():
            best_effort = session.settings.profile == "design"
            self._members.extend(members_to_place(session, gang, best_effort=best_effort))

    def turn(self) -> bool:
        """Place what belongs to one turn; whether the gang should have another one."""
        session, gang = self._session, self._gang
        with session.trial() as trial:
            while self._members:
                task = self._members.popleft()
                if self._is_known_misfit(task) or not session.may_allocate(self._queue, task):
                    continue
                if not self._place(task, trial):
                    if self._can_go_on():
                        continue
                    break
                if session.is_ready(gang):
                    break
            if session.is_ready(gang):
                session.commit(trial.keep(), gang)
                return bool(self._members)
            if session.is_promised(gang):
                session.hold(trial.keep())
                return False
            placed = len(trial.moves)
        session.verdicts[gang.key] = self._verdict(placed)
        return False

    def _has_prospects(self) -> bool:
        """Whether some member fits somewhere: else it is not worth putting them in order."""
        for shape in _shapes(self._session, self._gang):
            choice = self._refusals.of(shape) or self._session.node_finder.best(shape)
            if isinstance(choice, Choice):
                self._misfits.clear()
                return True
            self._misfits[shape] = choice
            self._refusals.note(shape, choice)
        return False

    def _place(self, task: Task, trial: Trial) -> bool:
        """Give it the best node there is, whether others have to leave it first or not."""
        choice = self._next_choice(task)
        match choice:
            case Choice(node, Capacity.IDLE):
                trial.do(place(task, node))
            case Choice(node, Capacity.FUTURE_IDLE):
                trial.do(promise(task, node))
            case Diagnosis():
                self._misfits.setdefault(task.shape, choice)
                self._misfit_roles.add(task.role)
                self._refusals.note(task.shape, choice)
        return isinstance(choice, Choice)

    def _next_choice(self, task: Task) -> Choice | Diagnosis:
        refusal = None if task.nominated else self._refusals.of(task.shape)
        return refusal or self._session.node_finder.best(task.shape, task.nominated or self._beginning(task))

    def _beginning(self, task: Task) -> str:
        """In profile ``design``: the node where members begin who must all be near each other."""
        if not self._followers or task.shape in self._begun:
            return ""
        self._begun.add(task.shape)
        node_finder, counts = self._session.node_finder, self._gang.shapes
        together = {shape: counts[shape] for shape in {task.shape: None} | self._followers if counts[shape]}
        for_all = choose_anchor_node(node_finder, task.shape, together)
        if for_all or len(together) > 1:
            return for_all
        missing = self._gang.min_member - self._gang.tally.ready
        return choose_anchor_node(node_finder, task.shape, {task.shape: min(missing, together[task.shape])})

    def _is_known_misfit(self, task: Task) -> bool:
        """Whether a member of the same role was a misfit; Volcano does not look again then."""
        cached = self._session.settings.allocate.predicate_error_cache
        return cached and bool(task.role) and task.role in self._misfit_roles

    def _can_go_on(self) -> bool:
        """Whether the gang may be ready without the misfits found so far."""
        gang = self._gang
        if gang.min_member >= len(gang.tasks):
            return False
        if gang.min_member < sum(gang.min_task_member.values()):
            pending = Counter(task.role for task in gang.with_standing(Standing.PENDING))
            left = sum(count for role, count in pending.items() if role not in self._misfit_roles)
            return gang.tally.ready + left >= gang.min_member
        return not any(
            role in self._misfit_roles and gang.role(role).ready < minimum
            for role, minimum in gang.role_minima.items()
        )

    def _verdict(self, placed: int) -> GangUnschedulable:
        """Why it waits, when ``placed`` members had been given nodes before one found none."""
        gang = self._gang
        missing = gang.min_member - gang.tally.ready - gang.tally.promised - placed
        hopeless = sum(gang.shapes[shape] for shape, refusal in self._misfits.items() if refusal.never_fits)
        return GangUnschedulable(
            missing,
            gang.min_member,
            because="; ".join(sorted({said_by_nodes(refusal) for refusal in self._misfits.values()}))
            or "their queue may not take more now",
            never=gang.tally.valid - hopeless < gang.min_member,
        )
