"""What the resource claims of pods count for in the amounts of queues.

A queue names a device class as ``deviceclass/NAME``, for a number of devices, or as
``CAPACITY.deviceclass/NAME``, for what claims request of a capacity.  A claim that several pods of a queue
name counts once.  Requests with alternatives (``firstAvailable``) or ``allocationMode: All`` do not count.

Source: Volcano's plugin capacity, 1.15.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from quorate.api.core.device_claims import ALL, ResourceClaim
from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.cache.queue import Queue
from quorate.gang.cache.queue_accounts import Path, ResourceLimits, SessionAccounts, add
from quorate.gang.cache.task import ALLOCATED_STATUSES, CHARGED_STATUSES, Task, TaskStatus
from quorate.gang.shortage import Shortage
from quorate.placement.filters.devices.demand import claim_keys
from quorate.placement.resources import Amounts
from quorate.quota.amount import base_units

_DEVICE_CLASS: Final = "deviceclass/"

Claims = Mapping[Key, ResourceClaim]


def device_amounts(queues: Iterable[Queue], *, with_capacities: bool) -> frozenset[str]:
    """Return the names of the amounts of devices that ``queues`` limit or deserve."""
    return frozenset(
        name
        for queue in queues
        for amounts in (queue.capability, queue.deserved, queue.guarantee)
        for name in amounts
        if name.startswith(_DEVICE_CLASS) or (with_capacities and f".{_DEVICE_CLASS}" in name)
    )


def claimed_amounts(pod: Pod, claims: Claims) -> Iterator[tuple[Key, Amounts]]:
    """Yield the existing claims of ``pod``, each with what it counts for."""
    for key in dict.fromkeys(claim_keys(pod) if pod.spec.resource_claims else ()):
        claim = claims.get(key) if isinstance(key, Key) else None
        if claim is not None and isinstance(key, Key):
            yield key, _amounts(claim)


def _amounts(claim: ResourceClaim) -> Amounts:
    amounts: Counter[str] = Counter()
    for request in claim.spec.devices.requests:
        exactly = request.exactly
        if exactly is None or exactly.allocation_mode == ALL:
            continue
        count, device_class = max(exactly.count, 1), _DEVICE_CLASS + exactly.device_class_name
        amounts[device_class] += count
        for capacity, quantity in exactly.capacity.requests.items():
            name = f"{capacity}.{device_class}"
            amounts[name] += count * base_units(name, quantity)
    return amounts


def claimed_by_queue(model: Model) -> Mapping[str, Amounts]:
    """Return what the claims of tasks with a node count for, by queue, each claim once."""
    charged: dict[str, dict[Key, Amounts]] = {}
    for task in model.tasks_with_claims():
        if task.status in CHARGED_STATUSES:
            claims = charged.setdefault(model.gangs[task.gang].queue, {})
            claims.update(claimed_amounts(task.pod, model.devices.claims))
    return {queue: _total(claims) for queue, claims in charged.items()}


def _total(claims: Mapping[Key, Amounts]) -> Counter[str]:
    """Return the sum over ``claims``."""
    amounts: Counter[str] = Counter()
    for of_claim in claims.values():
        add(amounts, of_claim)
    return amounts


class ClaimedDevices:
    """What the claims of pods take of the amounts ``names``, in the accounts of queues.

    ``path``: see ``SessionAccounts``.
    """

    def __init__(self, model: Model, accounts: SessionAccounts, path: Path, names: Collection[str]) -> None:
        self._model = model
        self._accounts = accounts
        self._path = path
        self._names = names
        self._users: Counter[tuple[str, Key]] = Counter()  # by queue and claim: pods with a node
        self._admitted: dict[str, dict[Key, Amounts]] = {}  # by queue: claims of gangs without nodes
        self.recount()

    def recount(self) -> None:
        """Count all tasks anew in the accounts, which hold no devices."""
        if not self._names:
            return
        self._users.clear()
        self._admitted.clear()
        for task in self._model.tasks_with_claims():
            queue = self._model.gangs[task.gang].queue
            if task.status in CHARGED_STATUSES and queue in self._accounts.by_queue:
                self.count(task, 1)

    def count(self, task: Task, factor: int) -> None:
        """Count that ``task`` has got a node (``factor`` 1), or has lost it (-1)."""
        for key, amounts in self._claims(task):
            for queue in self._path(self._model.gangs[task.gang].queue):
                before = self._users[queue, key]
                self._users[queue, key] = before + factor
                if not before or not self._users[queue, key]:
                    self._accounts.charge(queue, amounts, factor)

    def charge(self, queue: str, task: Task) -> Amounts:
        """Return what ``queue`` is charged for ``task``: its requests, and claims of no other task there."""
        if not self._names or not task.pod.spec.resource_claims:
            return task.request
        charge, own = Counter(task.request), task.status in CHARGED_STATUSES
        for key, amounts in self._claims(task):
            if self._users[queue, key] <= own:
                add(charge, amounts)
        return charge

    def charge_of_gang(self, queue: str, gang: Gang) -> Amounts:
        """Return what ``queue`` is charged for the tasks of ``gang`` with a node and their own claims."""
        tasks = gang.with_status(*ALLOCATED_STATUSES) if self._names else ()
        of_gang = {key: amounts for task in tasks for key, amounts in self._claims(task)}
        users = Counter(key for task in tasks for key, _ in self._claims(task))
        own = {key: amounts for key, amounts in of_gang.items() if users[key] == self._users[queue, key]}
        return Counter(gang.requests.allocated) + _total(own)

    def admit(self, gang: Gang) -> None:
        """Keep what ``gang``, which is admitted, lacks from the gangs that are to be admitted after it."""
        for queue in self._path(gang.queue) if self._names else ():
            self._admitted.setdefault(queue, {}).update(self._missing(queue, gang))

    def shortages(self, queue: str, gang: Gang, limits: ResourceLimits) -> tuple[Shortage, ...]:
        """Return what ``queue`` lacks within ``limits`` for what ``gang`` lacks."""
        if not self._names:
            return ()
        admitted = self._admitted.get(queue, {})
        used = Counter(self._accounts.allocated(queue)) + _total(admitted)
        missing = self._missing(queue, gang)
        return limits.shortages(
            used.__getitem__, _total({key: missing[key] for key in missing.keys() - admitted})
        )

    def _missing(self, queue: str, gang: Gang) -> dict[Key, Amounts]:
        """Return the existing claims of the members that ``gang`` lacks, without those in use."""
        return {
            key: amounts
            for task in _missing_minimum(gang)
            for key, amounts in self._claims(task)
            if not self._users[queue, key]
        }

    def _claims(self, task: Task) -> Iterator[tuple[Key, Amounts]]:
        for key, amounts in claimed_amounts(task.pod, self._model.devices.claims) if self._names else ():
            yield key, {name: amount for name, amount in amounts.items() if name in self._names}


def _missing_minimum(gang: Gang) -> Sequence[Task]:
    """Return the pending tasks, by name, that complete the minimum of ``gang`` or of its roles."""
    tasks = gang.with_status(TaskStatus.PENDING, *CHARGED_STATUSES)
    tasks = sorted(tasks, key=lambda task: (task.status is TaskStatus.PENDING, task.key))
    if gang.role_minima:
        of_roles = (
            [task for task in tasks if task.role == role][:least] for role, least in gang.role_minima.items()
        )
        needed = list(chain.from_iterable(of_roles))
    else:
        needed = tasks[: gang.min_member]
    return [task for task in needed if task.status is TaskStatus.PENDING]
