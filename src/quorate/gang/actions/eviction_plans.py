"""What ``preempt`` and ``reclaim`` would evict for groups that ``enqueue`` is to admit.

A group without idle resources may be owed the resources of others: by its priority or by the share of its
queue.  Its pods do not exist before it is admitted, so nothing can be evicted for them; and without the
evictions there are no resources to admit it for.  So enqueue asks the actions themselves: with the expected
members of the group in the model, and in a session of its own, they find victims by the configured plugins,
for the whole group or not at all.  The group is admitted if they do.  Nothing is evicted before its pods
exist: then the same actions find the victims again, for what the pods really request.

The decisions for one group hold for the groups after it: each victim is counted once.  Members of admitted
groups have the nodes that ``allocate`` is to give them: no search takes these nodes for idle, and the members
may be victims like running pods.  A group that would have them evicted as soon as they run is placed before
them instead.  All of it is undone at the end of the ``with`` block.

A search looks at every gang that runs, so the searches of a session are limited to ``MAX_GANGS`` gangs
altogether.  Groups that are equal here have one search.  One that found nothing is repeated when the model
has changed, and after those for the other groups (``RefusedPlans``).  Nothing is evicted for a group that
lacks more members than the nodes take pods, or than ``MAX_EXPECTED_MEMBERS``.

Source: the design note "Delay Pod Creation", where enqueue and eviction shall work together.
"""

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.api.meta import Key
from quorate.api.volcano import INQUEUE
from quorate.gang.actions.gang_placement import place_minima
from quorate.gang.actions.preempt import preempt_for
from quorate.gang.actions.reclaim import reclaim_for
from quorate.gang.cache.expected_members import count_missing, expected_members
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.reservations import node_claim_of
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.outcome import EvictionAction
from quorate.gang.session.callbacks import Callbacks
from quorate.gang.session.session import Session
from quorate.gang.session.victims import MinResourcesSurplus
from quorate.gang.session_opening import open_session
from quorate.quota.amount import PODS

MAX_GANGS: Final = 10_000  # that the searches of a session look at, of which 30 take a millisecond
MAX_SEARCHES: Final = 10  # of a session, however few gangs run
MAX_EXPECTED_MEMBERS: Final = 5000  # of one group; minMember may be any number, and each member is a task
RETRY_S: Final = 1.0  # until the next session, if groups are left without a search

_ACTIONS: Final[Mapping[EvictionAction, Callable[[Session, Gang], bool]]] = {
    "preempt": preempt_for,
    "reclaim": reclaim_for,
}


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """The running tasks that ``action`` would evict for a group, in order."""

    action: EvictionAction
    victims: tuple[Key, ...]

    def __str__(self) -> str:
        names = ", ".join(victim.name for victim in self.victims)
        return f"{self.action} is to evict {len(self.victims)} pods for it: {names}"


