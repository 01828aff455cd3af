"""Membership of a job in a Volcano pod group that must be admitted before it starts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from quorate.api.meta import Key
from quorate.api.names.volcano import GROUP_NAME
from quorate.controllers.jobframework.podset_info import PodSetInfo


@dataclass(frozen=True, slots=True)
class Membership:
    group: Key
    admitted: bool  # pods may be created


class Memberships(Protocol):
    """Looks up the pod groups that jobs have to wait for besides their quota."""

    def of(self, job: Any) -> Membership | None:
        """Return the membership of a job; None: the job does not wait for a pod group."""

    def subscribe(self, on_change: Callable[[Key], None]) -> None:
        """Call ``on_change`` with a job when its group has changed."""


def with_group(infos: Sequence[PodSetInfo], membership: Membership) -> tuple[PodSetInfo, ...]:
    """Add the name of the group to the annotations of all pod sets."""
    annotation = {GROUP_NAME: membership.group.name}
    return tuple(
        msgspec.structs.replace(info, annotations={**info.annotations, **annotation}) for info in infos
    )
