"""Kubernetes' own pod groups, which plain pods and the pod templates of queued jobs name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from quorate.api.kueue.topology import Topology
from quorate.api.meta import Key, Uid
from quorate.api.native_groups import PodGroup
from quorate.controllers.limits import UNSERVED_INTERVAL_S
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.discovery import wait_until_served
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import NATIVE_POD_GROUPS

_CONTROLLER: Final = "controller"  # index of groups by the uid of the object that controls them


@dataclass(frozen=True, slots=True)
class NativeGroupView:
    """The native pod groups as they concern one job."""

    are_known: bool  # a group that ``get`` does not find does not exist
    get: Callable[[Key], PodGroup | None]
    made: PodGroup | None = None  # the group that the controller of the job has made for all its pods
    topology_levels: frozenset[str] = frozenset()  # node labels of all Topologies, where quota knows places


class NativeGroups:
    """The native pod groups of a cluster, which most API servers do not serve."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._informer = Informer(client, NATIVE_POD_GROUPS)
        self._informer.add_index(_CONTROLLER, _controller)
        self._is_absent = False

    @property
    def are_known(self) -> bool:
        """Return True if a group that ``get`` does not find does not exist."""
        return self._is_absent or self._informer.synced.is_set()

    def get(self, key: Key) -> PodGroup | None:
        return self._informer.get(key)

    def view(self, job: Uid, topologies: Iterable[Topology]) -> NativeGroupView | None:
        """Return the groups as they concern one job; None if the API server has none."""
        if self._is_absent:
            return None
        made = self._informer.by_index(_CONTROLLER, job)
        levels = (level.node_label for topology in topologies for level in topology.spec.levels)
        return NativeGroupView(
            self.are_known, self.get, made[0] if len(made) == 1 else None, frozenset(levels)
        )

    def is_basic(self, key: Key) -> bool:
        """Return True if each pod of the group is placed, and queued, alone."""
        group = self.get(key)
        return group is not None and group.spec.scheduling_policy.gang is None

    def subscribe(self, on_change: Callable[[Change[PodGroup]], None]) -> None:
        """Call ``on_change`` with each group that is created, changed or deleted."""
        self._informer.subscribe(on_change)

    async def run(self) -> None:
        """Keep the groups up to date until cancelled, once the API server serves them."""
        await wait_until_served(
            NATIVE_POD_GROUPS, self._client, self._clock, on_absent=self._note_absent,
            interval_s=UNSERVED_INTERVAL_S,
        )  # fmt: skip
        self._is_absent = False
        await self._informer.run()

    def _note_absent(self) -> None:
        self._is_absent = True


def _controller(group: PodGroup) -> tuple[Uid, ...]:
    owner = group.metadata.controller
    return () if owner is None else (owner.uid,)