class EvictionPlans:
    """The plans of one session, which are all undone in the end.

    ``max_searches``: None for as many as the module says.
    """

    def __init__(self, session: Session, max_searches: int | None = None) -> None:
        self._session = session
        self._model = session.model
        running = len([gang for gang in session.gangs if gang.requests.allocated])
        self._max_searches = max_searches or max(1, min(MAX_SEARCHES, MAX_GANGS // max(1, running)))
        self._model.refused_plans.begin_session(self._model.version, self._max_searches)
        names = session.settings.actions if session.rules.admits_on_evictions else ()
        self._actions = [action for name in names for action in _ACTIONS if action == name]
        self._places = bool(self._actions) and "allocate" in session.later_actions
        self._searches = 0
        self._planned: list[_Search] = []
        self._bounds: dict[tuple[str, int, bool], Counter[str]] = {}
        self._displaceable: dict[tuple[str, int, bool], Counter[str]] = {}  # by the keys of ``_bounds``
        self._unplaced: list[Gang] = []  # groups charged since the last search that ``allocate`` may place
        self._waiting: dict[tuple[str, int], Counter[str]] = {}  # their requests, by queue and priority
        self._placed: set[Task] = set()  # members of charged groups, on the nodes of ``allocate``
        self._deallocated: list[Task] = []  # victims that the plugins of the session do not count
        self.freed: Counter[str] = Counter()  # the requests of all victims

    def __enter__(self) -> "EvictionPlans":
        return self

    def __exit__(self, *exc: object) -> None:
        for search in reversed(self._planned):
            search.undo()
        self._planned.clear()
        revision = self._model.revision
        for task in self._placed:
            self._model.set_task_status(task, TaskStatus.PENDING, "")
        self._model.revision = revision
        self._placed.clear()
        self._count(self._session.callbacks.on_allocate, self._deallocated)
        if self._searches:  # the accounts of queues had the members and victims in them
            self._model.queue_accounts(self._session.gangs)

    def charge(self, gang: Gang) -> None:
        """Count ``gang``, which is active: ``allocate`` may place its members in this session."""
        if not gang.schedulable or not self._places:  # as for most gangs: they run
            return
        if not any(search.gang is gang for search in self._planned):  # with nodes, and expected members
            self._unplaced.append(gang)
            self._waiting.setdefault((gang.queue, gang.priority), Counter()).update(gang.requests.pending)
            self._displaceable.clear()

    @property
    def has_placed(self) -> bool:
        """Whether members of admitted groups have nodes that ``allocate`` has not chosen yet."""
        return bool(self._placed)

    def at_most(self, gang: Gang, *, in_queue: bool = False) -> Mapping[str, int]:
        """Return an upper bound of the resources of the victims of ``gang``, without a search.

        ``in_queue``: only victims in its own queue.
        """
        key = (gang.queue, gang.priority, in_queue)
        if key not in self._bounds:
            bound: Counter[str] = Counter()
            for other in self._session.gangs:
                is_counted = other.queue == gang.queue or not in_queue
                if is_counted and other.requests.allocated and self._may_lose(other, gang):
                    bound.update(other.requests.allocated)
            self._bounds[key] = bound
        if key not in self._displaceable:
            self._displaceable[key] = self._requests_to_displace(gang, in_queue=in_queue)
        return self._bounds[key] + self._displaceable[key]

    def _may_lose(self, other: Gang, gang: Gang) -> bool:
        if other.queue != gang.queue:
            return "reclaim" in self._actions and self._session.queue_of(other).reclaimable
        if "preempt" not in self._actions:
            return False
        is_overused = self._session.settings.preempt.evict_overused and MinResourcesSurplus(other)
        return other.priority < gang.priority or (other.priority == gang.priority and bool(is_overused))

    def _requests_to_displace(self, gang: Gang, *, in_queue: bool) -> Counter[str]:
        """Return what members of admitted groups request that may be victims once they are placed."""
        total: Counter[str] = Counter()
        for (queue, priority), requests in self._waiting.items():
            may_reclaim = "reclaim" in self._actions and not in_queue
            if priority < gang.priority if queue == gang.queue else may_reclaim:
                total.update(requests)
        return total

    def _place_charged(self) -> None:
        """Give the members of charged groups nodes as ``allocate`` does, until each group can start."""
        if not self._unplaced:
            return
        gangs, self._unplaced = self._unplaced, []
        session = open_session(self._model, self._session.settings, self._session.now)
        with session.rehearsal() as moves:
            place_minima(session, gangs)
            placed = [(move.task, move.to_status, move.to_node) for move in moves]
        for task, status, node in placed:
            bound = TaskStatus.BOUND if status is TaskStatus.ALLOCATED else status
            self._model.set_task_status(task, bound, node)
            self._placed.add(task)

    def plan(
        self, gang: Gang, suffices: Callable[[Mapping[str, int]], bool], has_share: Callable[[], bool]
    ) -> EvictionPlan | None:
        """Return what has to be evicted for ``gang``, which has not started; None if nothing helps.

        ``suffices``: whether the group has room if its victims free these amounts beside ``freed``;
        ``has_share``: whether its queue has, as far as the plugins of the session know of evictions.

        A plan counts for the groups after ``gang``.  A group that was admitted always has its search.
        """
        most = self._session.cluster.total.get(PODS, MAX_EXPECTED_MEMBERS)
        if count_missing(gang) > min(MAX_EXPECTED_MEMBERS, most):
            return None
        refusals, group = self._model.refused_plans, _class_of(gang)
        if gang.is_pending:
            if refusals.is_current(group):
                return None
            if self._searches >= self._max_searches or not refusals.is_due(group):
                refusals.skip(group)
                self._session.wake(self._session.now + RETRY_S)
                return None
        self._searches += 1
        revision = self._model.revision
        self._place_charged()
        search = _Search(self._session, gang)
        plan = search.run(self._actions, self._placed)
        if plan is None or not suffices(search.freed) or not self._has_share(search.victims, has_share):
            search.undo()
            self._model.revision = revision
            refusals.add(group)
            return None
        refusals.discard(group)
        self._planned.append(search)
        if not self._placed.isdisjoint(search.victims):
            self._session.displacing.add(gang.key)
        self.freed.update(search.freed)
        return plan

    def _has_share(self, victims: Sequence[Task], has_share: Callable[[], bool]) -> bool:
        """Return True if the queue has a share with its victims, or else without them."""
        if has_share():
            return True
        victims = [task for task in victims if task not in self._placed]
        self._count(self._session.callbacks.on_deallocate, victims)
        if has_share():
            self._deallocated += victims
            return True
        self._count(self._session.callbacks.on_allocate, victims)
        return False

    def _count(self, callbacks: Callbacks[Callable[[Task], None]], tasks: Sequence[Task]) -> None:
        for callback in callbacks:
            for task in tasks:
                callback(task)


class _Search:
    """A session in which ``gang`` is admitted and has all its members."""

    def __init__(self, session: Session, gang: Gang) -> None:
        self._model = session.model
        self.gang = gang
        self._nominated = {task.key: task.nominated_node for task in gang.schedulable.values()}
        assert gang.spec is not None, f"{gang.key} is in a session without a pod group"
        may_preempt = self._model.priority_classes.may_preempt(gang.spec.priority_class_name)
        self._members = expected_members(gang, may_preempt=may_preempt)
        for task in self._members:
            self._model.add_expected_member(task)
        self._session = open_session(session.model, session.settings, session.now)

    def run(self, actions: Sequence[EvictionAction], placed: Container[Task]) -> EvictionPlan | None:
        """Return what has to be evicted; the tasks ``placed`` do not run, and only lose to ``gang``."""
        session, gang = self._session, self.gang
        phase, gang.phase = gang.phase, INQUEUE
        try:
            for action in actions:
                if _ACTIONS[action](session, gang):
                    if gang.is_starving:  # without the plugin gang, a part of it suffices for the action
                        return None
                    running = (task.key for task in self.victims if task not in placed)
                    return EvictionPlan(action, tuple(running))
        finally:
            gang.phase = phase
        return None

    @property
    def victims(self) -> list[Task]:
        gangs = self._model.gangs
        return [gangs[eviction.gang].tasks[eviction.task] for eviction in self._session.evictions]

    @property
    def freed(self) -> Counter[str]:
        """The requests of the victims."""
        freed: Counter[str] = Counter()
        for victim in self.victims:
            freed.update(victim.request)
        return freed

    def undo(self) -> None:
        self._session.undo()
        for task in self._members:
            self._model.remove_expected_member(task)
        for key, node in self._nominated.items():
            self.gang.tasks[key].nominated_node = node


def _class_of(gang: Gang) -> tuple[object, ...]:
    """Return what a search depends on; gangs that have members are only equal to themselves."""
    if gang.tasks:
        return (gang.key,)
    claim = tuple(sorted(node_claim_of(gang).items()))
    return (gang.queue, gang.priority, gang.min_member, claim, tuple(sorted(gang.role_minima.items())))
