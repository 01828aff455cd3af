"""The pod group that the pods of a job belong to, as far as whoever starts the job must know of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from quorate.api.meta import Key
from quorate.api.volcano.annotations import GROUP_NAME
from quorate.controllers.jobframework.podset_info import PodSetInfo


@dataclass(frozen=True, slots=True)
class Membership:
    group: Key
    admitted: bool  # pods may be made


class Memberships(Protocol):
    """Which jobs are held back for a pod group besides their quota."""

    def of(self, job: Any) -> Membership | None:
        """None: no group of ours holds this job back."""

    def subscribe(self, on_change: Callable[[Key], None]) -> None:
        """Have ``on_change`` called with each job whose group has changed."""


def with_group(infos: Sequence[PodSetInfo], membership: Membership) -> tuple[PodSetInfo, ...]:
    """What the pod sets of a job start with, and the name of their group."""
    named = {GROUP_NAME: membership.group.name}
    return tuple(msgspec.structs.replace(info, annotations={**info.annotations, **named}) for info in infos)
