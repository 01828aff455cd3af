"""Kubernetes' own pod groups as groups of plain pods that are queued whole.

A queued pod with a ``schedulingGroup`` needs no further labels: the workload waits for as many pods as the
``minCount`` of the group says.  Pods of a group with the basic policy are queued one by one.
"""

from collections.abc import Callable
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.api.native_groups import PodGroup
from quorate.controllers.limits import UNSERVED_INTERVAL_S
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.discovery import wait_until_served
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import NATIVE_POD_GROUPS

NOT_KNOWN_RETRY_S: Final = 1.0


def native_group_name(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


class NativeGroups:
    """The native pod groups of a cluster, which most API servers do not serve."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._informer = Informer(client, NATIVE_POD_GROUPS)
        self._is_absent = False

    @property
    def are_known(self) -> bool:
        """Return True if a group that ``get`` does not find does not exist."""
        return self._is_absent or self._informer.synced.is_set()

    def get(self, key: Key) -> PodGroup | None:
        return self._informer.get(key)

    def is_basic(self, key: Key) -> bool:
        """Return True if each pod of the group is placed, and queued, alone."""
        group = self.get(key)
        return group is not None and group.spec.scheduling_policy.gang is None

    def subscribe(self, on_change: Callable[[Key], None]) -> None:
        """Call ``on_change`` with each group that is created, changed or deleted."""

        def changed(change: Change[PodGroup]) -> None:
            on_change(change.key)

        self._informer.subscribe(changed)

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
