"""Plugin ``pdb``: evict no pod beyond the disruptions that its PodDisruptionBudgets allow.

Source: the plugin of the same name of Volcano.  There, each choice of victims begins with the
``disruptionsAllowed`` of the status anew.  Here a pod that is leaving counts until it is gone, because the
status shows it only later.
"""

from collections.abc import Sequence
from itertools import chain

from quorate.api.core.scheduling import PodDisruptionBudget
from quorate.api.meta import Key, Uid, matches_selector
from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import EVICTABLE_STATUSES, Task, TaskStatus
from quorate.gang.session.callbacks import PluginCallbacks
from quorate.gang.session.session import Session


def pdb(session: Session, entry: PluginEntry) -> PluginCallbacks:
    budgets = _Budgets(session)
    return PluginCallbacks(
        preemptable=budgets.permitted,
        reclaimable=budgets.permitted,
        gang_protected=budgets.protect_gang,
        on_allocate=budgets.on_allocate,
        on_deallocate=budgets.on_deallocate,
    )


class _Budgets:
    """The budgets of a session, with the evictions that it decided."""

    def __init__(self, session: Session) -> None:
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for key, budget in session.model.disruption_budgets.items():
            self._by_namespace.setdefault(key.namespace, []).append(budget)
        self._of_task: dict[Uid, tuple[PodDisruptionBudget, ...]] = {}
        self._leaving: dict[Key, set[Uid]] = {}  # by budget
        if self._by_namespace:
            gangs = session.model.gangs.values()
            for task in chain.from_iterable(gang.with_status(TaskStatus.RELEASING) for gang in gangs):
                self.on_deallocate(task)

    def on_deallocate(self, task: Task) -> None:
        if task.status is TaskStatus.RELEASING:
            for budget in self._budgets_of(task):
                self._leaving.setdefault(budget.metadata.key, set()).add(task.uid)

    def on_allocate(self, task: Task) -> None:
        """Note that an eviction of ``task`` was undone, or that it was allocated: then it was not leaving."""
        for budget in self._budgets_of(task):
            self._leaving.get(budget.metadata.key, set()).discard(task.uid)

    def permitted(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return the candidates, the first ones first, that may all be evicted together."""
        left: dict[Key, int] = {}
        victims = []
        for task in candidates:
            budgets = self._budgets_of(task)
            for budget in budgets:
                left.setdefault(budget.metadata.key, self._left(budget))
            if all(left[budget.metadata.key] > 0 for budget in budgets):
                victims.append(task)
                for budget in budgets:
                    left[budget.metadata.key] -= 1
        return victims

    def protect_gang(self, gang: Gang) -> bool:
        """Return True if the budgets do not allow to evict all of ``gang`` at once."""
        tasks = gang.with_status(*EVICTABLE_STATUSES)
        return len(self.permitted(tasks[0], tasks)) < len(tasks) if tasks else False

    def _left(self, budget: PodDisruptionBudget) -> int:
        return budget.status.disruptions_allowed - len(self._leaving.get(budget.metadata.key, ()))

    def _budgets_of(self, task: Task) -> tuple[PodDisruptionBudget, ...]:
        """Return the budgets that count a disruption of ``task``."""
        if not self._by_namespace:
            return ()
        budgets = self._of_task.get(task.uid)
        if budgets is None:
            in_namespace = self._by_namespace.get(task.key.namespace, ())
            budgets = tuple(budget for budget in in_namespace if _counts(budget, task))
            self._of_task[task.uid] = budgets
        return budgets


def _counts(budget: PodDisruptionBudget, task: Task) -> bool:
    """Return True if ``budget`` counts a disruption of ``task``.

    As in kube-scheduler, an empty selector selects no pod.
    """
    selector = budget.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    if task.key.name in budget.status.disrupted_pods:
        return False
    return matches_selector(selector, task.pod.metadata.labels)
