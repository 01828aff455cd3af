"""What comes of looking for a node: a choice, or why there is none, in numbers."""

from dataclasses import dataclass

from quorate.placement.stance import Moment


@dataclass(frozen=True, slots=True)
class Choice:
    """The pod can be on ``node``, now or when those that are being released there are gone."""

    node: str
    moment: Moment


@dataclass(frozen=True, slots=True)
class Barred:
    """Nodes that do not take the pod whatever room they have."""

    reason: str
    nodes: int


@dataclass(frozen=True, slots=True)
class Short:
    """A resource of which nodes that would take the pod have too little, releasing pods counted as gone."""

    resource: str
    nodes: int  # how many have too little of it
    need: int
    by: int  # what the nearest node lacks; 0 when that one lacks something else
    at_most: int  # the most any of the nodes would have if it were empty


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No node takes the pod.

    The nearest node is the one that lacks the smallest part of what the pod asks for, of the resource that it
    lacks most of; of equal ones the first by name.
    """

    nodes: int
    barred: tuple[Barred, ...]  # the most frequent reason first, then in the order of their wording
    short: tuple[Short, ...]  # likewise; a node may be short of several resources
    overdrawn: int  # nodes that gave away more than they have by now, and take nobody
    nearest: str  # "" when no node would take the pod
    possible: int  # nodes that could hold the pod if others left, or something else changed in time

    @property
    def never(self) -> bool:
        """Whether no eviction and no waiting helps: it takes other nodes."""
        return self.possible == 0
