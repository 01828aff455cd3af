"""Jobs that make jobs: who is managed as a part of another one.

Kueue's rule: the topmost job up the chain of controllers that is managed itself manages all below it; they
get no workload of their own.  Kinds that nobody queues end the chain.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from quorate.api.meta import Key, ObjectMeta, OwnerReference, Uid
from quorate.controllers.jobs import JobObject
from quorate.controllers.jobs.construct import queue_name_of
from quorate.kube.resources import Resource

Find = Callable[[Key], JobObject | None]

MOST_LEVELS = 10  # as in Kueue; it also ends a chain that bites its tail


@dataclass(frozen=True, slots=True)
class NotSeen:
    """An owner of a kind that is queued, which our copy does not have, or not yet."""

    owner: OwnerReference


class Ancestry:
    def __init__(self, kinds: Iterable[Resource[Any]], manage_jobs_without_queue_name: bool) -> None:
        self._kinds = {(resource.api_version, resource.kind) for resource in kinds}
        self._finders: dict[tuple[str, str], Find] = {}  # of the kinds that are served
        self._manage_all = manage_jobs_without_queue_name

    def add(self, resource: Resource[Any], find: Find) -> None:
        """From now on jobs of this kind can be found."""
        self._finders[resource.api_version, resource.kind] = find

    def manager_of(self, metadata: ObjectMeta) -> Uid | NotSeen | None:
        """The job that ``metadata`` belongs to as a part; ``None`` when it stands for itself."""
        topmost: Uid | None = None
        for _ in range(MOST_LEVELS):
            owner = metadata.controller
            if owner is None or (owner.api_version, owner.kind) not in self._kinds:
                break
            find = self._finders.get((owner.api_version, owner.kind))
            found = None if find is None else find(Key(metadata.namespace, owner.name))
            if found is None:
                return NotSeen(owner)
            if found.metadata.uid != owner.uid:
                break  # the owner is gone, and another took its name
            metadata = found.metadata
            if self._manage_all or queue_name_of(metadata):
                topmost = metadata.uid
        return topmost
