"""Why a gang waits that must be within one HyperNode; see ``pending_reasons``."""

from dataclasses import dataclass
from typing import ClassVar

from quorate.gang.shortage import NEVER_FITS, counted, rounded_down, rounded_up


@dataclass(frozen=True, slots=True)
class NetworkTopologyUnsatisfied:
    """No HyperNode of the tiers that a hard ``networkTopology`` allows takes the members that are needed."""

    reason: ClassVar[str] = "NetworkTopologyUnsatisfied"
    limit: str  # the tiers, as text
    needed: int
    hyper_nodes: int  # with nodes, of these tiers
    best: str  # the one that takes most members; "" if there is none
    room: int  # how many it takes
    sub_group: str = ""  # "" if all members are meant
    beside_placed: bool = False  # whether other members have nodes, which the HyperNode must contain
    never_fits: bool = False  # whether it takes no more with all other pods gone
    by_amounts: int = 0  # how many it takes by resources, if constraints between pods leave less room

    def __str__(self) -> str:
        pods = counted(self.needed, "more pod" if self.beside_placed else "pod")
        needs = f"needs {pods} within one HyperNode of {self.limit}"
        if self.beside_placed:
            needs += " that contains its other pods"
        if self.sub_group:
            needs = f"sub group {self.sub_group} {needs}"
        if not self.hyper_nodes:
            return f"{needs}: there is none with nodes"
        text = f"{needs}: the largest of {self.hyper_nodes} has room for {self.room} ({self.best})"
        if self.by_amounts:
            text += f", and by resources alone for {self.by_amounts}"
        return f"{text}, {NEVER_FITS}" if self.never_fits else text


@dataclass(frozen=True, slots=True)
class HyperNodesTooSmall:
    """``minResources`` exceed what any HyperNode of the allowed tiers has, even without pods (design)."""

    reason: ClassVar[str] = "NetworkTopologyUnsatisfied"
    limit: str
    resource: str
    needed: int
    hyper_nodes: int
    best: str
    at_most: int

    def __str__(self) -> str:
        name = self.resource
        needs = f"needs {name}: {rounded_up(name, self.needed)} within one HyperNode of {self.limit}"
        if not self.best:
            return f"{needs}: none exists with nodes that have it, {NEVER_FITS}"
        return (
            f"{needs}: the largest of {self.hyper_nodes} has {rounded_down(name, self.at_most)} "
            f"({self.best}), {NEVER_FITS}"
        )


@dataclass(frozen=True, slots=True)
class NoSuchTier:
    """No HyperNode of the allowed tiers has nodes (design)."""

    reason: ClassVar[str] = "NetworkTopologyUnsatisfied"
    limit: str

    def __str__(self) -> str:
        return f"must be within one HyperNode of {self.limit}, and none exists with nodes, {NEVER_FITS}"
